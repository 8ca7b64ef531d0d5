"""The states of a connection, their time limits, and the ways in which it closes."""

from __future__ import annotations

import asyncio
import logging
import math
from enum import IntEnum
from typing import Any

from .limits import Deadline
from .sending import Writer
from .server import ServerContext

logger = logging.getLogger(__name__)


class State(IntEnum):
    """The state of a connection; comments say what it waits for."""

    IDLE = 0  # the first byte of a request
    HEAD = 1  # the rest of a head
    QUEUED = 2  # its next turn
    WORKING = 3  # the route
    RECEIVING = 4  # bytes of a body that the route reads
    SENDING = 5  # the peer, to read the response
    LINGERING = 6  # a refused client, to read the refusal (RFC 9112, section 9.6)
    DROPPING = 7  # the end of a refused client's body, which is discarded
    CLOSING = 8  # the peer, to read the rest of the write buffer
    CLOSED = 9


#: Legal transitions. A lost connection goes to CLOSED from every state.
MOVES: dict[State, frozenset[State]] = {
    State.IDLE: frozenset(
        {State.HEAD, State.QUEUED, State.WORKING, State.LINGERING, State.CLOSING}
    ),
    State.HEAD: frozenset({State.QUEUED, State.WORKING, State.LINGERING, State.CLOSING}),
    State.QUEUED: frozenset({State.IDLE}),
    State.WORKING: frozenset(
        {State.IDLE, State.RECEIVING, State.SENDING, State.LINGERING, State.CLOSING}
    ),
    State.RECEIVING: frozenset({State.WORKING}),
    State.SENDING: frozenset({State.IDLE, State.LINGERING, State.CLOSING}),
    State.LINGERING: frozenset({State.DROPPING}),
    State.DROPPING: frozenset({State.CLOSING}),
    State.CLOSING: frozenset(),
    State.CLOSED: frozenset(),
}


class ConnectionLifecycle(asyncio.BufferedProtocol):
    """A transport, the state of its connection, and the deadline of that state."""

    transport: Any
    _writer: Writer
    _deadline: Deadline

    def __init__(self, server: ServerContext) -> None:
        self._server = server
        #: What the connection waits for.
        self.state = State.IDLE
        #: Whether a request has been served.
        self._was_used = False
        #: Whether the server has begun to drain.
        self._is_draining = False
        #: Whether reading is paused.
        self._is_paused = False
        #: Bytes that a refused client may still send.
        self._to_drop = server.limits.linger_bytes
        server.opening.add(self)

    def connection_made(self, transport: Any) -> None:
        """Start the deadline for the first request."""
        self.transport = transport
        self._writer = Writer(transport)
        self._writer.open()
        self._deadline = Deadline(self._server.loop, self._on_deadline)
        self._deadline.set(self._server.limits.receive_timeout)
        self._server.opening.discard(self)
        self._server.state.connections.add(self)

    def connection_lost(self, error: Exception | None) -> None:
        """Drop all references that form cycles, so that buffers are freed at once."""
        self.state = State.CLOSED
        self._deadline.close()
        self._writer.connection_lost()
        self._server.state.connections.discard(self)
        # uvloop's TLS never drops its references to the protocol: break the cycle here.
        self.transport = None

    def pause_writing(self) -> None:
        """Note that the write buffer is not empty."""
        self._writer.pause()

    def resume_writing(self) -> None:
        """Note that the write buffer is empty."""
        self._writer.resume()

    def shutdown(self) -> None:
        """Accept no further request and finish the current one.

        A request may be in transit on an idle connection, so that closes after a grace period.
        """
        self._is_draining = True
        if self.state is State.IDLE:
            limits = self._server.limits
            grace = limits.drain_grace if self._was_used else limits.first_grace
            self._server.loop.call_later(grace, self._close_if_idle)

    @property
    def idle_until(self) -> float:
        """When an idle connection will be closed; infinity for others."""
        return self._deadline.due if self.state is State.IDLE else math.inf

    def _close_if_idle(self) -> None:
        if self.state is not State.IDLE:
            return
        if self.transport.can_write_eof():
            # A request that is in transit even now gets the end of the stream: closing at once
            # would answer it with a reset, which tells the client less.
            self._move(State.CLOSING)
            self._deadline.clear()
            self.transport.write_eof()
            self._server.loop.call_later(self._server.limits.drain_grace, self._abort)
        else:
            self._close()
            self._server.loop.call_later(self._server.limits.drain_grace, self._abort_if_sent)

    def _abort_if_sent(self) -> None:
        """Abort instead of awaiting close_notify once all data is sent."""
        if self.state is State.CLOSING and not self._writer.unsent and self._writer.is_writable:
            self.transport.abort()

    def _on_deadline(self) -> None:
        """Enforce the limit of the state whose deadline has passed."""
        limits, state = self._server.limits, self.state
        if state is State.SENDING or state is State.CLOSING:
            if self._writer.holds_rate(limits.rate_interval):
                self._deadline.set(limits.rate_interval)
            else:
                rate = limits.min_send_rate
                logger.warning("slow reader: aborted below %d bytes a second", rate)
                self.transport.abort()
        elif state is State.LINGERING:
            self._move(State.DROPPING)
            self._deadline.set(limits.linger_seconds)
            self._resume_reading()
        elif state is not State.WORKING:
            self._close()

    def _start_sending(self) -> None:
        limits = self._server.limits
        self._move(State.SENDING)
        self._writer.start_rate(limits.min_send_rate, limits.receive_timeout)
        self._deadline.set(limits.rate_interval)

    def _linger(self) -> None:
        """Start a lingering close (RFC 9112, section 9.6).

        Closing at once would make the kernel send a reset, which can destroy the response before
        the client reads it.
        """
        self._move(State.LINGERING)
        self._pause_reading()
        self._deadline.set(self._server.limits.linger_before)
        if self.transport.can_write_eof():  # TLS cannot
            self.transport.write_eof()

    def _drop(self, nbytes: int) -> None:
        """Discard bytes of a refused request; close above the limit.

        The rest waits for the next turn, as a transport reads up to 32 times in one.
        """
        self._to_drop -= nbytes
        if self._to_drop < 0:
            self._close()
        else:
            self._pause_reading()
            self._server.loop.call_soon(self._drop_more)

    def _drop_more(self) -> None:
        if self.state is State.DROPPING:
            self._resume_reading()

    def _close(self) -> None:
        """Close; the peer must read the rest of the write buffer at the minimum rate."""
        limits = self._server.limits
        self._move(State.CLOSING)
        self._writer.start_rate(limits.min_send_rate, limits.receive_timeout)
        self._deadline.set(limits.rate_interval)
        self.transport.close()

    def _move(self, state: State) -> None:
        if state not in MOVES[self.state]:
            raise RuntimeError(f"illegal transition from {self.state.name} to {state.name}")
        self.state = state

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
