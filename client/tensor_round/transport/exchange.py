"""An exchange: what makes a request, and the reader of its response. No I/O here.

A prepared descriptor and memory become a :class:`Request`. The status and headers of a response
select the :class:`ResponseReader` for its body: a sink that ends in a value, or in an error. An
:class:`Exchange` does both, anew for each try. All tries share the :class:`Deadline` of their call.
"""

from __future__ import annotations

import hashlib
import random
import time
import zlib
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, NamedTuple, Protocol, TypeVar

from ..arrays.tiles import Sink, TensorSink
from ..contract import errors
from ..contract.errors import (
    ConnectionFailed,
    DeadlineExceeded,
    DigestMismatch,
    MalformedJSON,
    ProtocolViolation,
    RequestRefused,
)
from ..contract.operators.operator import PreparedDescriptor
from ..contract.quoting import one_line, printable, shown
from ..contract.wire import http_fields, strictjson

#: The longest uninterrupted wait in seconds, so that a call that failed in one thread soon ends in
#: the others.
LONGEST_WAIT = 0.25
#: From this many seconds on there is no limit: sockets take 24 days at most.
_UNLIMITED = 1e6


class Deadline:
    """The deadline of a call; shared by the call's threads."""

    __slots__ = ("_at", "_seconds")

    def __init__(self, seconds: float | None) -> None:
        self._seconds = seconds
        self._at = float("inf") if seconds is None else time.monotonic() + seconds

    def remaining(self) -> float | None:
        """Seconds left, more than 0; None without a limit. Raises :class:`DeadlineExceeded`."""
        left = self._at - time.monotonic()
        if left == float("-inf"):
            raise DeadlineExceeded("the call has failed")
        if left <= 0:
            raise DeadlineExceeded(f"the call did not finish within {self._seconds} seconds")
        return None if left > _UNLIMITED else left

    def next_wait(self) -> float:
        """Seconds to wait before the next check; raises :class:`DeadlineExceeded`."""
        if self._at - time.monotonic() > LONGEST_WAIT:
            return LONGEST_WAIT
        left = self.remaining()
        return LONGEST_WAIT if left is None else left

    @property
    def is_limited(self) -> bool:
        """Whether there is a limit."""
        return self._seconds is not None

    def allows(self, seconds: float) -> bool:
        """Whether more than ``seconds`` are left."""
        return time.monotonic() + seconds < self._at

    def expire(self) -> None:
        """Move the deadline to now: the call has failed, and its other threads must end."""
        self._at = float("-inf")


#: The deepest nesting of objects and arrays in a document of the service.
MAX_DOCUMENT_DEPTH = 32
#: Bytes of a problem document, also after decoding. The service lists at most 33 faults in one.
MAX_PROBLEM_BYTES = 64 << 10
#: JSON values in a problem document.
_MAX_PROBLEM_VALUES = 2048
#: Statuses that load balancers, gateways and authenticators in front of a service send.
_GATEWAY = frozenset({401, 403, 407, 408, 413, 414, 421, 425, 429, 431, 500, 502, 503, 504, 511})
#: Those of a gateway that reaches no service. Ray Serve sends 500 where a replica dies.
_UNAVAILABLE = frozenset({500, 502, 503, 504})
#: The longest Retry-After that is believed, in seconds.
_MAX_RETRY_AFTER = 86_400.0


def refusal(status: int, headers: Mapping[str, str], body: bytes) -> RequestRefused:
    """The error that a response with another status than 200 stands for.

    At most :data:`MAX_PROBLEM_BYTES` of the body are read, before and after decoding.
    """
    kind = http_fields.media_type(headers.get("content-type", ""))
    document: dict[str, Any] = {}
    if kind in (http_fields.PROBLEM_JSON, http_fields.JSON):
        document = _document(_decoded(body, headers.get("content-encoding", "identity")))
    if kind == http_fields.JSON:  # an error of the Open Inference Protocol
        document = {"detail": document.get("error")}
    retry_after = parse_retry_after(headers.get("retry-after"))
    error = errors.from_problem(document, status=status, retry_after=retry_after)
    if isinstance(error, errors.MethodNotAllowed):
        error.allow = one_line(headers.get("allow", ""))
    error.request_id = printable(headers.get("x-request-id"))
    is_the_services = bool(error.code) or isinstance(document.get("detail"), str)
    error.is_unavailable = status in _UNAVAILABLE and not is_the_services
    if not (is_the_services or status in _GATEWAY):
        error.is_foreign = True
        if location := headers.get("location"):
            error.restate(f"{error.detail}, to {shown(location)}")
    return error


