"""Requests that are refused, each with the status and code that it must get."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from support.http.inference_form import HEADER_LENGTH, binary, document, infer_path
from support.http.native_form import ieee754

from .drawing import Source
from .messages import HOST, After, Request, Response, bare, composed, digest_of, refusal

_BODY = np.arange(10, dtype="<f4").tobytes()
_DESCRIPTOR = ieee754("float32", [10])
_OPERATOR = "Operator-Descriptor: "
_VALID = _OPERATOR + _DESCRIPTOR
_GZIP = (_VALID, "Content-Encoding: gzip")
_NPY = "Content-Type: application/x-npy"
_JSON = "Content-Type: application/json"
_INFER = f"POST {infer_path('round')}"
_HEADER = json.dumps(document(binary("FP32", [10], 40))).encode()
_MISSTATED = json.dumps(document(binary("FP32", [9], 40))).encode()
_NPY_FILE = b"\x93NUMPY\x01\0v\0{'descr': '<f4', 'fortran_order': False, 'shape': (10"


def _changed(**members: object) -> tuple[str]:
    return (_OPERATOR + json.dumps({**json.loads(_DESCRIPTOR), **members}),)


def _input(**members: object) -> tuple[str]:
    return _changed(input={"dtype": "float32", "shape": [10], **members})


@dataclass(frozen=True)
class Refused:
    """A request with a body, perhaps unread, and its refusal; those of /v2 have no codes."""

    status: int
    code: str | None
    fields: tuple[str, ...] = (_VALID,)
    body: bytes = _BODY
    target: str = "POST /round"

    def request(self, name: str, source: Source) -> Request:
        """One of the ways to send it."""
        check = refusal(self.status, self.code)
        fields = list(self.fields)
        return composed(
            source, f"refused: {name}", self.target, self.body, fields, check, After.EITHER
        )


_OVERLAPPING = {"dtype": "float32", "shape": [10], "strides": [0]}
_OTHER_DIGEST = f"Content-Digest: {digest_of(b'')}"
_SIZE, _INVALID = "payload_size_mismatch", "invalid_descriptor"

#: By what is wrong.
REFUSED: dict[str, Refused] = {
    "no descriptor": Refused(400, "missing_descriptor", ()),
    "descriptor is no JSON": Refused(400, "malformed_json", (_OPERATOR + "{",)),
    "unknown dialect": Refused(422, _INVALID, _changed(dialect="latin")),
    "unknown member": Refused(422, _INVALID, _changed(colour="red")),
    "unknown dtype": Refused(422, _INVALID, _input(dtype="float33")),
    "negative size": Refused(422, _INVALID, _input(shape=[-1])),
    "shape is no array": Refused(422, _INVALID, _input(shape="10")),
    "overlapping output": Refused(422, _INVALID, _changed(output=_OVERLAPPING)),
    "unknown parameter": Refused(422, _INVALID, target="POST /round?axis=1"),
    "body too short": Refused(400, _SIZE, body=_BODY[:-1]),
    "body too long": Refused(400, _SIZE, body=_BODY + b"x"),
    "large body too long": Refused(400, _SIZE, body=bytes(90_000)),
    "very large body too long": Refused(400, _SIZE, body=bytes(2_800_000)),
    "tensor too large": Refused(413, "tensor_too_large", _input(shape=[1 << 40])),
    "media type": Refused(415, "unsupported_media_type", (_VALID, "Content-Type: image/png")),
    "encoding": Refused(415, "unsupported_encoding", (_VALID, "Content-Encoding: br")),
    "no gzip": Refused(400, "malformed_encoding", _GZIP),
    "gzip cut short": Refused(400, "malformed_encoding", _GZIP, gzip.compress(_BODY)[:-9]),
    "gzip too long": Refused(400, _SIZE, _GZIP, gzip.compress(bytes(9000))),
    "gzip bomb": Refused(400, _SIZE, _GZIP, gzip.compress(bytes(32 << 20))),
    "another digest": Refused(400, "digest_mismatch", (_VALID, _OTHER_DIGEST)),
    "no npy": Refused(400, "malformed_npy", (_NPY,)),
    "npy cut short": Refused(400, "malformed_npy", (_NPY,), _NPY_FILE),
    "document is no JSON": Refused(400, "malformed_json", (_JSON,), b"[[["),
    "path": Refused(404, "not_found", target="POST /rounds"),
    "method": Refused(405, "method_not_allowed", target="DELETE /round"),
    "infer no JSON": Refused(400, None, (_JSON,), b"{", _INFER),
    "infer unknown model": Refused(404, None, (_JSON,), _HEADER, f"POST {infer_path('square')}"),
    "infer cut short": Refused(
        400, None, (f"{HEADER_LENGTH}: {len(_HEADER)}",), _HEADER + _BODY[:-1], _INFER
    ),
    "infer misstated": Refused(
        400, None, (f"{HEADER_LENGTH}: {len(_MISSTATED)}",), _MISSTATED + _BODY, _INFER
    ),
}


def with_a_body(source: Source) -> Request:
    """Any of them."""
    name, refused = source.choice(list(REFUSED.items()))
    return refused.request(name, source)


_WITHOUT_A_BODY = (
    ("GET /nothing", 404, "not_found"),
    ("GET /round", 405, "method_not_allowed"),
    ("GET /v2/models/none", 404, None),
)


def without_a_body(source: Source) -> Request:
    """Refused, and the connection stays."""
    target, status, code = source.choice(_WITHOUT_A_BODY)
    return bare(f"refused: {target}", target, refusal(status, code))


def head(source: Source) -> Request:
    """A response without content, whatever it is."""
    path = source.choice(("/livez", "/operators", "/nothing"))
    return bare(f"HEAD {path}", f"HEAD {path}", status_in(404 if path == "/nothing" else 200))


#: Every kind behind which more may follow, and how often it comes beside the others.
KINDS: dict[Callable[[Source], Request], int] = {with_a_body: 8, without_a_body: 3, head: 2}


def status_in(*statuses: int) -> Callable[[Response], str | None]:
    """The rule for a response of one of these statuses."""

    def check(response: Response) -> str | None:
        is_right = response.status in statuses
        return None if is_right else f"status {response.status}, not of {statuses}"

    return check


_AMBIGUOUS = (
    "Content-Length: 40\r\nTransfer-Encoding: chunked",
    "Content-Length: 40\r\nContent-Length: 41",
    "Content-Length: +40",
    "Content-Length : 40",
    "Transfer-Encoding: xchunked",
    "Transfer-Encoding: gzip, chunked",
)


def last(source: Source) -> Request:
    """Refused for ambiguous framing or for a size: nothing can follow."""
    kind = source.random()
    if kind < 0.3:
        size = 10 << 30
        fields = _OPERATOR + ieee754("float32", [size // 4]) + f"\r\nContent-Length: {size}"
        check = status_in(413)
    elif kind < 0.4:
        fields = f"{_VALID}\r\nX-Long: {'a' * 40_000}\r\nContent-Length: 40"
        check = refusal(431, "headers_too_large", parsed=False)
    else:
        fields = f"{_VALID}\r\n{source.choice(_AMBIGUOUS)}"
        check = status_in(400, 415, 501)
    begun = f"POST /round HTTP/1.1\r\n{HOST}\r\n{fields}\r\n\r\n".encode()
    name = "refused: " + fields.rpartition("\r\n")[2]
    return Request(name, begun + _BODY, len(begun), check, After.CLOSED, unservable=True)


#: Bytes that are no HTTP, behind requests that are.
NO_HTTP = (
    b"no HTTP\r\n\r\n",
    b"\x16\x03\x01\x02\0\x01\0\x01\xfc\x03\x03\r\n\r\n",
    b"\0" * 100 + b"\r\n\r\n",
    b"{}\r\n\r\n",
    b"GET /livez\r\nno field\r\n\r\n",
    b"HTTP/1.1 200 OK\r\n\r\n",
)


def no_http(source: Source) -> Request:
    """No request; there may be a refusal, and the connection ends."""
    wire = source.choice(NO_HTTP)
    return Request(
        f"no HTTP {wire[:8]!r}",
        wire,
        len(wire),
        status_in(400),
        After.CLOSED,
        unservable=True,
        optional=True,
    )
