"""What takes the body of an answer, piece by piece, and ends in a value or an error. No I/O."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any, Protocol, TypeVar

from ..arrays.sinks import Landing
from ..errors import ConnectionFailed, MalformedJSON, ProtocolViolation
from ..wire import strictjson
from .response import MAX_DOCUMENT_DEPTH, MAX_PROBLEM_BYTES, refusal

T_co = TypeVar("T_co", covariant=True)

#: Of an answer that is a document: ``/conformance`` has 30 KiB.
MAX_DOCUMENT_BYTES = 4 << 20


class Intake(Protocol[T_co]):
    """Takes the body of one answer."""

    def room(self) -> memoryview:
        """Memory for the next bytes, never empty."""

    def took(self, count: int) -> None:
        """So many bytes were written into the last room; raises if they are too many."""

    def end(self) -> T_co:
        """The body is whole: its value, or the error it stands for."""


def feed(intake: Intake[Any], piece: bytes | memoryview) -> None:
    """Give an intake bytes that lie elsewhere."""
    view = memoryview(piece)
    while view:
        room = intake.room()
        count = min(len(view), len(room))
        room[:count] = view[:count]
        intake.took(count)
        view = view[count:]


class TensorIntake:
    """Takes the ``total`` bytes of an output; what does not land of them is dropped."""

    __slots__ = ("_came", "_digest", "_expected", "_landed", "_landing", "_room", "_total")

    def __init__(self, landing: Landing, total: int, sha256: bytes | None) -> None:
        self._landing = landing
        self._landed = landing.nbytes
        self._total = total
        self._came = 0
        self._room = memoryview(b"")
        self._expected = sha256
        self._digest = None if sha256 is None else hashlib.sha256()

    def room(self) -> memoryview:
        """The landing's room, then room for the padding, then for a byte too many."""
        if self._came < self._landed:
            self._room = self._landing.room()
        else:
            self._room = memoryview(bytearray(max(1, self._total - self._came)))
        return self._room

    def took(self, count: int) -> None:
        """Counts, and digests."""
        if self._digest is not None:
            self._digest.update(self._room[:count])
        if self._came < self._landed:
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
        value = strictjson.loads(self._text, max_depth=MAX_DOCUMENT_DEPTH)
        if not isinstance(value, dict):
            raise MalformedJSON("the JSON is no object")
        return value


class DocumentIntake(_BoundedText):
    """Takes a JSON object."""

    __slots__ = ("_expected",)

    def __init__(self, sha256: bytes | None = None) -> None:
        super().__init__()
        self._expected = sha256

    def end(self) -> dict[str, Any]:
        """The object; raises :class:`ProtocolViolation`."""
        if self._expected not in (None, hashlib.sha256(self._text).digest()):
            raise ProtocolViolation("the answer's bytes are not those that its digest states")
        try:
            return self._object()
        except MalformedJSON as error:
            raise ProtocolViolation(f"the answer is no document: {error.detail}") from None


class RefusalIntake(_BoundedText):
    """Takes a refusal's problem document (RFC 9457), or what a proxy sends in its place."""

    __slots__ = ("_came", "_headers", "_status")

    def __init__(self, status: int, headers: Mapping[str, str]) -> None:
        super().__init__()
        self._status = status
        self._headers = headers
        self._came = 0

    def took(self, count: int) -> None:
        """Kept, up to what is looked at; a page that a proxy sends may be longer than is read."""
        self._came += count
        left = MAX_PROBLEM_BYTES - len(self._text)
        self._text += self._room[: min(count, left)]
        if self._came > MAX_DOCUMENT_BYTES:
            self.end()

    def end(self) -> Any:
        """Raises the refusal."""
        raise refusal(self._status, self._headers, bytes(self._text))
