"""HTTP/1.1 responses, parsed strictly: the client's side of the protocol, without I/O.

A response head is parsed once it is complete. A :class:`BodyReader` then lets the body's bytes be
received directly into their place. Bytes that were received with the head, or with chunk framing,
are copied. Rules are those of RFC 9112, without its optional leniencies.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache

from ..errors import ProtocolViolation

#: The longest head. uvicorn and nginx send a few hundred bytes; h11 accepts 16 KiB.
MAX_HEAD_BYTES = 64 << 10
#: The longest chunk-size line, extensions included.
MAX_CHUNK_LINE_BYTES = 1 << 10

Headers = list[tuple[bytes, bytes]]

#: Heads in the cache, and the longest of them: the cache takes 1 or 2 MiB at most.
_CACHED_HEADS = 256
_CACHED_HEAD_BYTES = 2 << 10

_MAGIC = b"HTTP/1."
_END = b"\r\n\r\n"
_STATUS_LINE = re.compile(rb"HTTP/1\.([01]) ([1-9]\d\d)(?: [^\r\n]*+)?\r\n")
#: It begins behind a line's end: within a line that is no field, none is looked for.
_FIELD = re.compile(
    rb"(?<=\n)([!#$%&'*+\-.^_`|~0-9A-Za-z]++):"  # a token (RFC 9110, 5.6.2)
    rb"([^\x00-\x08\x0a-\x1f\x7f]*+)\r\n"
)
#: Fields that differ from response to response and that the client does not use.
_VARYING = re.compile(
    rb"\r\n(?i:date|server-timing|x-request-id):[^\x00-\x08\x0a-\x1f\x7f]*+(?=\r\n)"
)
#: What servers send that got no TLS where they speak it (RFC 8446, 5.1: an alert).
_TLS_ALERT = b"\x15\x03"
_CHUNK_LINE = re.compile(rb"([0-9A-Fa-f]{1,16})[ \t]*+(?:;[^\x00-\x08\x0a-\x1f\x7f]*+)?\r\n")
#: The trailer section behind the last chunk: fields, and an empty line.
_TRAILERS = re.compile(rb"(?:%b)*+\r\n" % re.sub(rb"\((?!\?)", b"(?:", _FIELD.pattern))


@dataclass(frozen=True, slots=True)
class ResponseHead:
    """The head of a response.

    ``fields`` are its headers by lower-case name; with status 200 those without use (Date,
    Server-Timing, X-Request-ID) are left out. ``length`` is the body's length in bytes; None if
    the body is chunked or ends with the connection. After a response that ``is_last`` the
    connection cannot be used again.
    """

    status: int
    fields: Mapping[str, str]
    length: int | None
    is_chunked: bool
    is_last: bool


def split_head(received: bytes | bytearray) -> tuple[ResponseHead, int] | None:
    """The head that ``received`` begins with and its length, or None if it is incomplete.

    Raises :class:`ProtocolViolation` for a malformed head, or one too long.
    """
    end = received.find(_END)
    if end < 0:
        if len(received) > MAX_HEAD_BYTES:
            raise ProtocolViolation(f"the response's head has more than {MAX_HEAD_BYTES} bytes")
        if received.startswith(_TLS_ALERT):
            raise ProtocolViolation("the response is not HTTP: the service may speak https://")
        if received[: len(_MAGIC)] != _MAGIC[: len(received)]:
            raise ProtocolViolation("the response is not HTTP/1.1")
        return None
    lines = bytes(received[: end + 2])
    if lines.startswith(b"HTTP/1.1 200 "):
        # Responses to similar requests have equal heads, but for these fields.
        lines = _VARYING.sub(b"", lines)
        if len(lines) <= _CACHED_HEAD_BYTES:
            return _cached(lines), end + len(_END)
    return parse_head(lines), end + len(_END)


def fields(headers: Iterable[tuple[bytes, bytes]]) -> dict[str, str]:
    """Headers by lower-case name; several of one name are joined by commas."""
    found: dict[str, list[str]] = {}
    for name, value in headers:
        found.setdefault(name.decode("latin-1").lower(), []).append(value.decode("latin-1"))
    return {name: ", ".join(values) for name, values in found.items()}


def parse_head(lines: bytes) -> ResponseHead:
    """Parse the lines of a head, line ends included; raises :class:`ProtocolViolation`."""
    start = _STATUS_LINE.match(lines)
    if start is None:
        raise ProtocolViolation("the response is not HTTP/1.1")
    found = _FIELD.findall(lines, start.end())
    # findall skips text that is no field: then the fields do not add up to the lines.
    if sum([len(name) + len(value) for name, value in found]) + 3 * len(found) != (
        len(lines) - start.end()
    ):
        raise ProtocolViolation("the response has a malformed header")
    headers = [(name.lower(), value.strip(b" \t")) for name, value in found]
    status = int(start[2])
    length, is_chunked = _framing(status, headers)
    connection = b",".join([value.lower() for name, value in headers if name == b"connection"])
    is_last = start[1] == b"0" or b"close" in connection or (length is None and not is_chunked)
    return ResponseHead(status, fields(headers), length, is_chunked, is_last)


_cached = lru_cache(maxsize=_CACHED_HEADS)(parse_head)


def _framing(status: int, headers: Headers) -> tuple[int | None, bool]:
    """The body's length, and whether it is chunked."""
    if status < 200 or status in (204, 304):
        return 0, False
    codings = [value.lower() for name, value in headers if name == b"transfer-encoding"]
    lengths = {value for name, value in headers if name == b"content-length"}
    if codings:
        # Both together may be an attempt at response smuggling (RFC 9112, 6.3).
        if codings != [b"chunked"] or lengths:
            raise ProtocolViolation("the response has a transfer coding other than chunked alone")
        return None, True
    if not lengths:
        return None, False
    (value, *others) = lengths
    if others or not value.isdigit() or len(value) > 18:
        raise ProtocolViolation("the response has a malformed Content-Length")
    return int(value), False


