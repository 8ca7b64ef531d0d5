"""Requests as values, and what answers mean: pure functions under both clients.

An operator and memory become a :class:`Request`; a status and headers become an
:class:`Intake`, which is given the body's bytes as they come and ends in a value or
in the error that the answer stands for. Nothing here does I/O.
"""

from __future__ import annotations

import hashlib
import random
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from functools import lru_cache
from typing import Any, Protocol, TypeVar

from . import errors
from .errors import (
    ConnectionFailed,
    DigestMismatch,
    MalformedJSON,
    ProtocolViolation,
    RequestRefused,
)
from .landing import Landing
from .layout import Layout
from .round_operators import Plan
from .wire import native, strictjson

T_co = TypeVar("T_co", covariant=True)

Headers = list[tuple[bytes, bytes]]

#: Of an answer that is a document: ``/conformance`` has 30 KiB.
MAX_DOCUMENT_BYTES = 4 << 20
_MAX_DOCUMENT_DEPTH = 32
#: Longer hints are a service's mistake, or a proxy's; a call's deadline is shorter anyway.
_MAX_RETRY_AFTER = 86_400.0

_EMPTY = memoryview(b"")


@dataclass(frozen=True, slots=True)
class Request:
    """One HTTP request but for what all of a client's share (host, key, user agent).

    By ``id`` an error here and the service's log can be brought together.
    """

    method: str
    path: str
    id: str
    headers: Headers
    body: memoryview = _EMPTY


class Intake(Protocol[T_co]):
    """Takes the body of one answer."""

    def room(self) -> memoryview:
        """Memory for the next bytes, never empty."""

    def took(self, count: int) -> None:
        """So many bytes were written into the last room; raises if they are too many."""

    def end(self) -> T_co:
        """The body is whole: its value, or the error it stands for."""


def fields(headers: Iterable[tuple[bytes, bytes]]) -> dict[str, str]:
    """An answer's headers by name in lower case; several of one name are one list."""
    found: dict[str, str] = {}
    for raw_name, raw_value in headers:
        name, value = raw_name.decode("latin-1").lower(), raw_value.decode("latin-1")
        found[name] = f"{found[name]}, {value}" if name in found else value
    return found


def feed(intake: Intake[Any], piece: bytes) -> None:
    """Give an intake bytes that lie elsewhere."""
    view = memoryview(piece)
    while view:
        room = intake.room()
        count = min(len(view), len(room))
        room[:count] = view[:count]
        intake.took(count)
        view = view[count:]


def round_request(plan: Plan, payload: memoryview, *, digest: bool) -> Request:
    """``POST /round`` in its octet-stream form."""
    id = _new_id()
    headers = [
        (b"X-Request-ID", id.encode()),
        (b"Content-Type", native.OCTET_STREAM.encode()),
        (b"Content-Length", b"%d" % len(payload)),
        (b"Operator-Descriptor", plan.descriptor),
    ]
    if digest:
        stated = native.content_digest(hashlib.sha256(payload).digest())
        headers.append((b"Content-Digest", stated.encode()))
        headers.append((b"Want-Content-Digest", b"sha-256=1"))
    return Request("POST", "/round", id, headers, payload)


def get_request(path: str) -> Request:
    """A ``GET`` for a document."""
    id = _new_id()
    headers = [(b"X-Request-ID", id.encode()), (b"Accept", native.JSON.encode())]
    return Request("GET", path, id, headers)


def _new_id() -> str:
    # Only to be told apart, so no secret; Python seeds anew in a forked child.
    return f"{random.getrandbits(64):016x}"


