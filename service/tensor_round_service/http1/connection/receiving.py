"""A request received on a connection, whose body a route reads into its own memory."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from tensor_round.contract.errors import RequestRefused

from ..body import BodyReceiver
from ..head import MalformedRequest
from ..request import Progress
from .context import ConnectionLimits
from .rates import MinimumRate


class ReceivedRequest(BodyReceiver):
    """One :class:`.request.Request`. Its connection sets ``transport`` and ``wait``."""

    transport: Any
    #: Receives bytes of the body until the given future is done.
    wait: Callable[[asyncio.Future[None]], Awaitable[None]]

    _waiter: asyncio.Future[None] | None = None
    _progress: Progress | None = None
    _is_direct = False
    _rate: MinimumRate | None = None
    #: The value of ``received`` at the last check of the rate.
    _checked = 0

    @property
    def client(self) -> tuple[str, int] | None:
        """The peer's address; None on a Unix socket."""
        peer = self.transport.get_extra_info("peername")
        return (str(peer[0]), int(peer[1])) if isinstance(peer, tuple) else None

    @property
    def scheme(self) -> str:
        """``https`` if the connection has TLS, else ``http``."""
        return "http" if self.transport.get_extra_info("ssl_object") is None else "https"

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
        """Use bytes that were received into :meth:`next_buffer` or, without one, ``received``."""
        try:
            is_done = self.advance(nbytes) if self._is_direct else self.feed(received[:nbytes])
        except (MalformedRequest, RequestRefused) as error:
            self.fail(error)
            return
        if is_done and self._waiter is not None:
            self._waiter.set_result(None)
        elif self._progress is not None:
            self._progress(self.missing)

    def fail(self, error: Exception) -> None:
        """Raise an error in the route that waits for the body."""
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_exception(error)

    def start_rate(self, limits: ConnectionLimits) -> None:
        """Enforce the minimum rate from now on, but only while a route reads."""
        self._checked = self.received
        if self._rate is None:
            self._rate = MinimumRate(limits.min_receive_rate, limits.receive_timeout)
            if self._checked >= limits.grace_bytes:
                self._rate.limit(limits.rate_interval)

    def holds_rate(self, limits: ConnectionLimits) -> bool:
        """Check the minimum rate over the last interval."""
        before, self._checked = self._checked, self.received
        assert self._rate is not None
        is_held = self._rate.record(self._checked - before, limits.rate_interval)
        if before < limits.grace_bytes <= self._checked:
            self._rate.limit(limits.rate_interval)
        return is_held
