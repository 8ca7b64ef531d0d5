"""Requests as values, and what each answer means."""

from __future__ import annotations

import hashlib
import json
from typing import Any

import numpy as np
import pytest

from tensor_round import ConnectionFailed, Fault, IEEE754Round, MethodNotAllowed, ProtocolViolation
from tensor_round.arrays.tiles import TensorSink, Tile, raw_bytes
from tensor_round.contract.errors import UnknownRefusal, problem
from tensor_round.contract.host_memory import Array
from tensor_round.contract.wire import http_fields
from tensor_round.transport.exchange import (
    MAX_DOCUMENT_BYTES,
    DocumentExchange,
    ResponseReader,
    RoundExchange,
    TensorReader,
    copy_into,
    parse_retry_after,
    refusal,
)

PREPARED = IEEE754Round().prepare("float32", (3,))
BODY = np.array([1, 2, 3], "<f4").tobytes()
DOCUMENT = DocumentExchange("/operators")
DIGEST = http_fields.content_digest("sha-256", hashlib.sha256(BODY).digest())
LAYOUT = {"dtype": "float32", "shape": [3], "strides": [1], "byte_length": 12}
HEADERS = {
    "content-type": "application/octet-stream",
    "content-length": "12",
    "output-descriptor": json.dumps(LAYOUT, separators=(",", ":")),
    "content-digest": DIGEST,
}


def answered(
    headers: dict[str, str | None], body: bytes, piece: int = 1 << 16, *, digest: bool = False
) -> bytes:
    """The target after such an answer, given in pieces."""
    target = np.zeros(3, "<f4")
    merged = {k: v for k, v in {**HEADERS, **headers}.items() if v is not None}
    eat(exchange(target, digest=digest).reader(200, merged), body, piece)
    return target.tobytes()


def exchange(target: Array, *, digest: bool) -> RoundExchange:
    tile = Tile(PREPARED, np.frombuffer(BODY, "<f4"), target, aliased=False)
    return RoundExchange(tile, digest, can_tear=False)


def eat(reader: ResponseReader[Any], body: bytes, piece: int) -> Any:
    for start in range(0, len(body), piece):
        copy_into(reader, body[start : start + piece])
    return reader.finish()


def test_a_request_says_all_that_the_service_must_know() -> None:
    request = exchange(np.zeros(3, "<f4"), digest=True).request()
    headers = dict(request.headers)
    assert (request.method, request.path, bytes(request.body)) == ("POST", "/round", BODY)
    assert headers[b"Content-Length"] == b"12"
    assert headers[b"Content-Type"] == b"application/octet-stream"
    assert json.loads(headers[b"Operator-Descriptor"])["input"]["shape"] == [3]
    assert headers[b"Content-Digest"].decode() == DIGEST
    assert headers[b"Want-Content-Digest"] == b"sha-256=1"
    assert headers[b"X-Request-ID"].decode() == request.id
    assert http_fields.SANE_REQUEST_ID.fullmatch(request.id.encode())
    unverified = exchange(np.zeros(3, "<f4"), digest=False).request()
    assert headers.keys() - dict(unverified.headers).keys() == {
        b"Content-Digest",
        b"Want-Content-Digest",
    }


def test_ids_differ() -> None:
    assert len({DocumentExchange("/operators").request().id for _ in range(100)}) == 100


@pytest.mark.parametrize("digest", [False, True])
@pytest.mark.parametrize("piece", [1, 5, 1 << 16])
def test_an_answer_lands_however_it_comes_in(piece: int, digest: bool) -> None:
    assert answered({}, BODY, piece, digest=digest) == BODY


def test_one_layout_in_other_words_is_the_same() -> None:
    assert PREPARED.output_descriptor == HEADERS["output-descriptor"]
    stated = json.dumps(dict(reversed(LAYOUT.items())))
    type = "Application/Octet-Stream; v=1"
    assert answered({"output-descriptor": stated, "content-type": type}, BODY) == BODY


@pytest.mark.parametrize("piece", [1, 1 << 16])
def test_a_cut_answer_is_the_connection_s_fault(piece: int) -> None:
    for length in range(len(BODY)):
        with pytest.raises(ConnectionFailed, match=f"after {length} of 12"):
            answered({}, BODY[:length], piece)


def test_padding_takes_little_memory() -> None:
    sink = TensorSink(raw_bytes(np.empty(0)))
    assert len(TensorReader(sink, 1 << 40, None).get_buffer()) <= 64 << 10


