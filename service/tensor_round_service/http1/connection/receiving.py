"""A request on a connection: its body is received where a route asks for it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from tensor_round.errors import RequestRefused

from ..body import BodyReceiver
from ..head import MalformedRequest
from ..request import Progress
from .rates import MinimumRate
from .site import Limits


class ReceivedRequest(BodyReceiver):
    """One :class:`.request.Request`. Its connection sets ``transport`` and ``wait``."""

    transport: Any
    #: Waits for bytes of the body, until this future is done.
    wait: Callable[[asyncio.Future[None]], Awaitable[None]]

    _waiter: asyncio.Future[None] | None = None
    _progress: Progress | None = None
    _is_direct = False
    _rate: MinimumRate | None = None
    _came = 0

    @property
    def client(self) -> tuple[str, int] | None:
        """The peer's address; None on a Unix socket."""
        peer = self.transport.get_extra_info("peername")
        return (str(peer[0]), int(peer[1])) if isinstance(peer, tuple) else None

    @property
    def scheme(self) -> str:
        """``https`` where TLS lies between transport and socket."""
        return "http" if self.transport.get_extra_info("ssl_object") is None else "https"

    async def receive_into(self, target: memoryview, progress: Progress | None = None) -> int:
        """Fill ``target`` with the body's next bytes; fewer only at its end. How many they were."""
        if not self.take(target):
            # Deciphering leaves no time for it.
            self._progress = progress if self.scheme == "http" else None
            self._waiter = asyncio.get_running_loop().create_future()
            try:
                await self.wait(self._waiter)
            finally:
                # An error refers to the frames that it came through, and they to the future that
                # it was set on: what a cycle refers to waits for the garbage collector.
                self._waiter = self._progress = None
                self.release()
        return self.filled

    @property
    def is_waiting(self) -> bool:
        """Whether bytes of the body are asked for, and have not come."""
        return self._waiter is not None and not self._waiter.done()

    def next_buffer(self) -> memoryview | None:
        """Where the next bytes belong; None where they have no place of their own."""
        buffer = self.buffer
        self._is_direct = buffer is not None
        return buffer

    def accept(self, nbytes: int, received: memoryview) -> None:
        """So many bytes came: into :meth:`next_buffer`, else to the beginning of ``received``."""
        try:
            is_enough = self.advance(nbytes) if self._is_direct else self.feed(received[:nbytes])
        except (MalformedRequest, RequestRefused) as error:
            self.fail(error)
            return
        if is_enough and self._waiter is not None:
            self._waiter.set_result(None)
        elif self._progress is not None:
            self._progress(self.missing)

    def fail(self, error: Exception) -> None:
        """Raise this where the body is waited for."""
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_exception(error)

    def start_rate(self, limits: Limits) -> None:
        """Hold the sender to the minimum rate from now on, or go on with that."""
        self._came = self.received
        if self._rate is None:
            self._rate = MinimumRate(limits.min_receive_rate, limits.receive_timeout)
            if self._came >= limits.grace_bytes:
                self._rate.limit(limits.rate_interval)

    def is_timely(self, limits: Limits) -> bool:
        """Whether the body came at the minimum rate in the interval that has passed."""
        before, self._came = self._came, self.received
        assert self._rate is not None
        is_held = self._rate.moved(self._came - before, limits.rate_interval)
        if before < limits.grace_bytes <= self._came:
            self._rate.limit(limits.rate_interval)
        return is_held
