"""Inference requests that come in pieces, end early or go on too long, without a socket."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator, Sequence

import numpy as np
import pytest
from fastapi import FastAPI

from support.http import asgi
from support.http.inference_form import (
    BINARY_OUT,
    GOOD,
    HEADER_LENGTH,
    X,
    document,
    infer_path,
    tensor,
)
from tensor_round_service.app import create_app
from tensor_round_service.backends.cpu.backend import NumpyBackend
from tensor_round_service.engine.engine import Engine
from tensor_round_service.settings import Settings

HEAD = json.dumps(GOOD).encode()
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
    """Status and content for a body in these pieces, whose head has the stated length."""
    fields = [("content-encoding", coding)]
    if declared:
        fields.append(("content-length", str(sum(len(piece or b"") for piece in pieces))))
    if stated is not None:
        fields.append((HEADER_LENGTH, str(stated)))
    answer = asgi.ask(app, "POST", infer_path("round"), fields, pieces)
    return answer.status, answer.content


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
