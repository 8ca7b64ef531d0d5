"""The protocol object of one HTTP/2 connection: runs a handler for each stream, and sends fairly.

::

    IDLE <--> WORKING                        while there are streams
      |          |
      +----------+--> LINGERING --> DROPPING --> CLOSING --> CLOSED
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Coroutine, Sequence
from time import perf_counter
from typing import Any

from ..bodies import ClientDisconnected
from ..eager import start_eagerly
from ..http1.receiving import client_of
from ..lifecycle import ConnectionLifecycle, State
from ..sending import TLS_PIECE_BYTES
from ..server import ServerContext
from ..turns import PASSING_REQUESTS, TURN_REQUESTS
from .frames import Code
from .limits import ConnectionFault, Event, SessionLimits
from .responding import StreamProtocol, StreamServer
from .serving import ServedStream
from .session import Session

logger = logging.getLogger(__name__)

#: Bytes of one read. A stream's head and first window fit in; what one read may have the event
#: loop do, or a connection keep for its next turn, is bounded by it, or by what targets miss.
_READ_BYTES = 72 << 10
#: Bytes of DATA in one write: 1 MiB of a tensor, and what its message has before it. While they are
#: in the write buffer no other stream has its turn.
_WRITE_BYTES = (1 << 20) + (4 << 10)
#: Up to this size the parts of a write are joined.
_JOINED_BYTES = 68 << 10
#: Frames that are used in one turn, where a head counts as several: they take up to 1 ms beside
#: what streams do; and the same while other connections wait for their turn.
_TURN_FRAMES, _PASSING_FRAMES = 256, 64


#: Responds to a stream; it runs without a task until it first waits. A stream without a complete
#: response then is reset. :class:`~...net.bodies.ClientDisconnected` may be raised.
StreamHandler = Callable[[ServedStream], Coroutine[Any, Any, None]]


class Connection(ConnectionLifecycle):
    """One connection, from its preface to its last byte."""

    def __init__(
        self, server: ServerContext, handler: StreamHandler, limits: SessionLimits
    ) -> None:
        super().__init__(server)
        self._buffer = server.received[:_READ_BYTES]
        self._handler = handler
        self.limits = server.limits
        self.session: Session[ServedStream] = Session(ServedStream, limits, server.loop.time)
        #: Whether the last buffer was a target.
        self._is_direct = False
        #: Whether events are being handled: what they lead to is sent in one write.
        self.is_busy = False
        #: The event loop's time at the last read, which is the same in all reads of a turn.
        self._turn = 0.0
        #: Streams whose last bytes are in the write buffer.
        self._in_flight: list[ServedStream] = []
        #: Bytes given to the transport, and how many of them the peer had at the last check.
        self._given = self._checked = 0

    def connection_made(self, transport: Any) -> None:
        """Send the settings; the peer has begun, or begins now."""
        super().connection_made(transport)
        self.client = client_of(transport)
        self.is_encrypted = self._writer.is_encrypted
        self._limit = TLS_PIECE_BYTES if self.is_encrypted else _WRITE_BYTES
        self.flush()

    @property
    def holds_memory(self) -> bool:
        """Whether the transport may still read from memory that it was given."""
        return self._writer.is_paused or self._writer.is_lost

    # Receiving.

    def get_buffer(self, sizehint: int) -> memoryview:
        """Return the memory that a handler asked to fill, or the receive buffer."""
        target = self.session.target if self.state is State.WORKING else None
        self._is_direct = target is not None
        if target is not None:
            return target
        expected = self.session.credit.expected
        return self._buffer if expected <= _READ_BYTES else self._server.received[:expected]

    def buffer_updated(self, nbytes: int) -> None:
        """Use received bytes."""
        if self._is_direct:
            self.session.advance(nbytes)
            self.flush()
        elif self.state is State.DROPPING:
            self._drop(nbytes)
        else:
            self.use(self._server.received[:nbytes])

    def use(self, received: memoryview, *, has_turn: bool = False) -> None:
        """Use bytes that were received into another memory, and those that waited before.

        What does not fit into a turn waits for the next, with all that has come behind it.
        """
        if self.state > State.WORKING:
            return
        self._was_used = True
        session, turns, now = self.session, self._server.turns, self._server.loop.time()
        is_in_row = session.is_waiting and not has_turn
        if has_turn or now != self._turn:
            self._turn, session.frames_left = now, _TURN_FRAMES
        most = TURN_REQUESTS
        if turns.row and not has_turn:
            session.frames_left = min(session.frames_left, _PASSING_FRAMES)
            most = PASSING_REQUESTS
        if is_in_row:
            session.frames_left = 0
        session.receive(received, most)
        self.flush()
        if session.is_waiting:
            self._pause_reading()
            if not is_in_row:
                turns.line_up(self._take_turn)
        elif self._is_paused and self.state <= State.WORKING:
            self._resume_reading()

    def _take_turn(self) -> None:
        self.use(memoryview(b""), has_turn=True)

    def flush(self) -> None:
        """Handle what has happened, and send what waits and may be sent."""
        if self.is_busy:
            return
        self.is_busy = True
        session = self.session
        while session.events:
            events, session.events = session.events, []
            opened = []
            for event, stream in events:
                if event is Event.ARRIVED:
                    stream.arrived()
                elif event is Event.RESET:
                    stream.lost()
                else:
                    stream.connection = self
                    stream.began = perf_counter()
                    opened.append(stream)
            # All frames of a read first: a small request is whole then, and never waits.
            for stream in opened:
                rest = start_eagerly(self._serve(stream), self._server.loop)
                if rest is not None:
                    self._server.state.tasks.add(rest)
                    rest.add_done_callback(self._server.state.tasks.discard)
        self.is_busy = False
        if self.state <= State.WORKING:
            if session.outbox.control or session.outbox.row:
                self._send()
            self._settle()

    async def _serve(self, stream: ServedStream) -> None:
        """Have the handler respond, and give the stream's place to another."""
        try:
            if not stream.is_lost:
                await self._handler(stream)
        except ClientDisconnected:
            pass
        except Exception as error:  # the handler could not even refuse
            logger.error("a stream failed", exc_info=error)
        finally:
            self.session.release(stream)
            if not self.is_busy:
                self.flush()

    def _settle(self) -> None:
        """Have state and deadline fit what is left to do."""
        session, limits = self.session, self._server.limits
        if session.fault is not None or (session.is_draining and not session.streams):
            self._linger()
            return
        if session.streams:
            if self.state is State.IDLE:
                self._move(State.WORKING)
                self._deadline.set(limits.rate_interval)
            return
        if self.state is State.WORKING:
            self._move(State.IDLE)
        since = session.incomplete_since
        if since is None:
            is_crowd = len(self._server.state.connections) > limits.crowd
            self._deadline.set(limits.crowded_keep_alive if is_crowd else limits.keep_alive)
        else:
            self._deadline.set(since + limits.receive_timeout - self._server.loop.time())

    # The end of what the peer sends closes the transport, as asyncio's protocols do by default:
    # without the peer's acknowledgements no response can be sent.

    def connection_lost(self, error: Exception | None) -> None:
        """Raise :class:`ClientDisconnected` in the handlers that wait."""
        super().connection_lost(error)
        self.session.close()
        self.flush()
        for stream in self._in_flight:
            stream.lost()
        self._in_flight = []

    # Sending.

    def _send(self) -> None:
        """Send what waits, by turns, until the write buffer is not empty."""
        outbox, writer = self.session.outbox, self._writer
        while (outbox.control or outbox.row) and not writer.is_paused:
            parts, emptied = outbox.take(self._limit)
            if not parts:
                return
            nbytes = sum(map(len, parts))
            self._given += nbytes
            for stream in emptied:
                self.session.emptied(stream)
            self._in_flight += emptied
            if len(parts) == 1:
                self.transport.write(parts[0])
            elif nbytes <= _JOINED_BYTES:
                self.transport.write(b"".join(parts))
            else:
                writer.write(parts)
            if self._in_flight and not writer.is_paused:
                self._land()

    def _land(self) -> None:
        """Wake the handlers whose responses are sent."""
        landed, self._in_flight = self._in_flight, []
        for stream in landed:
            stream.sent_all()

    def resume_writing(self) -> None:
        """Go on with what waits: the write buffer is empty."""
        super().resume_writing()
        self._land()
        self.flush()

    # Time.

    def _on_deadline(self) -> None:
        """Enforce the limit of the state whose deadline has passed."""
        session, limits = self.session, self._server.limits
        if self.state > State.WORKING:
            super()._on_deadline()
            return
        is_idle = self.state is State.IDLE
        now, since = self._server.loop.time(), session.incomplete_since
        if since is not None and (is_idle or now - since >= limits.receive_timeout):
            session.fail(ConnectionFault(Code.ENHANCE_YOUR_CALM, "a frame came too slowly"))
        elif is_idle:
            session.refuse_streams()
        else:
            self._check_rates()
            self._deadline.set(limits.rate_interval)
        self.flush()

    def _check_rates(self) -> None:
        """Reset the streams whose peer sends or reads too slowly."""
        limits, writer = self._server.limits, self._writer
        sending = [stream for stream in self.session.streams.values() if stream.is_sending]
        share = None
        if sending:
            read = self._given - writer.unread
            before, self._checked = self._checked, read
            if writer.is_paused:  # they share what the peer reads
                share = max(0, read - before) // len(sending)
        for stream in [*self.session.streams.values()]:
            stream.check_receiving()
            if stream.is_sending and not stream.holds_send_rate(share, limits.rate_interval):
                logger.warning("slow reader: aborted below %d bytes a second", limits.min_send_rate)
                if writer.is_paused:
                    self._abort()
                    return
                self.session.reset(stream, Code.ENHANCE_YOUR_CALM)

    # The end.

    def _linger(self) -> None:
        """See :meth:`.ConnectionLifecycle._linger`; what waits until the peer reads comes first."""
        self._writer.write(self.session.outbox.take(0)[0])
        if self.is_encrypted:
            # No half-close would tell the peer. TLS itself reads on until the peer has closed, too.
            self._resume_reading()
            self._close()
        else:
            super()._linger()

    def shutdown(self) -> None:
        """Serve what is under way or in transit, and no further stream after that."""
        is_told, self._is_draining = self._is_draining, True
        if self.state <= State.WORKING and not is_told:
            self.session.announce_end()
            self.flush()
            limits = self._server.limits
            grace = limits.drain_grace if self._was_used else limits.first_grace
            self._server.loop.call_later(grace, self._refuse_streams)

    def _refuse_streams(self) -> None:
        if self.state <= State.WORKING:
            self.session.refuse_streams()
            self.flush()


class HTTP2:
    """Takes over the transports of HTTP/1.1 connections whose peers speak HTTP/2.

    Streams of ``protocols`` go to these, and all others to the server's handler of requests.
    """

    alpn = "h2"
    #: The method of its preface, which is reserved (RFC 9113, section 11.6).
    first_bytes = b"PRI "

    def __init__(
        self, protocols: Sequence[StreamProtocol] = (), limits: SessionLimits | None = None
    ) -> None:
        self._protocols = protocols
        self._limits = limits or SessionLimits()

    def __call__(self, server: ServerContext, transport: Any, received: bytes) -> None:
        """Serve the transport from now on; ``received`` are its first bytes."""
        handler = StreamServer(server, self._protocols).serve
        connection = Connection(server, handler, self._limits)
        transport.set_protocol(connection)
        connection.connection_made(transport)
        if received:
            connection.use(memoryview(received))
