"""HTTP/1.1 answers as bytes, read strictly: a client's half of the protocol, without I/O.

A head is parsed when it is whole. A :class:`BodyReader` then says where the body's
next bytes may be received to, so that they go from the socket to where they belong;
what was received too early (with the head, or between chunks) is copied. Rules are
those of RFC 9112; of what it leaves to the receiver's leniency, nothing is taken.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Protocol

from ..errors import ProtocolViolation

#: Of one head. uvicorn and nginx send a few hundred bytes; h11 takes 16 KiB.
MAX_HEAD_BYTES = 64 << 10
#: Of a line that says how long a chunk is, extensions included.
MAX_CHUNK_LINE_BYTES = 1 << 10

Headers = list[tuple[bytes, bytes]]

#: Heads that are remembered, and the longest: together no more than a MiB or two.
_REMEMBERED_HEADS = 256
_REMEMBERED_BYTES = 2 << 10

_END = b"\r\n\r\n"
_STATUS_LINE = re.compile(rb"HTTP/1\.([01]) ([1-9]\d\d)(?: [^\r\n]*+)?\r\n")
_FIELD = re.compile(
    rb"([!#$%&'*+\-.^_`|~0-9A-Za-z]++):"  # a token (RFC 9110, 5.6.2)
    rb"([^\x00-\x08\x0a-\x1f\x7f]*+)\r\n"
)
#: Fields that pass with an answer, and say nothing of what it holds.
_PASSING = re.compile(
    rb"\r\n(?i:date|server-timing|x-request-id):[^\x00-\x08\x0a-\x1f\x7f]*+(?=\r\n)"
)
_CHUNK_LINE = re.compile(rb"([0-9A-Fa-f]{1,16})[ \t]*+(?:;[^\x00-\x08\x0a-\x1f\x7f]*+)?\r\n")
#: What comes after the last chunk: fields, and an empty line.
_TRAILERS = re.compile(rb"(?:%b)*+\r\n" % _FIELD.pattern.replace(b"(", b"(?:"))


@dataclass(frozen=True, slots=True)
class Head:
    """The head of an answer.

    ``fields`` are its headers by name; that of an answer with 200 has none of those that
    only pass with it. ``length`` is the body's, None where only its chunks or the
    connection's end say.
    """

    status: int
    fields: Mapping[str, str]
    length: int | None
    is_chunked: bool
    is_last: bool

    @property
    def is_interim(self) -> bool:
        """Whether the answer proper is still to come (RFC 9110, 15.2)."""
        return self.status < 200


def split_head(received: bytes | bytearray) -> tuple[Head, int] | None:
    """The head that ``received`` begins with and its length, or None if it is not yet whole.

    Raises :class:`ProtocolViolation` for what is no head, or one too long.
    """
    end = received.find(_END)
    if end < 0:
        if len(received) > MAX_HEAD_BYTES:
            raise ProtocolViolation(f"the answer's head has more than {MAX_HEAD_BYTES} bytes")
        if not _may_begin_answer(received):
            raise ProtocolViolation("the answer is not HTTP/1.1")
        return None
    return _read_head(bytes(received[: end + 2])), end + len(_END)


def fields(headers: Iterable[tuple[bytes, bytes]]) -> dict[str, str]:
    """An answer's headers by name in lower case; several of one name are one list."""
    found: dict[str, str] = {}
    for raw_name, raw_value in headers:
        name, value = raw_name.decode("latin-1").lower(), raw_value.decode("latin-1")
        found[name] = f"{found[name]}, {value}" if name in found else value
    return found


def _read_head(lines: bytes) -> Head:
    """The head in these lines, looked up if it came before: tensors' answers are many alike."""
    if not lines.startswith(b"HTTP/1.1 200 "):
        return parse_head(lines)
    lines = _PASSING.sub(b"", lines)
    return _remembered(lines) if len(lines) <= _REMEMBERED_BYTES else parse_head(lines)


def parse_head(lines: bytes) -> Head:
    """The head in these lines, each with its line end; raises :class:`ProtocolViolation`."""
    start = _STATUS_LINE.match(lines)
    if start is None:
        raise ProtocolViolation("the answer is not HTTP/1.1")
    found = _FIELD.findall(lines, start.end())
    # Where they do not follow one another without a gap, there is one that is none.
    if sum([len(name) + len(value) for name, value in found]) + 3 * len(found) != (
        len(lines) - start.end()
    ):
        raise ProtocolViolation("the answer has a malformed header")
    headers = [(name.lower(), value.strip(b" \t")) for name, value in found]
    status = int(start[2])
    length, is_chunked = _framing(status, headers)
    connection = b",".join([value.lower() for name, value in headers if name == b"connection"])
    is_last = start[1] == b"0" or b"close" in connection or (length is None and not is_chunked)
    return Head(status, fields(headers), length, is_chunked, is_last)


_remembered = lru_cache(maxsize=_REMEMBERED_HEADS)(parse_head)


def _may_begin_answer(received: bytes | bytearray) -> bool:
    magic = b"HTTP/1."
    return bytes(received[: len(magic)]) == magic[: len(received)]


