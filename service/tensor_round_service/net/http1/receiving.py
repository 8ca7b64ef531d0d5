"""Receiving the body of a request: its framing, and the memory of the route that reads it."""

from __future__ import annotations

import asyncio
import select
from collections.abc import Awaitable, Callable
from typing import Any

from tensor_round.contract.errors import HeadersTooLarge, ProtocolViolation, RequestRefused
from tensor_round.contract.wire.http1 import BodyReader, FramingTooLong

from ..bodies import Progress
from ..head import MalformedRequest
from ..limits import ConnectionLimits, ReceivingRate
from .head import MAX_HEAD_BYTES, RequestHead

#: From this size on, bytes are received directly into the target. Smaller remainders are received
#: into the shared buffer, together with the bytes after them, and copied.
DIRECT_BYTES = 16 << 10
#: Chunks that are decoded in one turn of the event loop: if they have one byte each, in 3 ms. The
#: first ones of a body are decoded as they come, for each connection that has some.
TURN_CHUNKS, FIRST_CHUNKS = 512, 32

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
    #: Whether :meth:`catch_up` must be called in a later turn of the event loop, before further
    #: bytes are received: more chunks have come than one turn decodes.
    is_behind = False
    _turn_left = FIRST_CHUNKS

    def __init__(self, head: RequestHead, unread: memoryview) -> None:
        self.head = head
        #: Bytes of the body received so far, chunk framing included.
        self.received = len(unread) if head.length != 0 else 0
        #: Bytes received and not yet used. At the body's end these follow the body.
        self.unread = unread
        length = head.length
        if length is None:
            self._chunks = BodyReader(
                None,
                bytearray(unread),
                is_chunked=True,
                max_line_bytes=MAX_HEAD_BYTES,
                trailers=True,
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
            if count == self._left > 0:
                self.received -= len(self.unread)
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

    def catch_up(self) -> bool:
        """Decode more of the chunks that have come; return as :meth:`fill` does."""
        self.is_behind, self._turn_left = False, TURN_CHUNKS
        return self.feed(_EMPTY)

    def keep(self, received: memoryview) -> None:
        """Store bytes that were received before a route asked for them."""
        if not self.is_at_end:
            self.received += len(received)
        if self._chunks is None or self.is_at_end:
            self.unread = memoryview(bytes(self.unread) + bytes(received))
        else:
            self._chunks.feed(received)

    def release(self) -> None:
        """Drop the reference to the target."""
        self._target = _EMPTY

    def skip(self) -> None:
        """Discard the received bytes of the body, as far as one turn decodes them."""
        self.is_behind, self._turn_left = False, TURN_CHUNKS
        while not self.is_at_end and self.fill(_DISCARDED):
            pass
        self.release()

    def _fill_from_chunks(self, chunks: BodyReader) -> bool:
        target = self._target
        try:
            while True:
                if not self._turn_left:
                    self.is_behind = True
                    return False
                self._turn_left -= 1
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
            self.received -= len(self.unread)
        self.release()
        return True


#: Events of a socket on which nothing can be sent any more, and of one whose peer has stopped
#: sending, which it may do before it reads.
_CLOSED = select.POLLERR | select.POLLHUP
_HALF_CLOSED = getattr(select, "POLLRDHUP", 0)
#: An interim response, which clients ignore unless they have asked for it (RFC 9110, section
#: 15.2). A peer that has closed its socket answers it with a reset.
CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"


class ReceivedRequest(BodyReceiver):
    """One :class:`.request.Request`. Its connection sets ``began``, ``transport`` and ``wait``."""

    began: float
    key = ""
    transport: Any
    #: Receives bytes of the body until the given future is done.
    wait: Callable[[asyncio.Future[None]], Awaitable[None]]

    _waiter: asyncio.Future[None] | None = None
    _progress: Progress | None = None
    #: Whether the last buffer was the target.
    _is_direct: bool
    _rate: ReceivingRate | None = None
    #: Whether the connection is lost.
    is_lost = False
    #: Whether a peer that has stopped sending has been asked if it still reads.
    _is_asked = False

    @property
    def client(self) -> tuple[str, int] | None:
        """The peer's address; None on a Unix socket."""
        return client_of(self.transport)

    @property
    def scheme(self) -> str:
        """``https`` if the connection has TLS, else ``http``."""
        return "http" if self.transport.get_extra_info("ssl_object") is None else "https"

    def is_gone(self) -> bool:
        """Whether the client has closed the connection.

        A client that has only stopped sending still waits. TCP tells the two apart when something
        is sent, so HTTP/1.1 gets an interim response. TLS has no half-close, and HTTP/1.0 no
        interim responses: such a client is gone when the connection is lost.
        """
        if self.is_lost or not _HALF_CLOSED:
            return self.is_lost
        sock = self.transport.get_extra_info("socket")
        if sock is None or sock.fileno() == -1:  # the transport is closed, and says so in a moment
            return True
        watched = select.poll()
        watched.register(sock.fileno(), _HALF_CLOSED)
        events = sum(event for _, event in watched.poll(0))
        if events & _CLOSED or (events & _HALF_CLOSED and self.scheme == "https"):
            return True
        if events & _HALF_CLOSED and self.head.version == "1.1" and not self._is_asked:
            self._is_asked = True
            self.transport.write(CONTINUE)
        return False

    async def receive_into(self, target: memoryview, progress: Progress | None = None) -> int:
        """Fill ``target`` with the body's next bytes; return their count, less only at the end."""
        if not self.fill(target):
            # Decryption leaves the event loop no time for further work between reads.
            self._progress = progress if self.scheme == "http" else None
            self._waiter = asyncio.get_running_loop().create_future()
            try:
                await self.wait(self._waiter)
            finally:
                # Break the cycle future > exception > traceback > frame > future: it would keep
                # the tensor's memory until the garbage collector runs.
                self._waiter = self._progress = None
                self.release()
        return self.filled

    @property
    def is_waiting(self) -> bool:
        """Whether a route waits for bytes of the body."""
        return self._waiter is not None and not self._waiter.done()

    def next_buffer(self) -> memoryview | None:
        """The memory to receive into; None for the shared receive buffer."""
        buffer = self.buffer
        self._is_direct = buffer is not None
        return buffer

    def accept(self, nbytes: int, received: memoryview) -> None:
        """Use bytes that were received into :meth:`next_buffer` or, without one, ``received``.

        With none of them, :meth:`catch_up`.
        """
        try:
            if not nbytes:
                is_done = self.catch_up()
            else:
                is_done = self.advance(nbytes) if self._is_direct else self.feed(received[:nbytes])
        except (MalformedRequest, RequestRefused) as error:
            self.fail(error)
            return
        if not is_done:
            if self._progress is not None:
                self._progress(self.missing)
        elif self._waiter is not None and not self._waiter.done():  # it may be cancelled
            self._waiter.set_result(None)

    def fail(self, error: Exception) -> None:
        """Raise an error in the route that waits for the body."""
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_exception(error)

    def start_rate(self, limits: ConnectionLimits) -> None:
        """Enforce the minimum rate from now on, but only while a route reads."""
        if self._rate is None:
            self._rate = ReceivingRate(limits, limits.receive_timeout)
        self._rate.resume(self.received)

    def holds_rate(self) -> bool:
        """Check the minimum rate over the last interval."""
        assert self._rate is not None
        return self._rate.holds(self.received)


def client_of(transport: Any) -> tuple[str, int] | None:
    """The address and port of a transport's peer; None on a Unix socket."""
    peer = transport.get_extra_info("peername")
    return (str(peer[0]), int(peer[1])) if isinstance(peer, tuple) else None
