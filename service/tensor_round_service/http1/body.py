"""Framing of request bodies: which memory the next bytes go to. No I/O."""

from __future__ import annotations

from tensor_round.contract.errors import HeadersTooLarge, ProtocolViolation
from tensor_round.contract.wire.http1 import BodyReader, FramingTooLong

from .head import MAX_HEAD_BYTES, MalformedRequest, RequestHead

#: From this size on, bytes are received directly into the target. Smaller remainders are received
#: into the shared buffer, together with the bytes after them, and copied.
DIRECT_BYTES = 16 << 10

_EMPTY = memoryview(b"")
_DISCARDED = memoryview(bytearray(64 << 10))


class BodyReceiver:
    """Decodes the framing of one body and fills the memory that a route provides.

    :meth:`fill` copies what has been received already. If that does not fill the target, receive
    into :attr:`buffer` and call :meth:`advance`, or receive elsewhere and call :meth:`feed`,
    until either returns True. All raise :class:`MalformedRequest` or :class:`HeadersTooLarge`
    for malformed chunks.
    """

    #: Bytes of the target that are filled.
    filled = 0
    _target = _EMPTY
    #: Decodes the chunked coding; None if the body has a Content-Length.
    _chunks: BodyReader | None = None

    def __init__(self, head: RequestHead, unread: memoryview) -> None:
        self.head = head
        #: Bytes received so far, chunk framing included.
        self.received = len(unread)
        #: Bytes received and not yet used. At the body's end these follow the body.
        self.unread = unread
        length = head.length
        if length is None:
            self._chunks = BodyReader(
                head, bytearray(unread), max_line_bytes=MAX_HEAD_BYTES, trailers=True
            )
            self._left = 0
            self.unread = memoryview(b"")
        else:
            #: Bytes of the body that are not in any target yet.
            self._left = length
        #: Whether the whole body has been read.
        self.is_at_end = length == 0

    @property
    def missing(self) -> int:
        """Bytes of the target that are not filled yet."""
        return len(self._target) - self.filled

    def fill(self, target: memoryview) -> bool:
        """Start to fill this memory; return True if it is full or the body has ended."""
        if self._chunks is not None and not self.is_at_end:
            self._target, self.filled = target, 0
            return self._fill_from_chunks(self._chunks)
        size, unread = len(target), self.unread
        count = len(unread)
        if count == size == self._left:
            target[:] = unread
            self.unread = _EMPTY
        else:
            count = min(size, count, self._left)
            target[:count] = unread[:count]
            self.unread = unread[count:]
        self._left -= count
        self.is_at_end = not self._left
        self.filled = count
        if count == size or self.is_at_end:
            return True
        self._target = target
        return False

    @property
    def buffer(self) -> memoryview | None:
        """The memory to receive into; None if the bytes must go through :meth:`feed`."""
        wanted = self._left if self._chunks is None else self._chunks.direct_bytes
        if wanted < DIRECT_BYTES or self.missing < DIRECT_BYTES:
            return None
        return self._target[self.filled : self.filled + wanted]

    def advance(self, nbytes: int) -> bool:
        """Count bytes received into :attr:`buffer`; return as :meth:`fill` does."""
        self.received += nbytes
        self.filled += nbytes
        if self._chunks is None:
            self._left -= nbytes
            self.is_at_end = not self._left
        else:
            self._chunks.advance(nbytes)
        return self.filled == len(self._target) or self.is_at_end

    def feed(self, received: memoryview) -> bool:
        """Use received bytes; return as :meth:`fill` does."""
        filled, target = self.filled, self._target
        self.keep(received)
        if self._chunks is not None:
            return self._fill_from_chunks(self._chunks)
        is_done = self.fill(target[filled:])
        self._target, self.filled = target, filled + self.filled
        return is_done

    def keep(self, received: memoryview) -> None:
        """Store bytes that were received before a route asked for them."""
        self.received += len(received)
        if self._chunks is None or self.is_at_end:
            self.unread = memoryview(bytes(self.unread) + bytes(received))
        else:
            self._chunks.feed(received)

    def release(self) -> None:
        """Drop the reference to the target."""
        self._target = _EMPTY

    def skip(self) -> None:
        """Discard the received bytes of the body."""
        while not self.is_at_end and self.fill(_DISCARDED):
            pass
        self.release()

    def _fill_from_chunks(self, chunks: BodyReader) -> bool:
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
            self.unread = memoryview(bytes(chunks.buffered))
        self.release()
        return True
