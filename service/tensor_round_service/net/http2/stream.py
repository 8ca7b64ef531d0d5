"""One stream as pure state: received bytes and the memory for them, and bytes to send."""

from __future__ import annotations

from typing import TypeVar

from .frames import FIRST_WINDOW
from .head import RequestHead

#: From this size on, bytes are received directly into the target. Smaller remainders are received
#: into the shared buffer, together with the frames after them, and copied.
DIRECT_BYTES = 16 << 10

_EMPTY = memoryview(b"")


class Credit:
    """What all streams of a connection share of its window for received bytes."""

    __slots__ = ("expected", "unread", "window")

    def __init__(self) -> None:
        #: What the peer may still send.
        self.window = FIRST_WINDOW
        #: Bytes that targets miss, of all streams.
        self.expected = 0
        #: Bytes that have come and nobody has asked for, of all streams.
        self.unread = 0


class Stream:
    """One request and its response, in bytes."""

    def __init__(self, number: int, head: RequestHead, credit: Credit, send_window: int) -> None:
        self.number = number
        self.head = head
        self._credit = credit
        #: What the peer may still send.
        self.window = FIRST_WINDOW
        #: Bytes of DATA that have come, without padding.
        self.received = 0
        self.unread = bytearray()
        self._target = _EMPTY
        #: Bytes of the target that are filled, and that are not.
        self.filled = self.missing = 0
        #: Whether the peer has sent END_STREAM.
        self.is_ended = False
        #: Whether one side has reset the stream: no more is sent or received.
        self.is_reset = False
        #: Whether END_STREAM is sent, or waits behind what is.
        self.is_finished = False
        #: What may be sent; less than 0 after the peer has made its windows smaller.
        self.send_window = send_window
        #: What waits to be sent, its length in bytes, and the block that ends the stream behind it.
        self.parts: list[memoryview] = []
        self.queued = 0
        #: Bytes of DATA that have been given out so far.
        self.sent = 0
        self.trailers: bytes | None = None
        #: Whether the stream stands in the row of those that send.
        self.has_turn = False

    @property
    def is_at_end(self) -> bool:
        """Whether the whole body has been read."""
        return self.is_ended and not self.unread

    def fill(self, target: memoryview) -> bool:
        """Start to fill this memory; True if it is full or no more comes."""
        count = min(len(target), len(self.unread))
        if count:
            with memoryview(self.unread) as unread:
                target[:count] = unread[:count]
            self.skip(count)
        self.filled = count
        if count == len(target) or self.is_ended:
            return True
        self._target, self.missing = target, len(target) - count
        self._credit.expected += self.missing
        return False

    def skip(self, nbytes: int) -> None:
        """Drop the first unread bytes."""
        count = min(nbytes, len(self.unread))
        del self.unread[:count]
        self._credit.unread -= count

    def room(self, nbytes: int) -> memoryview | None:
        """The memory for the next bytes of a frame that has so many; None if they are few."""
        if min(nbytes, self.missing) < DIRECT_BYTES:
            return None
        return self._target[self.filled : self.filled + nbytes]

    def advance(self, nbytes: int) -> None:
        """Count bytes that were received into :meth:`room`."""
        self.received += nbytes
        self.filled += nbytes
        self.missing -= nbytes
        self._credit.expected -= nbytes
        if not self.missing:
            self.release_target()

    def accept(self, piece: memoryview) -> None:
        """Use bytes that were received elsewhere."""
        count = min(len(piece), self.missing)
        if count:
            self._target[self.filled : self.filled + count] = piece[:count]
            self.advance(count)
        if count < len(piece):
            self.unread += piece[count:]
            self.received += len(piece) - count
            self._credit.unread += len(piece) - count

    def release_target(self) -> None:
        """Drop the reference to the target; ``filled`` stays."""
        self._credit.expected -= self.missing
        self._target, self.missing = _EMPTY, 0

    def drop(self) -> None:
        """Forget what has come and what waits to be sent."""
        self.release_target()
        self.skip(len(self.unread))
        self.parts.clear()
        self.queued = 0
        self.trailers = None

    def pop(self, nbytes: int) -> list[memoryview]:
        """The next bytes of what waits to be sent."""
        self.queued -= nbytes
        self.sent += nbytes
        popped = []
        while nbytes:
            part = self.parts.pop(0)
            if len(part) > nbytes:
                self.parts.insert(0, part[nbytes:])
                part = part[:nbytes]
            popped.append(part)
            nbytes -= len(part)
        return popped


S = TypeVar("S", bound=Stream)
