"""The files of the pages, as a browser gets them from a clone: nothing builds them."""

from __future__ import annotations

import contextlib
import gzip
import hashlib
import posixpath
import re
import socket
import time
from collections.abc import Mapping
from pathlib import Path

import pytest

from support.services.server import Reply, Service

WEB = Path(__file__).parents[3] / "service" / "tensor_round_service" / "pages" / "web"
BROWSER = {"Accept": "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"}
TYPES = {".js": "text/javascript", ".css": "text/css", ".svg": "image/svg+xml"}
SWAGGER = "/docs/swagger-ui-bundle.js"
#: What of the page may be compressed, and is.
LARGE_FILES = ["/", "/page/main.js", "/page/page.css", "/page/client/client.js", SWAGGER]


def fetch(service: Service, path: str, headers: Mapping[str, str] | None = None) -> Reply:
    return service.request(
        "GET", path, headers={**(BROWSER if path == "/" else {}), **(headers or {})}
    )


def referred(path: str, text: str) -> set[str]:
    """The paths of the files that a file needs."""
    if path == "/":
        found = re.findall(r'(?:src|href)="([^"]+\.\w+)"', text)
    else:
        found = re.findall(r'^(?:import|export) .*?from "([^"]+)";$', text, re.MULTILINE)
        assert all(name.startswith("./") for name in found), found
    return {posixpath.normpath(posixpath.join(posixpath.dirname(path), name)) for name in found}


def test_the_page_and_all_that_it_needs_are_served(service: Service) -> None:
    waiting, seen = ["/"], {"/"}
    while waiting:
        path = waiting.pop()
        reply = fetch(service, path)
        assert reply.status == 200, path
        suffix = posixpath.splitext(path)[1]
        assert (reply.headers["Content-Type"] or "").split(";")[0] == TYPES.get(suffix, "text/html")
        name = "index.html" if path == "/" else path.removeprefix("/page/")
        assert reply.content == (WEB / name).read_bytes()
        if suffix in ("", ".js"):
            more = referred(path, reply.content.decode()) - seen
            waiting += more
            seen |= more
    files = {f"/page/{f.relative_to(WEB).as_posix()}" for f in WEB.rglob("*") if f.suffix in TYPES}
    # The page imports what it uses of the client by its index.
    assert files == seen - {"/"}


def test_programs_get_json_at_the_same_path(service: Service) -> None:
    for accept in ("*/*", "application/json", ""):
        reply = service.request("GET", "/", headers={"Accept": accept})
        assert reply.headers["Content-Type"] == "application/json"
        assert reply.headers["Vary"] == "Accept"
        assert reply.json()["links"]["operators"] == "/operators"
    assert (fetch(service, "/").headers["Vary"] or "").split(", ")[0] == "Accept"


@pytest.mark.parametrize("path", ["/page/", "/page/index.html", "/page/client/package.json"])
def test_nothing_else_is(service: Service, path: str) -> None:
    assert fetch(service, path).status == 404


def test_the_page_runs_its_own_scripts_alone_and_asks_no_other_host(service: Service) -> None:
    reply = fetch(service, "/")
    policy = reply.headers["Content-Security-Policy"]
    assert policy.startswith("default-src 'none'; script-src 'self'; style-src 'self'; ")
    assert "connect-src 'self'" in policy
    assert "unsafe" not in policy
    html = reply.content.decode()
    assert not re.search(r"<script(?! type=\"module\" src=)|<style| style=| on\w+=", html)
    assert not re.search(r'(?:src|href)="(?:\w+:|//|/)', html)  # relative: a proxy may add a path


@pytest.mark.not_behind("nginx", reason="it compresses, and changes ETags, by itself")
@pytest.mark.parametrize("path", LARGE_FILES)
def test_files_are_compressed_and_known_by_their_etag(service: Service, path: str) -> None:
    plain, compressed = fetch(service, path), fetch(service, path, {"Accept-Encoding": "br, gzip"})
    assert compressed.headers["Content-Encoding"] == "gzip"
    assert gzip.decompress(compressed.content) == plain.content
    assert len(compressed.content) < len(plain.content)
    for reply in (plain, compressed):
        assert "Accept-Encoding" in reply.headers["Vary"]
        assert reply.headers.get_all("Cache-Control") == ["no-cache"]
    again = {"Accept-Encoding": "gzip", "If-None-Match": compressed.headers["ETag"]}
    known = fetch(service, path, again)
    assert (known.status, known.content) == (304, b"")
    assert "Content-Length" not in known.headers
    assert fetch(service, path, {"If-None-Match": compressed.headers["ETag"]}).status == 200


@pytest.mark.parametrize("path", LARGE_FILES)
def test_head_is_where_get_is(service: Service, path: str) -> None:
    reply = service.request("HEAD", path, headers=BROWSER)
    assert (reply.status, reply.content) == (200, b"")
    assert int(reply.headers["Content-Length"]) == len(fetch(service, path, BROWSER).content)


def test_unread_file_takes_no_memory(tmp_path: Path) -> None:
    keys = tmp_path / "keys"
    keys.write_text(f"{hashlib.sha256(b'secret').hexdigest()} alice\n")
    asked = f"GET {SWAGGER} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode() * 8
    with Service("--api-keys-file", str(keys)) as service, contextlib.ExitStack() as plugs:
        size = len(service.get(SWAGGER).content)
        before = service.rss()
        for _ in range(100):
            plug = plugs.enter_context(contextlib.closing(service.connect()))
            plug.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            plug.sendall(asked)
        deadline = time.monotonic() + 5
        while time.monotonic() < deadline and service.rss() - before < 10 * size:
            time.sleep(0.5)
        assert service.rss() - before < 10 * size
        assert service.get("/livez").status == 200