def _document(text: bytes) -> dict[str, Any]:
    """The JSON object; an empty one if a proxy sent something else or the text was cut short."""
    try:
        value = strictjson.loads(text, max_depth=MAX_DOCUMENT_DEPTH, max_values=_MAX_PROBLEM_VALUES)
    except MalformedJSON:
        return {}
    return value if isinstance(value, dict) else {}


def _decoded(body: bytes, coding: str) -> bytes:
    """The body without its coding, which was not asked for; empty if it cannot be decoded."""
    if coding == "identity":
        return body[:MAX_PROBLEM_BYTES]
    try:
        # 32 makes zlib detect the gzip or zlib header.
        return zlib.decompressobj(32 + zlib.MAX_WBITS).decompress(body, MAX_PROBLEM_BYTES)
    except zlib.error:
        return b""


def parse_retry_after(value: str | None) -> float | None:
    """Seconds to wait, from either form of Retry-After (RFC 9110, 10.2.3); None if malformed."""
    if value is None:
        return None
    if value.isascii() and value.isdigit():
        return min(float(value[:20]), _MAX_RETRY_AFTER)
    from email.utils import parsedate_to_datetime  # a seldom form, and a slow import

    try:
        until = parsedate_to_datetime(value)
    except (ValueError, OverflowError):
        return None
    return min(max(0.0, until.timestamp() - time.time()), _MAX_RETRY_AFTER)


T_co = TypeVar("T_co", covariant=True)

#: The longest JSON document that is read, in bytes: ``/conformance`` has 30 KiB.
MAX_DOCUMENT_BYTES = 4 << 20
_TEXT_BUFFER_BYTES = 16 << 10


class ResponseReader(Sink, Protocol[T_co]):
    """A sink for the body of one response; ``advance`` raises if the body is too long."""

    def finish(self) -> T_co:
        """The value of the complete body; raises the error that it stands for."""


#: Receives a response's body into its reader.
Receive = Callable[[ResponseReader[Any], "Deadline"], Awaitable[None]]


def copy_into(sink: Sink, data: bytes | memoryview) -> None:
    """Write bytes into a sink."""
    rest = memoryview(data)
    while rest:
        buffer = sink.get_buffer()
        count = min(len(rest), len(buffer))
        buffer[:count] = rest[:count]
        sink.advance(count)
        rest = rest[count:]


class TensorReader:
    """Reads an output of ``total`` bytes into a sink, and drops the padding behind it."""

    __slots__ = ("_buffer", "_digest", "_expected", "_nbytes", "_received", "_sink", "_total")

    def __init__(self, sink: TensorSink, total: int, sha256: bytes | None) -> None:
        self._sink = sink
        self._nbytes = sink.nbytes
        self._total = total
        self._received = 0
        self._buffer = memoryview(b"")
        self._expected = sha256
        self._digest = None if sha256 is None else hashlib.sha256()

    def get_buffer(self) -> memoryview:
        """The sink's buffer; behind the sink, memory for some padding or one excess byte."""
        if self._received < self._nbytes:
            self._buffer = self._sink.get_buffer()
        else:
            left = min(self._total - self._received, _TEXT_BUFFER_BYTES)
            self._buffer = memoryview(bytearray(max(1, left)))
        return self._buffer

    def advance(self, count: int) -> None:
        """Digest and count the bytes."""
        if self._digest is not None:
            self._digest.update(self._buffer[:count])
        if self._received < self._nbytes:
            self._sink.advance(count)
        self._received += count
        if self._received > self._total:
            raise ProtocolViolation(f"the response has more than the output's {self._total} bytes")

    def finish(self) -> None:
        """Commit the sink if the body is complete and matches its digest."""
        if self._received < self._total:
            raise ConnectionFailed(
                f"the response was cut off after {self._received} of {self._total} bytes"
            )
        if self._digest is not None and self._digest.digest() != self._expected:
            raise ProtocolViolation("the response's bytes do not match its Content-Digest")
        self._sink.commit()