@pytest.mark.parametrize("piece", [1, 1 << 16])
def test_more_than_the_output_is_the_service_s_fault(piece: int) -> None:
    with pytest.raises(ProtocolViolation, match="more than"):
        answered({"content-length": None}, BODY + b"\0", piece)


def test_other_bytes_than_their_digest_says() -> None:
    with pytest.raises(ProtocolViolation, match="Content-Digest"):
        answered({}, BODY[:-1] + b"\0", digest=True)


VIOLATIONS: dict[str, tuple[dict[str, str | None], str]] = {
    "no-type": ({"content-type": None}, "of no type"),
    "html": ({"content-type": "text/html; charset=utf-8"}, "text/html"),
    "Content-Encoding": ({"content-encoding": "gzip"}, "Content-Encoding"),
    "no-descriptor": ({"output-descriptor": None}, "no Output-Descriptor"),
    "descriptor-no-json": ({"output-descriptor": "{"}, "Output-Descriptor"),
    **{
        f"other-{next(iter(changes))}": (
            {"output-descriptor": json.dumps({**LAYOUT, **changes})},
            "not the one asked for",
        )
        for changes in (
            {"dtype": "int32"},
            {"shape": [1, 3], "strides": [3, 1]},
            {"strides": [2], "byte_length": 20},
        )
    },
    "other-length": ({"content-length": "8"}, "Content-Length"),
    "no-digest": ({"content-digest": None}, "no Content-Digest"),
    "malformed-digest": ({"content-digest": "sha-256=:AAAA:"}, "digest"),
}


@pytest.mark.parametrize(("headers", "why"), VIOLATIONS.values(), ids=VIOLATIONS)
def test_headers_of_another_answer_are_refused_before_anything_lands(
    headers: dict[str, str | None], why: str
) -> None:
    with pytest.raises(ProtocolViolation, match=why):
        answered(headers, b"", digest=True)


def test_a_document_is_a_json_object() -> None:
    headers = {"content-type": "application/json"}
    assert eat(DOCUMENT.reader(200, headers), b'{"a": [1]}', 3) == {"a": [1]}
    for body in (b"[1]", b"{", b"\xff", b'{"a": 1, "a": 2}'):
        with pytest.raises(ProtocolViolation, match="not a JSON document"):
            eat(DOCUMENT.reader(200, headers), body, 3)


def test_a_document_has_an_end() -> None:
    reader = DOCUMENT.reader(200, {"content-type": "application/json"})
    with pytest.raises(ProtocolViolation, match="more than"):
        eat(reader, b" " * (MAX_DOCUMENT_BYTES + 1), 1 << 16)


def test_a_long_page_in_place_of_a_refusal_is_cut() -> None:
    reader = DOCUMENT.reader(502, {"content-type": "text/html"})
    with pytest.raises(UnknownRefusal) as caught:
        eat(reader, b" " * (MAX_DOCUMENT_BYTES + (1 << 20)), 1 << 16)
    assert (caught.value.status, caught.value.transient) == (502, True)


def test_a_refusal_keeps_the_words_and_headers_of_the_service() -> None:
    sent = MethodNotAllowed("not so", faults=(Fault(("a", 1), "b"),))
    headers = {
        "content-type": "application/problem+json",
        "retry-after": "7",
        "x-request-id": "abc",
        "allow": "GET, HEAD",
    }
    error = refusal(405, headers, json.dumps(problem(sent)).encode())
    assert isinstance(error, MethodNotAllowed)
    assert (error.detail, error.faults, error.allow) == ("not so", sent.faults, "GET, HEAD")
    assert (error.retry_after, error.request_id) == (7.0, "abc")


@pytest.mark.parametrize("body", [b"", b'{"cut', b"[1]"])
def test_refusal_without_a_problem_document_keeps_its_status(body: bytes) -> None:
    error = refusal(503, {"content-type": "application/problem+json"}, body)
    assert isinstance(error, UnknownRefusal)
    assert (error.status, error.detail) == (503, "HTTP status 503")


@pytest.mark.parametrize(
    ("value", "seconds"),
    [
        (None, None),
        ("0", 0.0),
        ("9" * 40, 86_400.0),
        ("Wed, 21 Oct 2015 07:28:00 GMT", 0.0),
        ("Fri, 31 Dec 9999 23:59:59 GMT", 86_400.0),
        ("", None),
        ("\u0663", None),
        ("Wed, 99 Oct 2015 07:28:00 GMT", None),
        ("Wed, 21 Oct 99999999999999999999 07:28:00 GMT", None),
    ],
)
def test_retry_after_in_both_forms(value: str | None, seconds: float | None) -> None:
    assert parse_retry_after(value) == seconds
