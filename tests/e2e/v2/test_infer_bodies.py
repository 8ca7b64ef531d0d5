"""Bodies of inferences as they travel: raw, chunked, coded, one after another."""

from __future__ import annotations

import base64
import gzip
import hashlib
import json
import time
import zlib
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

from support.http.inference_form import (
    BINARY_OUT,
    EVEN,
    HEADER_LENGTH,
    OF_X,
    Answer,
    X,
    binary,
    document,
    infer,
    infer_path,
    tensor,
)
from support.services.server import Reply, Service

GOOD = document(OF_X, **BINARY_OUT)


def pieces(payload: bytes, size: int) -> Iterator[bytes]:
    yield from (payload[at : at + size] for at in range(0, len(payload), size))


def test_raw_bodies(service: Service) -> None:
    for model in ("round", "onnx_round", "openvino_round", "directml_element_wise_round"):
        answer = Answer.of(infer(service, b"", X.tobytes(), model, headers={HEADER_LENGTH: "0"}))
        assert answer.payload == EVEN.tobytes()
        assert answer.output["shape"] == [10]


@pytest.mark.parametrize("form", ["chunked", "gzip", "deflate"])
def test_raw_bodies_of_unstated_length(service: Service, form: str) -> None:
    x = np.tile(X, 20_000)
    data: Any = {
        "chunked": lambda: pieces(x.tobytes(), 50_000),
        "gzip": lambda: gzip.compress(x.tobytes()),
        "deflate": lambda: zlib.compress(x.tobytes()),
    }[form]()
    field = "Transfer-Encoding" if form == "chunked" else "Content-Encoding"
    headers = {HEADER_LENGTH: "0", field: form}
    reply = service.request("POST", infer_path("round"), data, headers)
    assert Answer.of(reply).payload == np.rint(x).tobytes()


@pytest.mark.parametrize(("length", "size"), [(10, 7), (20_000, 4096), (300_000, 100_000)])
def test_chunked_uploads(service: Service, length: int, size: int) -> None:
    x = np.resize(X, length)
    head = json.dumps(document(binary("FP32", [length], x.nbytes), **BINARY_OUT)).encode()
    headers = {HEADER_LENGTH: str(len(head)), "Transfer-Encoding": "chunked"}
    reply = service.request("POST", infer_path("round"), pieces(head + x.tobytes(), size), headers)
    assert Answer.of(reply).payload == np.rint(x).tobytes()


def test_a_head_that_comes_in_two_parts(service: Service) -> None:
    x = np.resize(X, 100_000)
    head = json.dumps(document(binary("FP32", [x.size], x.nbytes), **BINARY_OUT)).encode()
    body = head + x.tobytes()
    connection = service.connection()
    for cut in (1, len(head) // 2, len(head), len(head) + 3, len(head) + 70_000):
        connection.putrequest("POST", infer_path("round"))
        connection.putheader(HEADER_LENGTH, str(len(head)))
        connection.putheader("Content-Length", str(len(body)))
        connection.endheaders()
        connection.send(body[:cut])
        time.sleep(0.05)
        connection.send(body[cut:])
        assert Answer.of(Reply.read(connection)).payload == np.rint(x).tobytes()
    connection.close()


UNPACK: dict[str | None, Callable[[bytes], bytes]] = {
    "gzip": gzip.decompress,
    "deflate": zlib.decompress,
    None: bytes,
}


@pytest.mark.parametrize(
    ("accepted", "coding"),
    [
        ("gzip", "gzip"),
        ("deflate", "deflate"),
        ("gzip;q=0.3, deflate;q=0.8", "deflate"),
        ("gzip;q=0, br", None),
        ("identity", None),
    ],
)
@pytest.mark.parametrize("wish", [{}, BINARY_OUT], ids=["json", "binary"])
def test_answers_are_packed_as_asked(
    service: Service, wish: dict[str, Any], accepted: str, coding: str | None
) -> None:
    headers = {"Accept-Encoding": accepted}
    reply = infer(service, document(OF_X, **wish), X.tobytes(), headers=headers)
    assert reply.headers["Content-Encoding"] == coding
    answer = Answer.of(reply, UNPACK[coding](reply.content))
    assert answer.payload == (EVEN.tobytes() if wish else b"")


@pytest.mark.parametrize("encoding", ["gzip", "deflate", "identity", "GZip"])
def test_requests_may_be_packed(service: Service, encoding: str) -> None:
    head = json.dumps(GOOD).encode()
    packers: dict[str, Any] = {"gzip": gzip.compress, "deflate": zlib.compress}
    pack = packers.get(encoding.lower(), bytes)
    headers = {HEADER_LENGTH: str(len(head)), "Content-Encoding": encoding}
    reply = service.request("POST", infer_path("round"), pack(head + X.tobytes()), headers)
    assert Answer.of(reply).payload == EVEN.tobytes()


def test_keep_alive_and_repeated_heads(service: Service) -> None:
    head = json.dumps(GOOD).encode()
    connection = service.connection()
    for n in range(20):
        body = head + (X + n).tobytes()
        connection.request("POST", infer_path("round"), body, {HEADER_LENGTH: str(len(head))})
        assert Answer.of(Reply.read(connection)).payload == np.rint(X + n).tobytes()
    connection.close()


@pytest.mark.parametrize("content_type", [None, "application/json", "text/plain", "a/b; c=d"])
def test_the_content_type_does_not_matter(service: Service, content_type: str | None) -> None:
    headers = {} if content_type is None else {"Content-Type": content_type}
    reply = infer(service, document(tensor("FP32", [1], data=[2.5])), headers=headers)
    assert Answer.of(reply).output["data"] == [2.0]


@pytest.mark.parametrize("coding", ["identity", "gzip"])
def test_digests_are_of_the_content_as_it_is_sent(service: Service, coding: str) -> None:
    headers = {"Want-Content-Digest": "sha-256=1", "Accept-Encoding": coding}
    reply = infer(service, GOOD, X.tobytes(), headers=headers)
    assert reply.status == 200
    digest = base64.b64encode(hashlib.sha256(reply.content).digest()).decode()
    assert reply.headers["Content-Digest"] == f"sha-256=:{digest}:"