class FramingTooLong(ProtocolViolation):
    """A chunk-size line or the trailer section is over its limit."""


class BodyReader:
    """Removes the framing of one body, which has ``length`` bytes, is chunked, or ends the stream.

    Call :meth:`read_into` for the bytes that are buffered. If it returns 0 and the body is not
    whole, more must be received. Where :attr:`direct_bytes` is not 0, receive at most that many
    bytes into the body's place and call :meth:`advance`. Else receive into any buffer and call
    :meth:`feed`. ``buffered`` are the bytes behind the head; the reader owns them from then on.

    A chunk-size line has at most ``max_line_bytes``. So has the trailer section, which is dropped
    with ``trailers`` and an error without.
    """

    def __init__(
        self,
        length: int | None,
        buffered: bytearray,
        *,
        is_chunked: bool = False,
        max_line_bytes: int = MAX_CHUNK_LINE_BYTES,
        trailers: bool = False,
    ) -> None:
        #: Bytes that were fed and not read yet; once the body is whole, those behind its end.
        self.buffered = buffered
        self._max_line_bytes = max_line_bytes
        self._trailers = trailers
        self._is_chunked = is_chunked
        self._is_endless = length is None and not is_chunked
        # Missing bytes of the body, or of the current chunk.
        self._left = length or 0
        self._is_within_chunk = False
        self.is_whole = length == 0

    @property
    def direct_bytes(self) -> int:
        """Bytes that may be received directly into the body's place; 0 before chunk framing."""
        if self.buffered or self.is_whole:
            return 0
        return (1 << 62) if self._is_endless else self._left

    def read_into(self, memory: memoryview) -> int:
        """Copy buffered bytes of the body into memory; the number of bytes."""
        if self._is_chunked and not self._left:
            self._read_chunk_line()
        available = len(self.buffered) if self._is_endless else min(self._left, len(self.buffered))
        count = min(len(memory), available)
        if count:
            memory[:count] = self.buffered[:count]
            del self.buffered[:count]
            self.advance(count)
        return count

    def advance(self, count: int) -> None:
        """Record that ``count`` bytes were received directly into the body's place."""
        if not self._is_endless:
            self._left -= count
            self.is_whole = not self._left and not self._is_chunked

    def feed(self, received: bytes | memoryview) -> None:
        """Buffer received bytes, which may contain framing."""
        self.buffered += received

    def feed_eof(self) -> None:
        """End the stream; raises :class:`EOFError` unless the body ends with it."""
        if not self._is_endless and not self.is_whole:
            raise EOFError
        self.is_whole = True

    def _read_chunk_line(self) -> None:
        """Remove the line before the next chunk's bytes, once it is buffered."""
        start = 2 if self._is_within_chunk else 0
        if self.is_whole or len(self.buffered) < start:
            return
        if self.buffered[:start] != b"\r\n"[:start]:
            raise ProtocolViolation("a chunk is longer than its stated size")
        line = _CHUNK_LINE.match(self.buffered, start)
        if line is None and b"\n" in self.buffered[start:]:
            raise ProtocolViolation("a chunk is malformed")
        if (len(self.buffered) if line is None else line.end()) > self._max_line_bytes:
            raise FramingTooLong(f"a chunk's line has more than {self._max_line_bytes} bytes")
        if line is None:
            return
        size = int(line[1], 16)
        if size == 0:
            self._end_at(line.end())
            return
        del self.buffered[: line.end()]
        self._left, self._is_within_chunk = size, True

    def _end_at(self, position: int) -> None:
        """Remove the trailer section behind the last chunk, once it is buffered."""
        rest = bytes(self.buffered[position : position + 2])
        if len(rest) < 2:
            return
        if rest != b"\r\n":
            end = self.buffered.find(_END, position)
            if not self._trailers:
                raise ProtocolViolation("the body has trailers, which were not asked for")
            stop = end + len(_END) if end >= 0 else len(self.buffered)
            if stop - position > self._max_line_bytes:
                raise FramingTooLong(f"trailers have more than {self._max_line_bytes} bytes")
            if end < 0:
                return
            if not _TRAILERS.fullmatch(self.buffered, position, stop):
                raise ProtocolViolation("a trailer is malformed")
            position = stop - 2
        del self.buffered[: position + 2]
        self.is_whole = True
