"""How a connection is limited in time, and how it ends."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

from .rates import Deadline
from .sending import Writer
from .site import Site
from .states import MOVES, State

logger = logging.getLogger(__name__)


class Lifecycle(asyncio.BufferedProtocol):
    """A transport, the state of its connection, and the deadline of that state."""

    transport: Any
    _writer: Writer
    _deadline: Deadline

    def __init__(self, site: Site) -> None:
        self._site = site
        self._state = State.IDLE
        #: Whether the server leaves.
        self._is_draining = False
        self._is_paused = False
        #: Bytes that a refused sender may still send.
        self._to_drop = site.limits.linger_bytes

    @property
    def state(self) -> State:
        """What the connection waits for."""
        return self._state

    def connection_made(self, transport: Any) -> None:
        """Wait for a first request, but not for ever."""
        self.transport = transport
        self._writer = Writer(transport)
        self._writer.open()
        self._deadline = Deadline(self._site.loop, self._expired)
        self._deadline.set(self._site.limits.receive_timeout)
        self._site.state.connections.add(self)

    def connection_lost(self, error: Exception | None) -> None:
        """Leave nothing to the garbage collector."""
        self._state = State.CLOSED
        self._deadline.close()
        self._writer.lose()
        self._site.state.connections.discard(self)
        # uvloop's TLS keeps methods of its protocol for ever: that must not keep its buffers.
        self.transport = None

    def pause_writing(self) -> None:
        """Bytes wait to be sent."""
        self._writer.pause()

    def resume_writing(self) -> None:
        """None do any more."""
        self._writer.resume()

    def shutdown(self) -> None:
        """Take no further request; let those that have begun end.

        A request may be on its way to a connection that looks idle, so that closes a little later.
        """
        self._is_draining = True
        if self._state is State.IDLE:
            self._site.loop.call_later(self._site.limits.drain_grace, self._close_if_idle)

    def _close_if_idle(self) -> None:
        if self._state is State.IDLE:
            self._close()
            self._site.loop.call_later(self._site.limits.drain_grace, self._abort_if_sent)

    def _abort_if_sent(self) -> None:
        """Abort instead of waiting for TLS's close_notify, once all data is sent."""
        if self._state is State.CLOSING and not self._writer.left and self._writer.is_writable:
            self.transport.abort()

    def _expired(self) -> None:
        """The deadline of the state has passed."""
        limits, state = self._site.limits, self._state
        if state is State.SENDING or state is State.CLOSING:
            if self._writer.is_taken(limits.rate_interval):
                self._deadline.set(limits.rate_interval)
            else:
                rate = limits.min_send_rate
                logger.warning("an answer was taken at less than %d bytes a second: cut off", rate)
                self.transport.abort()
        elif state is State.LINGERING:
            self._move(State.DROPPING)
            self._deadline.set(limits.linger_seconds)
            self._resume_reading()
        elif state is not State.WORKING:
            self._close()

    def _start_sending(self) -> None:
        limits = self._site.limits
        self._move(State.SENDING)
        self._writer.start_rate(limits.min_send_rate, limits.receive_timeout)
        self._deadline.set(limits.rate_interval)

    def _linger(self) -> None:
        """Let a refused sender read why, before the kernel resets what it still sends."""
        self._move(State.LINGERING)
        self._pause_reading()
        self._deadline.set(self._site.limits.linger_before)
        if self.transport.can_write_eof():  # TLS cannot
            self.transport.write_eof()

    def _drop(self, nbytes: int) -> None:
        """Count bytes that nobody wants."""
        self._to_drop -= nbytes
        if self._to_drop < 0:
            self._close()

    def _close(self) -> None:
        """Close the connection; what is left has to be taken at the minimum rate."""
        limits = self._site.limits
        self._move(State.CLOSING)
        self._writer.start_rate(limits.min_send_rate, limits.receive_timeout)
        self._deadline.set(limits.rate_interval)
        self.transport.close()

    def _move(self, state: State) -> None:
        if state not in MOVES[self._state]:
            raise RuntimeError(f"a connection cannot go from {self._state.name} to {state.name}")
        self._state = state

    def _pause_reading(self) -> None:
        if not self._is_paused:
            self._is_paused = True
            self.transport.pause_reading()

    def _resume_reading(self) -> None:
        if self._is_paused:
            self._is_paused = False
            self.transport.resume_reading()

    def _abort(self) -> None:
        if self.transport is not None:
            self.transport.abort()
