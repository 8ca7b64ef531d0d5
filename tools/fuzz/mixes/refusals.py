"""Requests that are refused, each with the status and code that it must get."""

from __future__ import annotations

import gzip
import random
from collections.abc import Callable

from support.http.inference_form import infer_path
from support.http.native_form import ieee754

from .exchange import HOST, After, Answer, Request, bare, composed, digest_of, refusal

_OPERATOR = "Operator-Descriptor: "
_SOUND = _OPERATOR + ieee754("float32", [10])
_BODY = bytes(40)
_NPY = "Content-Type: application/x-npy"
_JSON = "Content-Type: application/json"

#: Name, target, body, fields, status, code.
_WITH_A_BODY: list[tuple[str, str, bytes, list[str], int, str | None]] = [
    ("no descriptor", "POST /round", _BODY, [], 400, "missing_descriptor"),
    ("descriptor is no JSON", "POST /round", _BODY, [_OPERATOR + "{"], 400, "malformed_json"),
    ("unknown dtype", "POST /round", _BODY, [_OPERATOR + ieee754("float33", [10])], 422,
     "invalid_descriptor"),
    ("too short", "POST /round", _BODY[:-1], [_SOUND], 400, "payload_size_mismatch"),
    ("too long", "POST /round", _BODY + b"x", [_SOUND], 400, "payload_size_mismatch"),
    ("large, too long", "POST /round", bytes(90_000), [_SOUND], 400, "payload_size_mismatch"),
    ("media type", "POST /round", _BODY, [_SOUND, "Content-Type: image/png"], 415,
     "unsupported_media_type"),
    ("encoding", "POST /round", _BODY, [_SOUND, "Content-Encoding: br"], 415,
     "unsupported_encoding"),
    ("no gzip", "POST /round", _BODY, [_SOUND, "Content-Encoding: gzip"], 400,
     "malformed_encoding"),
    ("gzip too long", "POST /round", gzip.compress(bytes(9000)), [_SOUND, "Content-Encoding: gzip"],
     400, "payload_size_mismatch"),
    ("another digest", "POST /round", _BODY, [_SOUND, f"Content-Digest: {digest_of(b'')}"], 400,
     "digest_mismatch"),
    ("no npy", "POST /round", _BODY, [_NPY], 400, "malformed_npy"),
    ("no document", "POST /round", b"[[[", [_JSON], 400, "malformed_json"),
    ("query", "POST /round?axis=1", _BODY, [_SOUND], 422, "invalid_descriptor"),
    ("path", "POST /rounds", _BODY, [_SOUND], 404, "not_found"),
    ("method", "DELETE /round", _BODY, [_SOUND], 405, "method_not_allowed"),
    ("infer no JSON", f"POST {infer_path('round')}", b"{", [_JSON], 400, None),
    ("infer unknown model", f"POST {infer_path('square')}", b"{}", [_JSON], 404, None),
]  # fmt: skip


def with_a_body(chance: random.Random) -> Request:
    """Refused, and its body perhaps unread."""
    name, target, body, fields, status, code = chance.choice(_WITH_A_BODY)
    judge = refusal(status, code)
    return composed(chance, f"refused: {name}", target, body, fields, judge, After.EITHER)


def without_a_body(chance: random.Random) -> Request:
    """Refused, and the connection stays."""
    target, status, code = chance.choice(
        (
            ("GET /nothing", 404, "not_found"),
            ("GET /round", 405, "method_not_allowed"),
            ("GET /v2/models/none", 404, None),
        )
    )
    return bare(f"refused: {target}", target, refusal(status, code))


def head(chance: random.Random) -> Request:
    """An answer without a content, whatever it is."""
    path = chance.choice(("/livez", "/operators", "/nothing"))

    def judge(answer: Answer) -> str | None:
        expected = 404 if path == "/nothing" else 200
        return None if answer.status == expected else f"status {answer.status}"

    return bare(f"HEAD {path}", f"HEAD {path}", judge)


REFUSED: dict[Callable[[random.Random], Request], int] = {
    with_a_body: 8,
    without_a_body: 3,
    head: 2,
}

_TWO_WAYS = (
    "Content-Length: 40\r\nTransfer-Encoding: chunked",
    "Content-Length: 40\r\nContent-Length: 41",
    "Content-Length: +40",
    "Content-Length : 40",
    "Transfer-Encoding: xchunked",
    "Transfer-Encoding: gzip, chunked",
)


def last(chance: random.Random) -> Request:
    """Refused for what can be read in two ways, or for its size: nothing can follow."""
    if chance.random() < 0.3:
        size = 10 << 30
        fields = _OPERATOR + ieee754("float32", [size // 4]) + f"\r\nContent-Length: {size}"
        statuses: tuple[int, ...] = (413,)
    else:
        fields = f"{_SOUND}\r\n{chance.choice(_TWO_WAYS)}"
        statuses = (400, 415, 501)
    begun = f"POST /round HTTP/1.1\r\n{HOST}\r\n{fields}\r\n\r\n".encode()

    def judge(answer: Answer) -> str | None:
        return None if answer.status in statuses else f"status {answer.status}, not of {statuses}"

    name = "refused: " + fields.rpartition("\r\n")[2]
    wire = begun + _BODY
    return Request(name, wire, len(begun), judge, After.CLOSED, hopeless=True)


#: Bytes that are no HTTP, behind requests that are.
GARBAGE = (
    b"no HTTP\r\n\r\n",
    b"\x16\x03\x01\x02\0\x01\0\x01\xfc\x03\x03\r\n\r\n",
    b"\0" * 100 + b"\r\n\r\n",
    b"{}\r\n\r\n",
    b"GET /livez\r\nno field\r\n\r\n",
    b"HTTP/1.1 200 OK\r\n\r\n",
)


def garbage(chance: random.Random) -> Request:
    """No request; it may be answered with a refusal, and ends the connection."""

    def judge(answer: Answer) -> str | None:
        return None if answer.status == 400 else f"status {answer.status} to what is no HTTP"

    wire = chance.choice(GARBAGE)
    return Request(
        f"garbage {wire[:8]!r}",
        wire,
        len(wire),
        judge,
        After.CLOSED,
        hopeless=True,
        optional=True,
    )
