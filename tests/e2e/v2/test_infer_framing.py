"""Bodies of inferences that are refused: stated lengths, codings, digests, sizes."""

from __future__ import annotations

import base64
import contextlib
import gzip
import hashlib
import json
import time

import numpy as np
import pytest

from support.cases.inference_refusals import DIRECTML, GOOD, PAYLOAD
from support.http.inference_form import (
    HEADER_LENGTH,
    binary,
    document,
    error_of,
    infer,
    infer_path,
)
from support.services.server import Reply, Service

HEAD = json.dumps(GOOD).encode()


@pytest.mark.parametrize(
    "stated", ["-1", "x", "1.0", "0x40", "", str(len(HEAD) + 41), "99999999999", "9" * 30]
)
def test_stated_lengths_of_the_head(service: Service, stated: str) -> None:
    reply = infer(service, GOOD, PAYLOAD, headers={HEADER_LENGTH: stated})
    assert reply.status == 400
    assert HEADER_LENGTH in error_of(reply)


@pytest.mark.parametrize("stated", [1, len(HEAD) - 1, len(HEAD) + 1, len(HEAD) + 40])
def test_wrong_but_possible_lengths_of_the_head(service: Service, stated: int) -> None:
    reply = infer(service, GOOD, PAYLOAD, headers={HEADER_LENGTH: str(stated)})
    assert reply.status == 400
    assert error_of(reply)


def test_two_lengths_of_the_head(service: Service) -> None:
    with contextlib.closing(service.connection()) as connection:
        connection.putrequest("POST", infer_path("round"))
        connection.putheader(HEADER_LENGTH, str(len(HEAD)))
        connection.putheader(HEADER_LENGTH, str(len(HEAD)))
        connection.putheader("Content-Length", str(len(HEAD) + 40))
        connection.endheaders(HEAD + PAYLOAD)
        assert HEADER_LENGTH in error_of(Reply.read(connection))


RAW: dict[str, tuple[str, bytes, str]] = {
    "nothing": ("round", b"", "multiple of 4"),
    "part-of-an-element": ("round", PAYLOAD[:-1], "multiple of 4"),
    "rank-4-model": (DIRECTML + "/versions/2_1", PAYLOAD, "exactly 4 dimensions, got 1"),
}


@pytest.mark.parametrize(("model", "body", "says"), RAW.values(), ids=RAW)
def test_raw_bodies(service: Service, model: str, body: bytes, says: str) -> None:
    reply = infer(service, b"", body, model, headers={HEADER_LENGTH: "0"})
    assert reply.status == 400
    assert says in error_of(reply)


PACKED: dict[str, tuple[str, bytes, int, str]] = {
    "not-gzip": ("gzip", HEAD + PAYLOAD, 400, "decode"),
    "not-deflate": ("deflate", HEAD + PAYLOAD, 400, "decode"),
    "nothing": ("gzip", b"", 400, "ends before"),
    "cut": ("gzip", gzip.compress(HEAD + PAYLOAD)[:-9], 400, "ends before"),
    "cut-in-the-head": ("gzip", gzip.compress(HEAD + PAYLOAD)[:30], 400, "ends before"),
    "short": ("gzip", gzip.compress(HEAD + PAYLOAD[:-1]), 400, "must have 40 bytes"),
    "long": ("gzip", gzip.compress(HEAD + PAYLOAD + b"x"), 400, "40 bytes"),
    "bomb": ("gzip", gzip.compress(HEAD + bytes(64 << 20), 1), 400, "40 bytes"),
    "brotli": ("br", HEAD + PAYLOAD, 415, "gzip"),
    "two": ("gzip, gzip", HEAD + PAYLOAD, 415, "gzip"),
}


@pytest.mark.parametrize(("encoding", "body", "status", "says"), PACKED.values(), ids=PACKED)
def test_packed_bodies(
    service: Service, encoding: str, body: bytes, status: int, says: str
) -> None:
    headers = {HEADER_LENGTH: str(len(HEAD)), "Content-Encoding": encoding}
    reply = service.request("POST", infer_path("round"), body, headers)
    assert reply.status == status
    assert says in error_of(reply)
    assert infer(service, GOOD, PAYLOAD).status == 200


def test_a_json_bomb(service: Service) -> None:
    body = gzip.compress(b'{"inputs":' + b" " * (64 << 20))
    reply = service.request("POST", infer_path("round"), body, {"Content-Encoding": "gzip"})
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
        (10 << 30, len(HEAD), 413),  # a tensor over the limit
        (10 << 30, None, 413),  # JSON over its limit
        (10 << 30, 10 << 30, 413),
        (len(HEAD), len(HEAD) + 1, 400),
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
        connection.putheader(HEADER_LENGTH, str(len(HEAD)))
        connection.putheader("Content-Length", str(len(HEAD) + (1 << 20)))
        connection.endheaders(HEAD)
        connection.send(bytes(1 << 17))
        reply = Reply.read(connection)
        assert reply.status == 400
        assert "must have 40 bytes, as its shape and datatype say, got 1048576" in error_of(reply)


def test_digests_are_verified(service: Service) -> None:
    wrong = {"Content-Digest": f"sha-256=:{'A' * 43}=:"}
    reply = infer(service, GOOD, PAYLOAD, headers=wrong)
    assert reply.status == 400
    assert "SHA-256" in error_of(reply)


@pytest.mark.parametrize("coding", ["identity", "gzip"])
def test_digests_are_of_the_content_as_it_is_sent(service: Service, coding: str) -> None:
    headers = {"Want-Content-Digest": "sha-256=1", "Accept-Encoding": coding}
    reply = infer(service, GOOD, PAYLOAD, headers=headers)
    assert reply.status == 200
    digest = base64.b64encode(hashlib.sha256(reply.content).digest()).decode()
    assert reply.headers["Content-Digest"] == f"sha-256=:{digest}:"
