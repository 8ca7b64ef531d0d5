"""Requests as values, and what answers mean: pure functions under both clients.

An operator and memory become a :class:`Request`; a status and headers become an
:class:`Intake`, which is given the body's bytes as they come and ends in a value or
in the error that the answer stands for. Nothing here does I/O.
"""

from __future__ import annotations

import hashlib
import random
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any, NamedTuple

from ..arrays.sinks import Landing
from ..errors import DigestMismatch, ProtocolViolation
from ..layout import Layout
from ..operators.objects import Plan
from ..wire import native, strictjson
from .reader import DocumentIntake, Intake, RefusalIntake, TensorIntake

Headers = list[tuple[bytes, bytes]]


class Request(NamedTuple):
    """One HTTP request but for what all of a client's share (host, key, user agent).

    By ``id`` an error here and the service's log can be brought together. ``lasting`` are
    the headers that requests like this one have in common, ``own`` the others.
    """

    method: str
    path: str
    id: str
    lasting: tuple[tuple[bytes, bytes], ...]
    own: Headers
    body: memoryview

    @property
    def headers(self) -> Headers:
        """All of them."""
        return [*self.lasting, *self.own]


def round_request(
    plan: Plan, payload: memoryview, *, digest: bool, path: str = "/round"
) -> Request:
    """``POST /round``, or another path that takes tensors, in its octet-stream form."""
    id = _new_id()
    own = [(b"X-Request-ID", id.encode()), (b"Content-Length", b"%d" % len(payload))]
    if digest:
        stated = native.content_digest(hashlib.sha256(payload).digest())
        own.append((b"Content-Digest", stated.encode()))
        own.append((b"Want-Content-Digest", b"sha-256=1"))
    return Request("POST", path, id, plan.headers, own, payload)


def json_request(path: str, document: Mapping[str, Any]) -> Request:
    """A ``POST`` of a document, for a document."""
    id = _new_id()
    body = memoryview(strictjson.dumps(document))
    lasting = ((b"Accept", native.JSON.encode()), (b"Content-Type", native.JSON.encode()))
    own = [(b"X-Request-ID", id.encode()), (b"Content-Length", b"%d" % len(body))]
    return Request("POST", path, id, lasting, own, body)


def get_request(path: str) -> Request:
    """A ``GET`` for a document."""
    id = _new_id()
    lasting = ((b"Accept", native.JSON.encode()),)
    return Request("GET", path, id, lasting, [(b"X-Request-ID", id.encode())], memoryview(b""))


def _new_id() -> str:
    # Only to be told apart, so no secret; Python seeds anew in a forked child.
    return f"{random.getrandbits(64):016x}"


def tensor_intake(
    status: int,
    headers: Mapping[str, str],
    plan: Plan,
    landing: Callable[[], Landing],
    *,
    digest: bool,
) -> Intake[None]:
    """What takes the answer to :func:`round_request`; ``landing`` is where a tensor comes down.

    Raises :class:`ProtocolViolation` for headers of another answer than the one
    that ``plan`` calls for; nothing has landed then.
    """
    if status != 200:
        return RefusalIntake(status, headers)
    _check_media_type(headers, native.OCTET_STREAM)
    output = plan.call.output
    stated = headers.get("output-descriptor")
    if stated is None:
        raise ProtocolViolation("the answer has no Output-Descriptor")
    if stated != plan.stated and not _describes(stated, output):
        raise ProtocolViolation("the answer's Output-Descriptor is not what was asked for")
    length = headers.get("content-length")
    if length is not None and length != str(output.byte_length):
        raise ProtocolViolation(
            f"the answer's Content-Length is not the {output.byte_length} bytes of the output"
        )
    sha256 = _stated_digest(headers) if digest else None
    return TensorIntake(landing(), output.byte_length, sha256)


def document_intake(
    status: int, headers: Mapping[str, str], *, digest: bool = False
) -> Intake[dict[str, Any]]:
    """What takes an answer that is a document; raises :class:`ProtocolViolation`."""
    if status != 200:
        return RefusalIntake(status, headers)
    _check_media_type(headers, native.JSON)
    return DocumentIntake(_stated_digest(headers) if digest else None)


def _check_media_type(headers: Mapping[str, str], expected: str) -> None:
    content_type = headers.get("content-type", "")
    if content_type != expected and (got := native.media_type(content_type)) != expected:
        violation = ProtocolViolation(f"the answer is {got or 'of no type'!r}, not {expected}")
        violation.is_foreign = True
        raise violation
    if headers.get("content-encoding", "identity") != "identity":
        raise ProtocolViolation("the answer is encoded, which was not asked for")


@lru_cache(maxsize=1024)
def _described(stated: str) -> Layout:
    return native.parse_output_descriptor(stated.encode())


def _describes(stated: str, output: Layout) -> bool:
    layout = _described(stated)
    return (
        layout.dtype is output.dtype
        and layout.shape == output.shape
        and layout.byte_length == output.byte_length
        and layout.lies_like(output.strides)
    )


def _stated_digest(headers: Mapping[str, str]) -> bytes:
    try:
        stated = native.parse_content_digest([headers.get("content-digest", "")])
    except DigestMismatch as error:
        raise ProtocolViolation(f"the answer's digest: {error.detail}") from None
    if stated is None:
        raise ProtocolViolation("the answer states no digest, though one was asked for")
    return stated
