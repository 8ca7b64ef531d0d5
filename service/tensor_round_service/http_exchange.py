"""One request on a connection of :mod:`.http_protocol`: its body in, its answer out."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING

from uvicorn.protocols.http.httptools_impl import RequestResponseCycle

from tensor_round.errors import RequestRefused

from .direct import LARGE_BYTES, Header, Parts, Progress, Repeat, SenderGone
from .http_sending import head_bytes, is_encrypted, write_through

if TYPE_CHECKING:
    from .http_protocol import DirectHttpProtocol


class Exchange:
    """One request's :class:`~.direct.DirectExchange`."""

    def __init__(self, protocol: DirectHttpProtocol, length: int | None) -> None:
        self._protocol = protocol
        #: Bytes of the body, as its sender stated them.
        self.length = length
        self._filling: Filling | None = None
        self._full: asyncio.Future[None]
        self.cycle: RequestResponseCycle
        #: Who wants to know how requests with this one's head can be answered.
        self.learn: Callable[[Repeat], None] | None = None
        #: Called if the request is refused for what it is: nobody is to wait for a body then.
        self.on_refusal: Callable[[], None] | None = None
        # An answer that TLS must have bit by bit cannot be left to itself.
        self.repeatable_bytes = LARGE_BYTES if protocol.scheme == "https" else sys.maxsize
        #: Why the body will not be whole: its sender was too slow.
        self.failure: RequestRefused | None = None

    @property
    def received(self) -> int:
        """Bytes of the body that have come so far, as they were on the wire."""
        return self._protocol.fed + (self._filling.filled if self._filling else 0)

    @property
    def remaining(self) -> int | None:
        """Bytes of the body that the application has not had; None where nobody said."""
        if self.length is None:
            return None
        return self.length - self._protocol.fed + len(self.cycle.body)

    def offer(self, repeat: Repeat) -> None:
        """Tell who wants to know."""
        if self.learn is not None:
            self.learn(repeat)

    def expect(self) -> None:
        """The application wants the body now: its sender has to keep the pace."""
        if self.cycle.more_body:
            self._protocol.watch(self)

    async def arrival(self, nbytes: int) -> None:
        """Wait until that many bytes of the body have come, or all; they stay where they are."""
        cycle, flow = self.cycle, self._protocol.flow
        while cycle.more_body and len(cycle.body) < nbytes:
            self._raise_if_over()
            self._continue()
            flow.resume_reading()
            await cycle.message_event.wait()
            cycle.message_event.clear()
        # What waits is still to be received.
        cycle.message_event.set()
        flow.pause_reading()

    def take(self, nbytes: int) -> bytes | None:
        """The next bytes of the body, if they have come."""
        waiting = self.cycle.body
        if len(waiting) < nbytes:
            return None
        # Slices of a prompt request's body are views, of a parsed one's they are copies.
        self.cycle.body = waiting[nbytes:]
        return bytes(waiting[:nbytes])

    def take_into(self, target: memoryview) -> bool:
        """Fill memory of just the size of all that remains, if that has come."""
        cycle = self.cycle
        if cycle.more_body or len(cycle.body) < len(target):
            return False
        target[:] = cycle.body
        cycle.body = bytearray()
        return True

    async def receive_into(self, target: memoryview, progress: Progress | None = None) -> None:
        """Receive all that remains into memory of just that size."""
        if self.take_into(target):
            return
        cycle, protocol = self.cycle, self._protocol
        early = len(cycle.body)
        target[:early] = cycle.body
        cycle.body = bytearray()
        if early < len(target):
            self._raise_if_over()
            self._continue()
            # A transport may change its protocol only while it does not read.
            protocol.flow.pause_reading()
            if is_encrypted(protocol.transport):
                progress = None  # deciphering leaves no time for it
            self._full = protocol.loop.create_future()
            self._filling = Filling(
                protocol, target[early:], partial(_settle, self._full), progress
            )
            protocol.transport.set_protocol(self._filling)
            protocol.flow.resume_reading()
            try:
                await self._full
            finally:
                # Exchange, cycle and scope know one another: what they hold waits for the
                # garbage collector, and a tensor's memory must not. So do an error and the
                # frames that it came through, if one of them has the future that it was set on.
                self._filling = None
                del self._full
        cycle.more_body = False
        protocol.flow.resume_reading()

    def fail(self, refusal: RequestRefused) -> None:
        """Wake whoever waits for the body, to refuse the request."""
        self.failure = refusal
        if self._filling is not None:
            _settle(self._full, refusal)
        self.cycle.message_event.set()

    async def respond(self, status: int, headers: Sequence[Header], parts: Parts) -> None:
        """Answer; on return nothing refers to the parts' memory any more."""
        cycle, transport, flow = self.cycle, self._protocol.transport, self._protocol.flow
        if flow.write_paused and not cycle.disconnected:
            await flow.drain()
        if cycle.disconnected:
            return
        if cycle.scope["method"] == "HEAD":
            # A body would be taken for the next answer.
            parts = ()
        if cycle.more_body:
            # What was not read of the body stands between this answer and a next request.
            cycle.keep_alive = False
        # All that may want for memory comes before the first byte: then there still is a refusal.
        head = head_bytes(status, (*cycle.default_headers, *headers), close=not cycle.keep_alive)
        small = sum(map(len, parts)) < LARGE_BYTES
        first = b"".join((head, *parts)) if small else head
        if cycle.response_started:
            raise RuntimeError("an answer has begun already")
        cycle.response_started = True
        cycle.waiting_for_100_continue = False
        if 400 <= status < 500 and self.on_refusal is not None:
            self.on_refusal()
        if small:
            transport.write(first)
        else:
            await write_through(self._protocol, (first, *parts))
            if cycle.disconnected:
                return
        cycle.response_complete = True
        cycle.message_event.set()
        # The scope knows this exchange, and is known to it by the cycle: together they would
        # wait for the garbage collector.
        cycle.scope.pop("extensions", None)
        if not (cycle.keep_alive or cycle.more_body):
            transport.close()
        cycle.on_response()

    def hang_up(self) -> None:
        """End the connection, where no answer can be given or none can be ended."""
        self.cycle.response_started = self.cycle.disconnected = True
        self._protocol.transport.abort()

    def _continue(self) -> None:
        if self.cycle.waiting_for_100_continue:
            self.cycle.waiting_for_100_continue = False
            self._protocol.transport.write(b"HTTP/1.1 100 Continue\r\n\r\n")

    def _raise_if_over(self) -> None:
        if self.failure is not None:
            raise self.failure
        if self.cycle.disconnected:
            raise SenderGone