class DocumentReader:
    """Reads a JSON object, and compares its digest if one is given."""

    __slots__ = ("_buffer", "_expected", "_text")

    def __init__(self, sha256: bytes | None = None) -> None:
        self._text = bytearray()
        self._buffer = bytearray(_TEXT_BUFFER_BYTES)
        self._expected = sha256

    def get_buffer(self) -> memoryview:
        """A buffer that is used again for each piece."""
        return memoryview(self._buffer)

    def advance(self, count: int) -> None:
        """Keep the bytes, up to :data:`MAX_DOCUMENT_BYTES`."""
        if len(self._text) + count > MAX_DOCUMENT_BYTES:
            raise ProtocolViolation(f"the response has more than {MAX_DOCUMENT_BYTES} bytes")
        self._text += self._buffer[:count]

    def finish(self) -> dict[str, Any]:
        """The object; raises :class:`ProtocolViolation` for anything else."""
        if self._expected not in (None, hashlib.sha256(self._text).digest()):
            raise ProtocolViolation("the response's bytes do not match its Content-Digest")
        try:
            value = strictjson.loads(self._text, max_depth=MAX_DOCUMENT_DEPTH)
        except MalformedJSON as error:
            raise ProtocolViolation(
                f"the response is not a JSON document: {error.detail}"
            ) from None
        if not isinstance(value, dict):
            raise ProtocolViolation("the response is not a JSON document: it must be an object")
        return value


class RefusalReader(DocumentReader):
    """Reads a problem document (RFC 9457), or the page that a proxy sends in its place."""

    __slots__ = ("_headers", "_received", "_status")

    def __init__(self, status: int, headers: Mapping[str, str]) -> None:
        super().__init__()
        self._status = status
        self._headers = headers
        self._received = 0

    def advance(self, count: int) -> None:
        """Keep the first :data:`MAX_PROBLEM_BYTES`; a page beyond the limit is read no further."""
        self._received += count
        left = MAX_PROBLEM_BYTES - len(self._text)
        self._text += self._buffer[: min(count, left)]
        if self._received > MAX_DOCUMENT_BYTES:
            self.finish()

    def finish(self) -> Any:
        """Raise the refusal."""
        raise refusal(self._status, self._headers, bytes(self._text))


Headers = list[tuple[bytes, bytes]]
_JSON_ACCEPTED = ((b"Accept", http_fields.JSON.encode()),)
_JSON_SENT = (b"Content-Type", http_fields.JSON.encode())


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


class Exchange(Protocol[T_co]):
    """What a call sends, and how it reads the response. Each try makes both anew.

    Some elements of an operand that is rounded in place may be results already when a request is
    made again. Rounding them again does not change them.
    """

    def request(self) -> Request:
        """The request."""

    def reader(self, status: int, fields: Mapping[str, str]) -> ResponseReader[T_co]:
        """The reader of a response with this status and these headers."""


class TensorPart(Protocol):
    """A tensor, or a part of one, that one request carries."""

    @property
    def prepared(self) -> PreparedDescriptor:
        """Its descriptor."""

    def payload(self) -> memoryview:
        """Its bytes, as the descriptor lays them out."""

    def sink(self, *, verified: bool, can_tear: bool) -> TensorSink:
        """The sink of its results; see :meth:`.Tile.sink`."""