def _framing(status: int, headers: Headers) -> tuple[int | None, bool]:
    """The body's length, and whether it comes in chunks."""
    if status < 200 or status in (204, 304):
        return 0, False
    codings = [value.lower() for name, value in headers if name == b"transfer-encoding"]
    lengths = {value for name, value in headers if name == b"content-length"}
    if codings:
        # Both together is how answers are smuggled (RFC 9112, 6.3).
        if codings != [b"chunked"] or lengths:
            raise ProtocolViolation("the answer has a transfer coding other than chunked alone")
        return None, True
    if not lengths:
        return None, False
    (value, *others) = lengths
    if others or not value.isdigit() or len(value) > 18:
        raise ProtocolViolation("the answer has a malformed Content-Length")
    return int(value), False


class Framing(Protocol):
    """How a body is framed: by its length in bytes, by chunks, or by the stream's end."""

    @property
    def length(self) -> int | None:
        """The body's length; None where only its chunks or the stream's end say."""

    @property
    def is_chunked(self) -> bool:
        """Whether it comes in chunks."""


class FramingTooLong(ProtocolViolation):
    """What frames a body, between or behind its chunks, is longer than is read."""


class BodyReader:
    """Follows one body through what is received.

    :meth:`take` copies what is already there. Once it gives 0 and the body is not yet
    whole, receive up to :attr:`wanted` bytes to where the body goes and say so by
    :meth:`took`; or, where ``wanted`` is 0, receive a little and :meth:`feed` it.
    ``early`` came with the head, and is the reader's from then on.

    A line of a chunk has at most ``max_line_bytes``. So has a trailer section, which is
    dropped, where ``trailers`` are lawful; elsewhere there is none.
    """

    def __init__(
        self,
        head: Framing,
        early: bytearray,
        *,
        max_line_bytes: int = MAX_CHUNK_LINE_BYTES,
        trailers: bool = False,
    ) -> None:
        self._early = early
        self._max_line_bytes = max_line_bytes
        self._trailers = trailers
        self._is_chunked = head.is_chunked
        length = head.length
        self._is_endless = length is None and not head.is_chunked
        # Of the body, or of the present chunk.
        self._left = length or 0
        self._is_within_chunk = False
        self.is_whole = length == 0

    @property
    def wanted(self) -> int:
        """How many bytes of the body itself come next; 0 if others come before them."""
        if self._early or self.is_whole:
            return 0
        return (1 << 62) if self._is_endless else self._left

    @property
    def surplus(self) -> int:
        """Bytes that were received after the body's end."""
        return len(self._early) if self.is_whole else 0

    @property
    def early(self) -> bytearray:
        """Bytes that were received and not taken yet."""
        return self._early

    def take(self, memory: memoryview) -> int:
        """Copy what of the body was received early; how many bytes that were."""
        if self._is_chunked and not self._left:
            self._read_chunk_line()
        available = len(self._early) if self._is_endless else min(self._left, len(self._early))
        count = min(len(memory), available)
        if count:
            memory[:count] = self._early[:count]
            del self._early[:count]
            self.took(count)
        return count

    def took(self, count: int) -> None:
        """So many of the ``wanted`` bytes were received to where the body goes."""
        if not self._is_endless:
            self._left -= count
            self.is_whole = not self._left and not self._is_chunked

    def feed(self, received: bytes | memoryview) -> None:
        """These bytes were received to no place of their own."""
        self._early += received

    def end(self) -> None:
        """The stream has ended; raises :class:`EOFError` unless the body ends with it."""
        if not self._is_endless and not self.is_whole:
            raise EOFError
        self.is_whole = True

    def _read_chunk_line(self) -> None:
        """Step over what stands before the next chunk's bytes, if it has come."""
        start = 2 if self._is_within_chunk else 0
        if self.is_whole or len(self._early) < start:
            return
        if self._early[:start] != b"\r\n"[:start]:
            raise ProtocolViolation("a chunk is longer than it says")
        line = _CHUNK_LINE.match(self._early, start)
        if line is None and b"\n" in self._early[start:]:
            raise ProtocolViolation("a chunk is malformed")
        if (len(self._early) if line is None else line.end()) > self._max_line_bytes:
            raise FramingTooLong(f"a chunk's line has more than {self._max_line_bytes} bytes")
        if line is None:
            return
        size = int(line[1], 16)
        if size == 0:
            self._end_at(line.end())
            return
        del self._early[: line.end()]
        self._left, self._is_within_chunk = size, True

    def _end_at(self, position: int) -> None:
        """Step over what comes after the last chunk: an empty line, and trailers before it."""
        rest = bytes(self._early[position : position + 2])
        if len(rest) < 2:
            return
        if rest != b"\r\n":
            end = self._early.find(_END, position)
            if not self._trailers:
                raise ProtocolViolation("there are trailers, which were not asked for")
            stop = end + len(_END) if end >= 0 else len(self._early)
            if stop - position > self._max_line_bytes:
                raise FramingTooLong(f"trailers have more than {self._max_line_bytes} bytes")
            if end < 0:
                return
            if not _TRAILERS.fullmatch(self._early, position, stop):
                raise ProtocolViolation("a trailer is malformed")
            position = stop - 2
        del self._early[: position + 2]
        self.is_whole = True
