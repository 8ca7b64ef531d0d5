"""The files of pages: one memory for all responses, two codings, an ETag for each."""

from __future__ import annotations

import asyncio
import gzip
import os
from collections.abc import MutableMapping
from pathlib import Path
from typing import Any

import pytest
from fastapi import FastAPI, Request, Response

from support.http.asgi import Answer, ask, scope_of
from tensor_round.contract.errors import NotFound
from tensor_round_service.backends.cpu.backend import NumpyBackend
from tensor_round_service.engine.job import Job
from tensor_round_service.engine.memory import Memory
from tensor_round_service.net.asgi import AsgiRequest, respond_by_asgi
from tensor_round_service.pages import PageFile, PageFiles, wants_html

SCRIPT = b"export const answer = 42;\n" * 100
GZIP = ("Accept-Encoding", "gzip, deflate, br, zstd")


@pytest.fixture(scope="module")
def app() -> FastAPI:
    """An application with one compressible file, and one that is not."""
    app = FastAPI()
    files = {"x.js": PageFile("x.js", SCRIPT), "x.png": PageFile("x.png", os.urandom(500))}

    @app.get("/{name}")
    async def file(name: str, request: Request) -> Response:
        return files[name].response(request, {"X-More": "1"}, vary="Accept")

    return app


def script(app: FastAPI, *headers: tuple[str, str]) -> Answer:
    return ask(app, "GET", "/x.js", list(headers))


def test_a_file_is_sent_as_it_is(app: FastAPI) -> None:
    plain = script(app)
    assert (plain.status, plain.content) == (200, SCRIPT)
    assert plain.headers["content-type"] == "text/javascript; charset=utf-8"
    assert plain.headers["cache-control"] == "no-cache"
    assert plain.headers["vary"] == "Accept, Accept-Encoding"
    assert plain.headers["x-more"] == "1"
    assert "content-encoding" not in plain.headers


def test_client_that_accepts_gzip_gets_it(app: FastAPI) -> None:
    compressed = script(app, GZIP)
    assert compressed.headers["content-encoding"] == "gzip"
    assert len(compressed.content) < len(SCRIPT) / 10
    assert gzip.decompress(compressed.content) == SCRIPT
    assert compressed.headers["etag"] != script(app).headers["etag"]
    assert "content-encoding" not in script(app, ("Accept-Encoding", "gzip;q=0, br")).headers
    # What gzip makes longer is sent as it is.
    assert "content-encoding" not in ask(app, "GET", "/x.png", [GZIP]).headers


@pytest.mark.parametrize("coding", [(), (GZIP,)], ids=["plain", "gzip"])
def test_client_with_the_current_file_gets_304(
    app: FastAPI, coding: tuple[tuple[str, str], ...]
) -> None:
    etag = script(app, *coding).headers["etag"]
    for known in (etag, f"W/{etag}", f'"other", {etag}', "*"):
        reply = script(app, *coding, ("If-None-Match", known))
        assert (reply.status, reply.content) == (304, b"")
        assert reply.headers["etag"] == etag
        assert reply.headers["vary"] == "Accept, Accept-Encoding"
        assert "content-length" not in reply.headers
    for other in ('"other"', etag[:-2] + '"', ""):
        assert script(app, *coding, ("If-None-Match", other)).status == 200


def test_responses_share_the_memory_of_the_file(app: FastAPI) -> None:
    async def receive() -> MutableMapping[str, Any]:
        raise AssertionError("the body was asked for")

    async def memories() -> list[object]:
        memory = Memory(NumpyBackend().allocate, 1 << 20)
        requests = [AsgiRequest(scope_of("GET", "/x.js", []), receive) for _ in range(2)]
        jobs = [Job(memory) for _ in requests]
        responses = [
            await respond_by_asgi(app, request, job)
            for request, job in zip(requests, jobs, strict=True)
        ]
        assert memory.in_use == 0
        parts = [part for response in responses for part in response.parts if part]
        return [part.obj for part in parts if isinstance(part, memoryview)]

    one, other = asyncio.run(memories())
    assert one is other
    assert one == SCRIPT


def test_a_folder_has_no_other_files(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "b.css").write_text("p {}")
    (tmp_path / "c.js").write_text("let c;")
    files = PageFiles(tmp_path, ["a/b.css"])
    assert isinstance(files["a/b.css"], PageFile)
    for name in ("c.js", "a", "", "../c.js", "a/../a/b.css"):
        with pytest.raises(NotFound):
            files[name]


CHROMIUM = "text/html,application/xhtml+xml,application/xml;q=0.9,image/avif,*/*;q=0.8"
PROGRAMS = ["", "*/*", "application/json", "application/json, text/plain, */*", "image/png"]


@pytest.mark.parametrize(
    ("accept", "is_html"),
    [
        *(
            (accept, True)
            for accept in (CHROMIUM, "text/html", "text/html, application/json;q=0.9")
        ),
        *((accept, False) for accept in PROGRAMS),
        ("application/json, text/html", False),
        ("text/html;q=0", False),
    ],
)
def test_browsers_get_html_and_programs_json(accept: str, is_html: bool) -> None:
    assert wants_html(accept) is is_html