class RoundExchange(NamedTuple):
    """Rounds a tensor by ``POST /round``.

    With ``digest`` both payloads are verified. ``can_tear``: the response may be cut short.
    """

    tensor: TensorPart
    digest: bool
    can_tear: bool

    def request(self) -> Request:
        """The request."""
        tensor = self.tensor
        return tensor_request("/round", tensor.prepared, tensor.payload(), digest=self.digest)

    def reader(self, status: int, fields: Mapping[str, str]) -> ResponseReader[None]:
        """The reader of the output; raises :class:`ProtocolViolation` for another one's headers."""
        if status != 200:
            return RefusalReader(status, fields)
        _check_media_type(fields, http_fields.OCTET_STREAM)
        prepared = self.tensor.prepared
        output = prepared.call.output
        stated = fields.get("output-descriptor")
        if stated is None:
            raise ProtocolViolation("the response has no Output-Descriptor")
        if stated != prepared.output_descriptor and not http_fields.describes(stated, output):
            raise ProtocolViolation("the response's Output-Descriptor is not the one asked for")
        length = fields.get("content-length")
        if length is not None and length != str(output.byte_length):
            raise ProtocolViolation(
                f"the response's Content-Length is not the {output.byte_length} bytes of the output"
            )
        sha256 = _stated_digest(fields) if self.digest else None
        # Memory for the output is taken now: the service has accepted the tensor.
        sink = self.tensor.sink(verified=self.digest, can_tear=self.can_tear)
        return TensorReader(sink, output.byte_length, sha256)


class CompareExchange(NamedTuple):
    """Compares the directions on a tensor by ``POST /compare``; with ``digest`` verified."""

    prepared: PreparedDescriptor
    payload: memoryview
    digest: bool

    def request(self) -> Request:
        """The request."""
        return tensor_request("/compare", self.prepared, self.payload, digest=self.digest)

    def reader(self, status: int, fields: Mapping[str, str]) -> ResponseReader[dict[str, Any]]:
        """The reader of the document."""
        return document_reader(status, fields, digest=self.digest)


class DocumentExchange(NamedTuple):
    """Gets the JSON object at a path, or posts one there for another in return."""

    path: str
    document: Mapping[str, Any] | None = None

    def request(self) -> Request:
        """The request."""
        id = _new_id()
        varying = [(b"X-Request-ID", id.encode())]
        if self.document is None:
            return Request("GET", self.path, id, _JSON_ACCEPTED, varying, memoryview(b""))
        body = memoryview(strictjson.dumps(self.document))
        varying.append((b"Content-Length", b"%d" % len(body)))
        return Request("POST", self.path, id, (*_JSON_ACCEPTED, _JSON_SENT), varying, body)

    def reader(self, status: int, fields: Mapping[str, str]) -> ResponseReader[dict[str, Any]]:
        """The reader of the document."""
        return document_reader(status, fields)


def tensor_request(
    path: str, prepared: PreparedDescriptor, payload: memoryview, *, digest: bool
) -> Request:
    """A ``POST`` with an octet-stream body."""
    id = _new_id()
    varying = [(b"X-Request-ID", id.encode()), (b"Content-Length", b"%d" % len(payload))]
    if digest:
        stated = http_fields.content_digest("sha-256", hashlib.sha256(payload).digest())
        varying.append((b"Content-Digest", stated.encode()))
        varying.append((b"Want-Content-Digest", b"sha-256=1"))
    return Request("POST", path, id, prepared.headers, varying, payload)


def _new_id() -> str:
    # An id is no secret, so no secure source is needed. Python reseeds in a forked child.
    return f"{random.getrandbits(64):016x}"


def document_reader(
    status: int, headers: Mapping[str, str], *, digest: bool = False
) -> ResponseReader[dict[str, Any]]:
    """The reader of a JSON response; raises :class:`ProtocolViolation` for another type."""
    if status != 200:
        return RefusalReader(status, headers)
    _check_media_type(headers, http_fields.JSON)
    return DocumentReader(_stated_digest(headers) if digest else None)


def _check_media_type(headers: Mapping[str, str], expected: str) -> None:
    content_type = headers.get("content-type", "")
    if content_type != expected and (got := http_fields.media_type(content_type)) != expected:
        violation = ProtocolViolation(
            f"the response is {shown(got or 'of no type')}, not {expected}"
        )
        violation.is_foreign = True
        raise violation
    if headers.get("content-encoding", "identity") != "identity":
        raise ProtocolViolation("the response has a Content-Encoding that was not asked for")


def _stated_digest(headers: Mapping[str, str]) -> bytes:
    try:
        stated = http_fields.parse_content_digest([headers.get("content-digest", "")]).get(
            "sha-256"
        )
    except DigestMismatch as error:
        raise ProtocolViolation(f"the response's digest: {error.detail}") from None
    if stated is None:
        raise ProtocolViolation("the response has no Content-Digest, though one was asked for")
    return stated
