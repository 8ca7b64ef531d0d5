"""Bodies of inferences that are refused: stated lengths, codings, JSON, digests, sizes."""

from __future__ import annotations

import contextlib
import gzip
import json
import time
from typing import Any

import numpy as np
import pytest

from support.http.inference_form import (
    GOOD,
    HEADER_LENGTH,
    PAYLOAD,
    binary,
    document,
    error_of,
    infer,
    infer_path,
    of,
    tensor,
)
from support.services.server import Reply, Service

HEAD = json.dumps(GOOD).encode()
N = len(HEAD)
GZIP = {"Content-Encoding": "gzip"}

#: A field beside the stated length of the head, and the body; status, and what the error says.
BODIES: dict[str, tuple[dict[str, str], bytes, int, str]] = {
    "head-cut": ({}, HEAD[:-1], 400, HEADER_LENGTH),
    "not-gzip": (GZIP, HEAD + PAYLOAD, 400, "decode"),
    "cut": (GZIP, gzip.compress(HEAD + PAYLOAD)[:-9], 400, "ends before"),
    "short": (GZIP, gzip.compress(HEAD + PAYLOAD[:-1]), 400, "must have 40 bytes"),
    "long": (GZIP, gzip.compress(HEAD + PAYLOAD + b"x"), 400, "40 bytes"),
    "bomb": (GZIP, gzip.compress(HEAD + bytes(64 << 20), 1), 400, "40 bytes"),
    "brotli": ({"Content-Encoding": "br"}, HEAD + PAYLOAD, 415, "gzip"),
    "digest": ({"Content-Digest": f"sha-256=:{'A' * 43}=:"}, HEAD + PAYLOAD, 400, "SHA-256"),
    "length-twice": ({HEADER_LENGTH: f"{N}, {N}"}, HEAD + PAYLOAD, 400, HEADER_LENGTH),
}


@pytest.mark.parametrize(("fields", "body", "status", "says"), BODIES.values(), ids=BODIES)
def test_refused_bodies(
    service: Service, fields: dict[str, str], body: bytes, status: int, says: str
) -> None:
    headers = {HEADER_LENGTH: str(N), **fields}
    reply = service.request("POST", infer_path("round"), body, headers)
    assert reply.status == status
    assert says in error_of(reply)
    assert infer(service, GOOD, PAYLOAD).status == 200


#: What is sent, what follows it; status, and what the error says. Members are the codec's.
DOCUMENTS: dict[str, tuple[Any, bytes | None, int, str]] = {
    "raw-nothing": (b"", b"", 400, "multiple of 4"),
    "raw-part-of-an-element": (b"", PAYLOAD[:-1], 400, "multiple of 4"),
    "not-json": (b"{", None, 400, "not JSON"),
    "dtype-number": (of(parameters={"dtype": 8}), None, 400, "dtype of a FP32"),
    "few-numbers": (of(data=[1]), None, 400, "has 1 element,"),
    "number-for-array": (of(data=1), None, 400, "inputs.0.data: must be an array"),
    "binary-size": (
        *(document(binary("FP32", [10], 44)), PAYLOAD + bytes(4), 400),
        "40 bytes by its shape and datatype, the request gives 44",
    ),
    "length-not-stated": (HEAD + PAYLOAD, None, 400, "JSON"),
    "bytes-after-numbers": (document(tensor("FP32", [1], data=[1])), b"x", 400, "0 bytes"),
    "overflowing-numbers": (of(shape=[1 << 32, 1 << 32]), None, 413, "limit"),
    "beyond-any-size": (of(shape=[1 << 64]), None, 400, "inputs.0"),
    "too-large": (document(binary("FP32", [1 << 31], 1 << 33)), b"", 413, "limit"),
}


@pytest.mark.parametrize(
    ("request_", "payload", "status", "says"), DOCUMENTS.values(), ids=DOCUMENTS
)
def test_refused_documents(
    service: Service, request_: Any, payload: bytes | None, status: int, says: str
) -> None:
    reply = infer(service, request_, payload)
    assert reply.status == status
    assert says in error_of(reply)
    assert infer(service, GOOD, PAYLOAD).status == 200


def test_a_json_bomb(service: Service) -> None:
    body = gzip.compress(b'{"inputs":' + b" " * (64 << 20))
    reply = service.request("POST", infer_path("round"), body, GZIP)
    assert reply.status == 413
    assert error_of(reply)


def test_an_output_too_large_for_json(service: Service) -> None:
    x = np.ones((8 << 20) + 1, "i1")
    reply = infer(service, document(binary("INT8", [x.size], x.nbytes)), x.tobytes())
    assert reply.status == 413
    assert "binary" in error_of(reply)


@pytest.mark.not_behind("nginx", reason="it has a limit of its own, or waits for the body")
@pytest.mark.parametrize(
    ("length", "stated", "status"),
    [
        (10 << 30, N, 413),  # a tensor over the limit
        (10 << 30, None, 413),  # JSON over its limit
        (10 << 30, 10 << 30, 413),
        (N, N + 1, 400),
    ],
)
def test_a_refusal_does_not_wait_for_the_body(
    service: Service, length: int, stated: int | None, status: int
) -> None:
    with contextlib.closing(service.connection(timeout=20)) as connection:
        began = time.monotonic()
        connection.putrequest("POST", infer_path("round"))
        if stated is not None:
            connection.putheader(HEADER_LENGTH, str(stated))
        connection.putheader("Content-Length", str(length))
        connection.endheaders()
        reply = Reply.read(connection)
        assert reply.status == status
        assert error_of(reply)
        assert time.monotonic() - began < 20


@pytest.mark.not_behind("nginx-buffering", reason="it waits for the body")
def test_a_refusal_after_the_head_does_not_wait_for_the_rest(service: Service) -> None:
    with contextlib.closing(service.connection(timeout=20)) as connection:
        connection.putrequest("POST", infer_path("round"))
        connection.putheader(HEADER_LENGTH, str(N))
        connection.putheader("Content-Length", str(N + (1 << 20)))
        connection.endheaders(HEAD)
        connection.send(bytes(1 << 17))
        reply = Reply.read(connection)
        assert reply.status == 400
        assert "must have 40 bytes, as its shape and datatype say, got 1048576" in error_of(reply)