def tensor_intake(
    status: int, headers: Mapping[str, str], plan: Plan, landing: Landing, *, digest: bool
) -> Intake[None]:
    """What takes the answer to :func:`round_request`.

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
    if not _describes(stated, output):
        raise ProtocolViolation("the answer's Output-Descriptor is not what was asked for")
    length = headers.get("content-length")
    if length is not None and length != str(output.byte_length):
        raise ProtocolViolation(
            f"the answer's Content-Length is not the {output.byte_length} bytes of the output"
        )
    return TensorIntake(landing, output, _stated_digest(headers) if digest else None)


def document_intake(status: int, headers: Mapping[str, str]) -> Intake[dict[str, Any]]:
    """What takes the answer to :func:`get_request`; raises :class:`ProtocolViolation`."""
    if status != 200:
        return RefusalIntake(status, headers)
    _check_media_type(headers, native.JSON)
    return DocumentIntake()


class TensorIntake:
    """Takes the bytes of an output; those that pad its length are dropped."""

    __slots__ = ("_came", "_digest", "_elements", "_expected", "_landing", "_room", "_total")

    def __init__(self, landing: Landing, output: Layout, sha256: bytes | None) -> None:
        self._landing = landing
        self._elements = output.element_count * output.dtype.itemsize
        self._total = output.byte_length
        self._came = 0
        self._room = _EMPTY
        self._expected = sha256
        self._digest = None if sha256 is None else hashlib.sha256()

    def room(self) -> memoryview:
        """The landing's room, then room for the padding, then for a byte too many."""
        if self._came < self._elements:
            self._room = self._landing.room()
        else:
            self._room = memoryview(bytearray(max(1, self._total - self._came)))
        return self._room

    def took(self, count: int) -> None:
        """Counts, and digests."""
        if self._digest is not None:
            self._digest.update(self._room[:count])
        if self._came < self._elements:
            self._landing.took(count)
        self._came += count
        if self._came > self._total:
            raise ProtocolViolation(f"the answer has more than the output's {self._total} bytes")

    def end(self) -> None:
        """Commits what landed, if it is whole and as its digest says."""
        if self._came < self._total:
            raise ConnectionFailed(
                f"the answer was cut off after {self._came} of {self._total} bytes"
            )
        if self._digest is not None and self._digest.digest() != self._expected:
            raise ProtocolViolation("the answer's bytes are not those that its digest states")
        self._landing.finish()


class _BoundedText:
    """Takes a text up to a limit."""

    __slots__ = ("_room", "_text")

    def __init__(self) -> None:
        self._text = bytearray()
        self._room = bytearray(16 << 10)

    def room(self) -> memoryview:
        """The next piece's."""
        return memoryview(self._room)

    def took(self, count: int) -> None:
        """Kept, up to the limit."""
        if len(self._text) + count > MAX_DOCUMENT_BYTES:
            raise ProtocolViolation(f"the answer has more than {MAX_DOCUMENT_BYTES} bytes")
        self._text += self._room[:count]

    def _object(self) -> dict[str, Any]:
        value = strictjson.loads(self._text, max_depth=_MAX_DOCUMENT_DEPTH)
        if not isinstance(value, dict):
            raise MalformedJSON("the JSON is no object")
        return value


class DocumentIntake(_BoundedText):
    """Takes a JSON object."""

    def end(self) -> dict[str, Any]:
        """The object; raises :class:`ProtocolViolation`."""
        try:
            return self._object()
        except MalformedJSON as error:
            raise ProtocolViolation(f"the answer is no document: {error.detail}") from None


class RefusalIntake(_BoundedText):
    """Takes a refusal's problem document (RFC 9457), or what a proxy sends in its place."""

    __slots__ = ("_headers", "_status")

    def __init__(self, status: int, headers: Mapping[str, str]) -> None:
        super().__init__()
        self._status = status
        self._headers = headers

    def took(self, count: int) -> None:
        """Kept, up to the limit; a page that a proxy sends may be longer than anyone reads."""
        if len(self._text) < MAX_DOCUMENT_BYTES:
            super().took(min(count, MAX_DOCUMENT_BYTES - len(self._text)))

    def end(self) -> Any:
        """Raises the refusal."""
        raise refusal(self._status, self._headers, bytes(self._text))


def refusal(status: int, headers: Mapping[str, str], body: bytes) -> RequestRefused:
    """The error that an answer other than 200 stands for."""
    document: dict[str, Any] = {}
    if native.media_type(headers.get("content-type", "")) == native.PROBLEM_JSON:
        try:
            value = strictjson.loads(body, max_depth=_MAX_DOCUMENT_DEPTH)
            document = value if isinstance(value, dict) else {}
        except MalformedJSON:
            pass  # a proxy's, or cut short: the status still says what it says
    retry_after = parse_retry_after(headers.get("retry-after"))
    error = errors.from_problem(document, status=status, retry_after=retry_after)
    if isinstance(error, errors.MethodNotAllowed):
        error.allow = headers.get("allow", "")
    error.request_id = headers.get("x-request-id")
    return error


def parse_retry_after(value: str | None) -> float | None:
    """Seconds to wait, from either form of Retry-After (RFC 9110, 10.2.3); None for neither."""
    if value is None:
        return None
    if value.isascii() and value.isdigit():
        return min(float(value[:20]), _MAX_RETRY_AFTER)
    try:
        until = parsedate_to_datetime(value)
    except ValueError:
        return None
    return min(max(0.0, until.timestamp() - time.time()), _MAX_RETRY_AFTER)


def _check_media_type(headers: Mapping[str, str], expected: str) -> None:
    got = native.media_type(headers.get("content-type", ""))
    if got != expected:
        raise ProtocolViolation(f"the answer is {got or 'of no type'!r}, not {expected}")
    if "content-encoding" in headers:
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
