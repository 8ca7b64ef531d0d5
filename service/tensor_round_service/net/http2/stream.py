"""One stream as pure state: received bytes and the memory for them, and bytes to send."""

from __future__ import annotations

from collections.abc import Sequence
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

    #: What the peer may still send.
    window = FIRST_WINDOW
    #: Bytes of DATA that have come, without padding.
    received = 0
    _target = _EMPTY
    #: Bytes of the target that are filled, and that are not.
    filled = missing = 0
    #: Whether the peer has sent END_STREAM.
    is_ended = False
    #: Whether one side has reset the stream: no more is sent or received.
    is_reset = False
    #: Whether END_STREAM is sent, or waits behind what is.
    is_finished = False
    #: Bytes that wait to be sent, and the block that ends the stream behind them.
    queued = 0
    trailers: bytes | None = None
    #: Bytes of DATA that have been given out so far.
    sent = 0
    #: Whether the stream stands in the row of those that send.
    has_turn = False

    def __init__(self, number: int, head: RequestHead, credit: Credit, send_window: int) -> None:
        self.number = number
        self.head = head
        self._credit = credit
        self.unread = bytearray()
        #: What may be sent; less than 0 after the peer has made its windows smaller.
        self.send_window = send_window
        #: What waits to be sent.
        self.parts: list[memoryview] = []

    @property
    def is_at_end(self) -> bool:
        """Whether the whole body has been read."""
        return self.is_ended and not self.unread

    def fill(self, target: memoryview) -> bool:
        """Start to fill this memory; True if it is full or no more comes."""
        count = min(len(target), len(self.unread))
        if count == len(self.unread):
            target[:count], self.unread = self.unread, bytearray()
            self._credit.unread -= count
        else:
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

    def accept(self, pieces: Sequence[memoryview], nbytes: int) -> None:
        """Use bytes that were received elsewhere."""
        filled, missing = self.filled, self.missing
        if nbytes <= missing:
            for piece in pieces:
                self._target[filled : (filled := filled + len(piece))] = piece
            self.advance(nbytes)
            return
        for piece in pieces:
            if not missing:
                self.unread += piece
                continue
            count = min(len(piece), missing)
            self._target[filled : filled + count] = piece[:count]
            filled += count
            missing -= count
            self.unread += piece[count:]
        used = self.missing - missing
        if used:
            self.advance(used)
        self.received += nbytes - used
        self._credit.unread += nbytes - used

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


S = TypeVar("S", bound=Stream)
