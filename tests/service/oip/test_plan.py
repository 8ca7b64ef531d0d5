"""Inference requests that come in pieces, end early or go on too long, without a socket."""

from __future__ import annotations

import asyncio
import gzip
import json
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pytest
from fastapi import FastAPI

from support.http.inference_form import HEADER_LENGTH, X, binary, document, infer_path, tensor
from tensor_round_service.app import create_app
from tensor_round_service.backends.cpu.backend import NumpyBackend
from tensor_round_service.engine.engine import Engine
from tensor_round_service.settings import Settings

BINARY_OUT = {"parameters": {"binary_data_output": True}}
HEAD = json.dumps(document(binary("FP32", [10], 40), **BINARY_OUT)).encode()
INLINE = json.dumps(document(tensor("FP32", [10], data=X.tolist()), **BINARY_OUT)).encode()
EXPECTED = np.rint(X).tobytes()
#: Body, and the stated length of its head.
BODIES: dict[str, tuple[bytes, int | None]] = {
    "binary": (HEAD + X.tobytes(), len(HEAD)),
    "json": (INLINE, None),
    "json-of-stated-length": (INLINE, len(INLINE)),
    "raw": (X.tobytes(), 0),
}
each_body = pytest.mark.parametrize(("body", "stated"), BODIES.values(), ids=BODIES)


@pytest.fixture(scope="module")
def engine() -> Iterator[Engine]:
    made = Engine(NumpyBackend())
    yield made
    assert made.memory.in_use == 0
    made.close()


@pytest.fixture(scope="module")
def app(engine: Engine) -> FastAPI:
    return create_app(Settings(), engine)


def ask(
    app: FastAPI,
    pieces: Sequence[bytes | None],
    stated: int | None,
    *,
    declared: bool = True,
    coding: str = "identity",
) -> tuple[int, bytes]:
    """Status and content for a body in these pieces; None in them is the sender hanging up.

    Without an answer the status is 0.
    """
    fields = {"content-encoding": coding}
    if declared:
        fields["content-length"] = str(sum(len(piece or b"") for piece in pieces))
    if stated is not None:
        fields[HEADER_LENGTH.lower()] = str(stated)
    scope = {
        "type": "http",
        "method": "POST",
        "path": infer_path("round"),
        "query_string": b"",
        "headers": [(name.encode(), value.encode()) for name, value in fields.items()],
    }
    messages = iter(
        {"type": "http.disconnect"}
        if piece is None
        else {"type": "http.request", "body": piece, "more_body": position < len(pieces) - 1}
        for position, piece in enumerate(pieces)
    )
    status: list[int] = []
    content = bytearray()

    async def receive() -> Any:
        return next(messages)

    async def send(message: Any) -> None:
        if message["type"] == "http.response.start":
            status.append(message["status"])
        else:
            content.extend(message["body"])

    asyncio.run(app(scope, receive, send))
    return sum(status), bytes(content)


each_length = pytest.mark.parametrize("declared", [True, False], ids=["declared", "chunked"])


@each_body
@each_length
@pytest.mark.parametrize("size", [1, 3, 1000])
def test_a_body_in_pieces(
    app: FastAPI, body: bytes, stated: int | None, size: int, declared: bool
) -> None:
    pieces = [b"", *(body[at : at + size] for at in range(0, len(body), size)), b""]
    status, content = ask(app, pieces, stated, declared=declared)
    assert (status, content.endswith(EXPECTED)) == (200, True)


@each_body
@each_length
@pytest.mark.parametrize("coding", ["identity", "gzip"])
def test_a_body_cut_anywhere(
    app: FastAPI, body: bytes, stated: int | None, coding: str, declared: bool
) -> None:
    sent = gzip.compress(body) if coding == "gzip" else body
    assert ask(app, [sent], stated, declared=declared, coding=coding)[0] == 200
    for length in range(len(sent)):
        status, content = ask(app, [sent[:length]], stated, declared=declared, coding=coding)
        if coding == "identity" and stated == 0 and length and length % 4 == 0:
            assert status == 200  # fewer elements are a tensor too
            continue
        assert status == 400, length
        assert list(json.loads(content)) == ["error"]


@each_body
@each_length
@pytest.mark.parametrize("trailing", [b"\0", b"}", bytes(70_000)], ids=len)
def test_trailing_bytes(
    app: FastAPI, body: bytes, stated: int | None, trailing: bytes, declared: bool
) -> None:
    for pieces in ([body + trailing], [body, trailing]):
        status, _ = ask(app, pieces, stated, declared=declared)
        assert status == (200 if stated == 0 and len(trailing) % 4 == 0 else 400)


@each_body
def test_a_sender_that_hangs_up_anywhere(
    app: FastAPI, engine: Engine, body: bytes, stated: int | None
) -> None:
    for length in range(0, len(body), 3):
        assert ask(app, [body[:length], None], stated, declared=False) == (0, b"")
        assert engine.memory.in_use == 0
