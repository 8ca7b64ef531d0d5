"""Request bodies: where the next bytes of one go. No I/O."""

from __future__ import annotations

from tensor_round.errors import HeadersTooLarge, ProtocolViolation
from tensor_round.wire.http1 import BodyReader, FramingTooLong

from .head import MAX_HEAD_BYTES, MalformedRequest, RequestHead

#: So many bytes of a body and more are received to where they belong; fewer are received with
#: what follows them, and copied.
DIRECT_BYTES = 16 << 10

_NOTHING = memoryview(b"")
_DROPPED = memoryview(bytearray(64 << 10))


class BodyReceiver:
    """Fills memory with one body, as it is asked for.

    :meth:`take` fills memory with what has come. If that is not enough, receive into
    :attr:`buffer` and call :meth:`advance`, or receive elsewhere and call :meth:`feed`, until
    either returns True. All raise :class:`MalformedRequest` or :class:`HeadersTooLarge` for
    chunks that are framed wrongly.
    """

    #: Bytes of the target that have been received.
    filled = 0
    _target = _NOTHING
    #: Reads the chunks; None where the length is known.
    _chunks: BodyReader | None = None

    def __init__(self, head: RequestHead, early: memoryview) -> None:
        self.head = head
        #: Bytes that have been received in all, framing included.
        self.received = len(early)
        #: Bytes that were received and not taken. At the body's end they are what follows it.
        self.early = early
        length = head.length
        if length is None:
            self._chunks = BodyReader(
                head, bytearray(early), max_line_bytes=MAX_HEAD_BYTES, trailers=True
            )
            self._left = 0
            self.early = memoryview(b"")
        else:
            #: Bytes of the body that are not taken yet.
            self._left = length
        #: Whether all of the body has been taken.
        self.is_at_end = length == 0

    @property
    def missing(self) -> int:
        """Bytes of the target that are still to be received."""
        return len(self._target) - self.filled

    def take(self, target: memoryview) -> bool:
        """Fill this memory from now on; whether it is full, or the body at its end, already."""
        if self._chunks is not None and not self.is_at_end:
            self._target, self.filled = target, 0
            return self._take_chunks(self._chunks)
        size, early = len(target), self.early
        count = len(early)
        if count == size == self._left:
            target[:] = early
            self.early = _NOTHING
        else:
            count = min(size, count, self._left)
            target[:count] = early[:count]
            self.early = early[count:]
        self._left -= count
        self.is_at_end = not self._left
        self.filled = count
        if count == size or self.is_at_end:
            return True
        self._target = target
        return False

    @property
    def buffer(self) -> memoryview | None:
        """Where the next bytes belong; None where they are to be fed."""
        wanted = self._left if self._chunks is None else self._chunks.direct_bytes
        if wanted < DIRECT_BYTES or self.missing < DIRECT_BYTES:
            return None
        return self._target[self.filled : self.filled + wanted]

    def advance(self, nbytes: int) -> bool:
        """So many bytes were received into :attr:`buffer`; whether enough has come."""
        self.received += nbytes
        self.filled += nbytes
        if self._chunks is None:
            self._left -= nbytes
            self.is_at_end = not self._left
        else:
            self._chunks.advance(nbytes)
        return self.filled == len(self._target) or self.is_at_end

    def feed(self, received: memoryview) -> bool:
        """These bytes were received; whether enough has come."""
        filled, target = self.filled, self._target
        self.keep(received)
        if self._chunks is not None:
            return self._take_chunks(self._chunks)
        is_enough = self.take(target[filled:])
        self._target, self.filled = target, filled + self.filled
        return is_enough

    def keep(self, received: memoryview) -> None:
        """These bytes were received before they were asked for."""
        self.received += len(received)
        if self._chunks is None or self.is_at_end:
            self.early = memoryview(bytes(self.early) + bytes(received))
        else:
            self._chunks.feed(received)

    def release(self) -> None:
        """Refer to the target no more."""
        self._target = _NOTHING

    def skip(self) -> None:
        """Drop what has come of the body."""
        while not self.is_at_end and self.take(_DROPPED):
            pass
        self.release()

    def _take_chunks(self, chunks: BodyReader) -> bool:
        target = self._target
        try:
            while True:
                before = len(chunks.buffered)
                self.filled += chunks.read_into(target[self.filled :])
                if chunks.is_whole or self.filled == len(target):
                    break
                if len(chunks.buffered) == before:
                    return False
        except FramingTooLong as error:
            raise HeadersTooLarge(error.detail) from None
        except ProtocolViolation:
            raise MalformedRequest from None
        if chunks.is_whole:
            self.is_at_end = True
            self.early = memoryview(bytes(chunks.buffered))
        self.release()
        return True
