"""Readers of response bodies: sinks that end in a value, or in an error. No I/O here."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any, Protocol, TypeVar

from ..arrays.sinks import Sink, TensorSink
from ..contract.errors import ConnectionFailed, MalformedJSON, ProtocolViolation
from ..contract.wire import strictjson
from .refusal import MAX_DOCUMENT_DEPTH, MAX_PROBLEM_BYTES, refusal

T_co = TypeVar("T_co", covariant=True)

#: The longest JSON document that is read, in bytes: ``/conformance`` has 30 KiB.
MAX_DOCUMENT_BYTES = 4 << 20
_TEXT_BUFFER_BYTES = 16 << 10


class ResponseReader(Sink, Protocol[T_co]):
    """A sink for the body of one response; ``advance`` raises if the body is too long."""

    def finish(self) -> T_co:
        """The value of the complete body; raises the error that it stands for."""


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
        """The sink's buffer; behind the sink, memory for the padding and one excess byte."""
        if self._received < self._nbytes:
            self._buffer = self._sink.get_buffer()
        else:
            self._buffer = memoryview(bytearray(max(1, self._total - self._received)))
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
            raise ProtocolViolation(f"the response is no JSON document: {error.detail}") from None
        if not isinstance(value, dict):
            raise ProtocolViolation("the response is no JSON document: it must be an object")
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