def _settle(future: asyncio.Future[None], error: Exception | None) -> None:
    if future.done():
        return
    if error is None:
        future.set_result(None)
    else:
        future.set_exception(error)


class Filling(asyncio.BufferedProtocol):
    """Has the transport while one body comes in; ``end`` is told why it is over."""

    def __init__(
        self,
        protocol: DirectHttpProtocol,
        target: memoryview,
        end: Callable[[SenderGone | None], None],
        progress: Progress | None = None,
    ) -> None:
        self._protocol = protocol
        self._target = target
        self._end = end
        self._progress = progress
        self.filled = 0

    def get_buffer(self, sizehint: int) -> memoryview:
        """Where the next bytes go; never beyond the body's end."""
        return self._target[self.filled :]

    def buffer_updated(self, nbytes: int) -> None:
        """Count them; hand the connection back after the last."""
        self.filled += nbytes
        if self.filled == len(self._target):
            transport = self._protocol.transport
            transport.pause_reading()
            self._protocol.take_back()
            transport.resume_reading()
            self._end(None)
        elif self._progress is not None:
            self._progress(len(self._target) - self.filled)

    def connection_lost(self, exc: Exception | None) -> None:
        """Tell both who waits for the body and who owns the connection."""
        self._end(SenderGone())
        self._protocol.connection_lost(exc)

    def pause_writing(self) -> None:
        """As the connection's owner would."""
        self._protocol.pause_writing()

    def resume_writing(self) -> None:
        """As the connection's owner would."""
        self._protocol.resume_writing()
