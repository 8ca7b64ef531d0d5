"""One stream as its handler sees it: a source of bytes, and a way to respond."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import TYPE_CHECKING

from tensor_round.contract.errors import ReceiveTimeout

from ..bodies import ClientDisconnected, Progress
from ..head import expects_continue
from ..limits import MinimumRate, ReceivingRate
from . import frames
from .fields import encoded
from .frames import Code
from .stream import Stream

if TYPE_CHECKING:
    from .connection import Connection


#: The block of an interim response (RFC 9110, section 15.2).
_CONTINUE = encoded((b":status", b"100"))


#: Memory for bytes that nobody reads.
_DISCARDED = memoryview(bytearray(64 << 10))


class ServedStream(Stream):
    """A :class:`~..request.Request`, whose DATA are its bytes, and the response to them.

    While a handler waits for bytes, or for the peer to read, the peer must hold the minimum rates
    of HTTP/1.1.
    """

    #: The peer's connection, which sets both before its handler starts.
    connection: Connection
    began: float
    #: The label of the API key that the request was let in with: not in its head, which equal
    #: requests share.
    key = ""
    _waiter: asyncio.Future[None] | None = None
    #: Unread bytes that end a wait without a target.
    _least = 0
    _progress: Progress | None = None
    _sending: asyncio.Future[None] | None = None
    #: Whether the peer has reset the stream, or gone.
    is_lost = False
    #: Whether the time has passed for which the peer waits.
    is_expired = False
    #: Whether parts wait to be sent, or the transport may still read from them.
    is_sending = False
    #: The rate of a message, which began behind ``_base`` bytes.
    _receive_rate: ReceivingRate | None = None
    _base = 0
    #: That of a response, and the bytes sent at its last check.
    _send_rate: MinimumRate | None = None
    _checked_sent = 0

    @property
    def scheme(self) -> str:
        """``https`` if the connection has TLS, else ``http``."""
        return "https" if self.connection.is_encrypted else "http"

    @property
    def client(self) -> tuple[str, int] | None:
        """The peer's address; None on a Unix socket."""
        return self.connection.client

    def is_gone(self) -> bool:
        """Whether the peer has reset the stream, closed the connection, or waits no longer."""
        return self.is_lost or self.is_expired

    @property
    def holds_memory(self) -> bool:
        """Whether the transport may still read from the parts that were to be sent."""
        return self.is_lost and self.connection.holds_memory

    async def peek(self, least: int, most: int, grace: float | None = None) -> bytes:
        """Wait until ``least`` bytes are unread, or no more come; return up to ``most`` of them.

        They stay unread. With ``grace`` a new message is awaited: the minimum rate is enforced from
        so many seconds on.
        """
        if grace is not None:
            self._receive_rate, self._base = None, self.received
        if len(self.unread) < least and not self.is_ended:
            self._least, self.filled = least, 0
            await self._wait(grace)
        return bytes(self.unread[:most])

    async def receive_into(self, target: memoryview, progress: Progress | None = None) -> int:
        """Fill ``target`` with the next bytes; return their count, less only at the end.

        The peer may then send what the target misses, so its memory must be reserved before.
        ``progress`` is called between reads; it may change the bytes filled so far.
        """
        if self.is_lost:
            raise ClientDisconnected
        if not self.fill(target):
            if not self.received and expects_continue(self.head):
                outbox = self.connection.session.outbox
                outbox.control += frames.headers(self.number, _CONTINUE, ends=False)
            # Decryption leaves the event loop no time for further work between reads.
            self._progress = None if self.connection.is_encrypted else progress
            try:
                await self._wait(None)
            finally:
                self._progress = None
                self.release_target()
        return self.filled

    async def discard(self, nbytes: int, seconds: float) -> None:
        """Drop up to ``nbytes`` of what still comes, for so many seconds at most."""
        timer = asyncio.get_running_loop().call_later(seconds, self._stop_waiting)
        try:
            while nbytes > 0 and not self.is_at_end:
                nbytes -= await self.receive_into(_DISCARDED[:nbytes])
        except (ClientDisconnected, ReceiveTimeout):
            pass
        finally:
            timer.cancel()

    def _stop_waiting(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_exception(ReceiveTimeout("the rest did not come in time"))

    async def _wait(self, grace: float | None) -> None:
        """Wait until the target is full, or the least is there, or no more comes."""
        if self.is_gone():
            raise ClientDisconnected
        limits = self.connection.limits
        if self._receive_rate is None:
            seconds = limits.receive_timeout if grace is None else grace
            self._receive_rate = ReceivingRate(limits, seconds, self._base)
        self._receive_rate.resume(self.received)
        self.connection.session.open_window(self)
        self.connection.flush()
        self._waiter = asyncio.get_running_loop().create_future()
        try:
            await self._waiter
        finally:
            # Break the cycle future > exception > traceback > frame > future.
            self._waiter = None

    async def until(self, news: asyncio.Future[None]) -> None:
        """Wait for ``news``, which have nothing to do with bytes."""
        if self.is_gone():
            raise ClientDisconnected
        self._waiter, self._receive_rate = news, None
        try:
            await news
        finally:
            self._waiter = None

    def arrived(self) -> None:
        """Note that bytes have come, or the end."""
        waiter = self._waiter
        if waiter is None or waiter.done():
            return
        if self.missing:
            if self._progress is not None:
                self._progress(self.missing)
        elif self.is_ended or self.filled or len(self.unread) >= self._least:
            waiter.set_result(None)

    async def send(
        self,
        parts: Sequence[bytes | memoryview],
        trailers: bytes | None = None,
        *,
        head: bytes | None = None,
    ) -> bool:
        """Send the head of the response if given, then the parts, then the trailers if given.

        Head and trailers are header blocks. Trailers end the response; without any part they are
        in one block with the head. Returns whether all was sent: the transport has no more use for
        the parts then. If not, the peer has reset the stream or gone; see :attr:`holds_memory`.
        """
        session = self.connection.session
        if self.is_lost:
            return False
        if head is not None:
            ends = not parts and trailers is not None
            session.begin(self, head + (trailers or b"") if ends else head, ends=ends)
            trailers = None if ends else trailers
        session.send(self, parts, trailers)
        self.is_sending = self.queued > 0
        if not self.connection.is_busy:
            self.connection.flush()
        if self.is_sending:
            limits = self.connection.limits
            self._send_rate = MinimumRate(limits.min_send_rate, limits.receive_timeout)
            self._checked_sent = self.sent
            self._sending = asyncio.get_running_loop().create_future()
            if self.is_expired:
                self.reset(Code.CANCEL)
            try:
                await self._sending
            finally:
                self._sending = self._send_rate = None
        return not self.is_lost

    def reset(self, code: Code) -> None:
        """End the stream at once."""
        self.connection.session.reset(self, code)
        self.connection.flush()

    def sent_all(self) -> None:
        """Note that the transport has no more use for what was sent."""
        self.is_sending = False
        if self._sending is not None and not self._sending.done():
            self._sending.set_result(None)

    def lost(self) -> None:
        """Note that the peer has reset the stream, or gone."""
        self.is_lost = self.is_sending or not self.is_finished
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_exception(ClientDisconnected())
        self.sent_all()

    def expire(self) -> None:
        """End what the handler waits for: the peer waits no longer."""
        self.is_expired = True
        if self.is_sending:
            self.reset(Code.CANCEL)
        elif self._waiter is not None and not self._waiter.done():
            self._waiter.set_exception(ClientDisconnected())

    def check_receiving(self) -> None:
        """Have the handler's wait fail if the peer has sent too little in the last interval."""
        waiter, rate = self._waiter, self._receive_rate
        if waiter is None or waiter.done() or rate is None or rate.holds(self.received):
            return
        least = self.connection.limits.min_receive_rate
        slow = ReceiveTimeout(f"the body was received at less than {least} bytes a second")
        waiter.set_exception(slow)

    def holds_send_rate(self, share: int | None, seconds: float) -> bool:
        """Check the rate at which the peer reads: ``share`` bytes, or what was given out."""
        before, self._checked_sent = self._checked_sent, self.sent
        moved = self.sent - before if share is None else share
        return self._send_rate is None or self._send_rate.record(moved, seconds)
