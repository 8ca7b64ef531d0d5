"""Requests as values, and the readers of their responses: pure functions for both clients.

A prepared descriptor and memory become a :class:`Request`. The status and headers of a response
select the :class:`ResponseReader` for its body. Nothing here does I/O.
"""

from __future__ import annotations

import hashlib
import random
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any, NamedTuple

from ..arrays.sinks import TensorSink
from ..contract.errors import DigestMismatch, ProtocolViolation
from ..contract.layout import Layout
from ..contract.operators import PreparedDescriptor
from ..contract.wire import native, strictjson
from .response_readers import DocumentReader, RefusalReader, ResponseReader, TensorReader

Headers = list[tuple[bytes, bytes]]
_JSON_TYPE = native.JSON.encode()


class Request(NamedTuple):
    """One HTTP request, without the headers that all requests of a client share.

    ``id`` is its X-Request-ID, which the service's log repeats. ``fixed`` are the headers that
    similar requests have in common, so that their text can be cached; ``varying`` are the rest.
    """

    method: str
    path: str
    id: str
    fixed: tuple[tuple[bytes, bytes], ...]
    varying: Headers
    body: memoryview

    @property
    def headers(self) -> Headers:
        """All headers."""
        return [*self.fixed, *self.varying]


def tensor_request(
    prepared: PreparedDescriptor, payload: memoryview, *, digest: bool, path: str = "/round"
) -> Request:
    """``POST /round``, or another path that accepts a tensor, with an octet-stream body."""
    id = _new_id()
    varying = [(b"X-Request-ID", id.encode()), (b"Content-Length", b"%d" % len(payload))]
    if digest:
        stated = native.content_digest(hashlib.sha256(payload).digest())
        varying.append((b"Content-Digest", stated.encode()))
        varying.append((b"Want-Content-Digest", b"sha-256=1"))
    return Request("POST", path, id, prepared.headers, varying, payload)


def json_request(path: str, document: Mapping[str, Any]) -> Request:
    """A ``POST`` with a JSON body and a JSON response."""
    id = _new_id()
    body = memoryview(strictjson.dumps(document))
    fixed = ((b"Accept", _JSON_TYPE), (b"Content-Type", _JSON_TYPE))
    varying = [(b"X-Request-ID", id.encode()), (b"Content-Length", b"%d" % len(body))]
    return Request("POST", path, id, fixed, varying, body)


def get_request(path: str) -> Request:
    """A ``GET`` with a JSON response."""
    id = _new_id()
    fixed = ((b"Accept", _JSON_TYPE),)
    return Request("GET", path, id, fixed, [(b"X-Request-ID", id.encode())], memoryview(b""))


def _new_id() -> str:
    # An id is no secret, so no secure source is needed. Python reseeds in a forked child.
    return f"{random.getrandbits(64):016x}"


def tensor_reader(
    status: int,
    headers: Mapping[str, str],
    prepared: PreparedDescriptor,
    make_sink: Callable[[], TensorSink],
    *,
    digest: bool,
) -> ResponseReader[None]:
    """The reader of the response to :func:`tensor_request` on ``/round``.

    ``make_sink`` is called once the headers are found right. Raises :class:`ProtocolViolation`
    for headers that do not belong to the output of ``prepared``.
    """
    if status != 200:
        return RefusalReader(status, headers)
    _check_media_type(headers, native.OCTET_STREAM)
    output = prepared.call.output
    stated = headers.get("output-descriptor")
    if stated is None:
        raise ProtocolViolation("the response has no Output-Descriptor")
    if stated != prepared.output_descriptor and not _describes(stated, output):
        raise ProtocolViolation("the response's Output-Descriptor is not the one asked for")
    length = headers.get("content-length")
    if length is not None and length != str(output.byte_length):
        raise ProtocolViolation(
            f"the response's Content-Length is not the {output.byte_length} bytes of the output"
        )
    sha256 = _stated_digest(headers) if digest else None
    return TensorReader(make_sink(), output.byte_length, sha256)


def document_reader(
    status: int, headers: Mapping[str, str], *, digest: bool = False
) -> ResponseReader[dict[str, Any]]:
    """The reader of a JSON response; raises :class:`ProtocolViolation` for another type."""
    if status != 200:
        return RefusalReader(status, headers)
    _check_media_type(headers, native.JSON)
    return DocumentReader(_stated_digest(headers) if digest else None)


def _check_media_type(headers: Mapping[str, str], expected: str) -> None:
    content_type = headers.get("content-type", "")
    if content_type != expected and (got := native.media_type(content_type)) != expected:
        violation = ProtocolViolation(f"the response is {got or 'of no type'!r}, not {expected}")
        violation.is_foreign = True
        raise violation
    if headers.get("content-encoding", "identity") != "identity":
        raise ProtocolViolation("the response has a Content-Encoding that was not asked for")


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
        raise ProtocolViolation(f"the response's digest: {error.detail}") from None
    if stated is None:
        raise ProtocolViolation("the response has no Content-Digest, though one was asked for")
    return stated
