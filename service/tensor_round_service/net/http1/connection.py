"""One connection: reads requests one after another, runs the application, sends the responses.

::

    IDLE --> HEAD --> WORKING <--> RECEIVING     a route waits for its body
      |                  |
    QUEUED            SENDING --> IDLE           if a further request may follow, else:
                         |
                      LINGERING --> DROPPING --> CLOSING --> CLOSED
"""

from __future__ import annotations

import asyncio
import logging
import select
from dataclasses import dataclass, field
from time import perf_counter
from typing import Any

from tensor_round.contract.errors import Draining, ReceiveTimeout, RequestRefused

from ..bodies import ClientDisconnected
from ..eager import start_eagerly
from ..head import MalformedRequest, expects_continue
from ..lifecycle import ConnectionLifecycle, State
from ..limits import ConnectionLimits
from ..response import Response, head_bytes
from ..server import (
    RECEIVE_BYTES,
    FinishedExchange,
    OtherProtocol,
    RequestHandler,
    ServerContext,
    ServerState,
)
from ..turns import PASSING_REQUESTS, TURN_REQUESTS, TURN_SECONDS
from .head import path_of, split_head
from .receiving import CONTINUE, ReceivedRequest, client_of

logger = logging.getLogger(__name__)

#: Up to this size a body is joined to its head; a larger one is written without a copy. A tensor
#: of 64 KiB is joined, also behind the JSON header of an inference.
_JOINED_BYTES = 68 << 10
_LINE_ENDS = b"\r\n"


class Connection(ConnectionLifecycle):
    """One connection, from its first byte to its last."""

    #: When the first byte of a head came that is incomplete, by time.perf_counter.
    _head_began: float

    def __init__(self, server: ServerContext) -> None:
        super().__init__(server)
        self._buffer = server.received[:RECEIVE_BYTES]
        #: Received bytes of the next head.
        self._unparsed = b""
        self._request: ReceivedRequest | None = None
        #: The peer's IP address, for the access log.
        self._client: str | None = None
        #: Whether the peer has stopped sending.
        self._at_eof = False

    def connection_made(self, transport: Any) -> None:
        """Start the deadline for the first request."""
        super().connection_made(transport)
        other = self._server.other
        if other is not None and self._writer.is_encrypted:
            chosen = transport.get_extra_info("ssl_object").selected_alpn_protocol()
            if chosen == other.alpn:
                self._hand_over(b"")
                return
        if self._server.handler.logs_access:
            # When the connection is lost, its address may be, too.
            client = client_of(transport)
            self._client = None if client is None else client[0]

    def get_buffer(self, sizehint: int) -> memoryview:
        """Return the memory that a route asked to fill, or the receive buffer."""
        if self.state is State.RECEIVING:
            assert self._request is not None
            return self._request.next_buffer() or self._buffer
        return self._buffer

    def buffer_updated(self, nbytes: int) -> None:
        """Use received bytes, or store them and pause reading if no route waits for them."""
        state = self.state
        if state <= State.HEAD:
            received = bytes(self._buffer[:nbytes])
            self._unparsed = self._unparsed + received if self._unparsed else received
            self._start_requests()
            if nbytes == len(self._buffer) and self.state <= State.HEAD:
                self._line_up()  # the transport would read more at once
        elif state is State.RECEIVING:
            assert self._request is not None
            self._request.accept(nbytes, self._buffer)
            self._received()
        elif state is State.QUEUED:
            self._unparsed += bytes(self._buffer[:nbytes])
        elif state is State.DROPPING:
            self._drop(nbytes)
        elif self._request is not None:
            self._request.keep(self._buffer[:nbytes])
            self._pause_reading()

    def eof_received(self) -> bool:
        """Keep the connection open for responses if the peer has closed its sending side only."""
        if self._writer.is_encrypted or self.state is State.RECEIVING:
            return False  # TLS has no half-close; a body cannot be completed
        is_served = self._request is not None or self.state is State.QUEUED
        if not is_served and (self.state is not State.IDLE or not self._unparsed):
            return False
        self._at_eof = True
        return True

    def connection_lost(self, error: Exception | None) -> None:
        """Raise :class:`ClientDisconnected` in a route that waits for its body."""
        if self.state is State.HEAD:
            held = self._unparsed
            self._head_is_over(held, None)
        super().connection_lost(error)
        self._unparsed = b""
        request, self._request = self._request, None
        if request is not None:
            request.is_lost = True
            request.fail(ClientDisconnected())

    def _start_requests(self, *, has_turn: bool = False) -> None:
        """Serve the requests whose heads are complete, until one waits or the turn is over."""
        is_first = has_turn or not self._server.turns.row
        left = TURN_REQUESTS if is_first else PASSING_REQUESTS
        ends = perf_counter() + TURN_SECONDS
        while self.state <= State.HEAD:
            held = self._unparsed = self._unparsed.lstrip(_LINE_ENDS)
            other = self._server.other
            if not self._was_used and other is not None and held.startswith(other.first_bytes):
                self._hand_over(held)
                return
            if not held:
                if self._is_paused or self._at_eof or self._is_draining:
                    self._wait_for_head()
                return
            if left < TURN_REQUESTS and (left <= 0 or perf_counter() > ends):
                self._line_up()
                return
            left -= 1
            try:
                found = split_head(held)
            except (MalformedRequest, RequestRefused) as error:
                self._refuse_head(held, error)
                return
            if found is None:
                self._wait_for_head()
                return
            head, end = found
            self._unparsed = b""
            self._move(State.WORKING)
            request = self._request = ReceivedRequest(head, memoryview(held)[end:])
            request.began = perf_counter()
            request.transport = self.transport
            request.wait = self._receive
            rest = start_eagerly(self._serve(request), self._server.loop)
            if rest is not None:
                if self.state is State.WORKING:
                    self._deadline.clear()
                self._server.state.tasks.add(rest)
                rest.add_done_callback(self._request_done)

    def _hand_over(self, received: bytes) -> None:
        """Leave the transport to another protocol, which the peer speaks."""
        server, transport = self._server, self.transport
        super().connection_lost(None)
        self._unparsed = b""
        assert server.other is not None
        server.other(server, transport, received)

    def _wait_for_head(self) -> None:
        """Wait for the next bytes of a head; close if the peer sends no more."""
        if self._at_eof or (self._is_draining and not (self._unparsed or self._has_more())):
            self._close()
            return
        if self._unparsed and self.state is State.IDLE:
            self._move(State.HEAD)
            self._head_began = perf_counter()
            self._deadline.set(self._server.limits.receive_timeout)
        self._resume_reading()

    def _has_more(self) -> bool:
        """Whether the peer has sent more than was read before reading was paused."""
        if not self._is_paused:
            return False
        waiting = select.poll()
        waiting.register(self.transport.get_extra_info("socket").fileno(), select.POLLIN)
        return bool(waiting.poll(0))

    def _line_up(self) -> None:
        """Go on with the requests that have come when the connection's next turn does."""
        self._move(State.QUEUED)
        self._deadline.clear()
        self._pause_reading()
        self._server.turns.line_up(self._take_turn)

    def _take_turn(self) -> None:
        if self.state is State.QUEUED:  # not if the connection is lost
            self._move(State.IDLE)
            self._start_requests(has_turn=True)

    def _request_done(self, task: asyncio.Task[None]) -> None:
        self._server.state.tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            logger.error("a connection failed", exc_info=error)
            self._abort()
        if self.state is State.IDLE:  # in HEAD, what came has been tried already
            if self._unparsed:
                self._line_up()
            else:
                self._start_requests()

    async def _serve(self, request: ReceivedRequest) -> None:
        """Run the application on one request and send its response, or a refusal."""
        application, head = self._server.handler, request.head
        response: Response | None = None
        refusal: Response | None = None
        is_sent = False
        try:
            try:
                answer = response = await application.respond(request)
                if not request.is_at_end:
                    request.skip()
            except (MalformedRequest, RequestRefused) as error:
                answer = refusal = application.refuse(head.path, error, request)
            except asyncio.CancelledError:  # the drain timeout has passed
                draining = Draining("the service stopped before the response", retry_after=1)
                answer = refusal = application.refuse(head.path, draining, request)
            is_sent = await self._respond(request, answer)
        except ClientDisconnected:
            self._abort()
        except Exception as error:  # the response or its head could not be created
            refusal = self._write_preallocated(request, error)
            is_sent = refusal is not None
        except BaseException:  # cancelled while sending: the response is incomplete
            self._abort()
            raise
        finally:
            owner = None if response is None else response.owner
            if owner is not None:
                # After an incomplete response the kernel may still read from the memory.
                owner.end(reusable=self._request is not request, is_sent=is_sent and not refusal)
            sent = (refusal or response) if is_sent else None
            if sent is None or sent.is_uncounted or application.logs_access:
                application.finished(FinishedExchange.of(request, self._client, sent))

    async def _respond(self, request: ReceivedRequest, response: Response) -> bool:
        """Send a response; return whether the connection lasted until its last byte.

        The transport has no more use for its memory then.
        """
        if self._writer.is_lost:
            return False
        is_kept = request.is_at_end and request.head.keep_alive
        if self._at_eof:
            is_kept = is_kept and bool(request.unread)
        elif self._is_draining:
            is_kept = is_kept and (bool(request.unread) or self._has_more())
        parts = response.parts
        nbytes = sum(map(len, parts))
        server = self._server
        if server.default_headers is not server.state.default_headers:
            server.render()
        head = head_bytes(response, nbytes, server.common_lines, close=not is_kept)
        if request.head.method == "HEAD":
            parts, nbytes = (), 0
        if nbytes <= _JOINED_BYTES:
            self.transport.write(b"".join((head, *parts)))
            if self._writer.is_paused:
                self._start_sending()
                await self._writer.drain()
        else:
            self._start_sending()
            await self._writer.write_parts((head, *parts))
        if self._writer.is_lost:
            return False
        self._request = None
        if is_kept:
            self._unparsed = bytes(request.unread)
            self._was_used = True
            self._move(State.IDLE)
            limits = server.limits
            # Without a call: this takes a part of the time of a small request.
            is_crowd = len(server.state.connections) > limits.crowd
            self._deadline.set(limits.crowded_keep_alive if is_crowd else limits.keep_alive)
        elif request.is_at_end and not request.unread:
            self._close()
        else:
            self._linger()
        return True

    async def _receive(self, waiter: asyncio.Future[None]) -> None:
        """Wait for bytes of the request's body."""
        request = self._request
        if request is None or (self._at_eof and not request.is_behind):
            raise ClientDisconnected
        if request.received == 0 and expects_continue(request.head):
            self.transport.write(CONTINUE)
        self._move(State.RECEIVING)
        request.start_rate(self._server.limits)
        self._deadline.set(self._server.limits.rate_interval)
        self._received()
        try:
            await waiter
        finally:
            # Break the cycle future > exception > traceback > frame > future.
            del waiter
            if self.state is State.RECEIVING:
                self._move(State.WORKING)
            self._deadline.clear()

    def _received(self) -> None:
        """Read on, unless what has come of the body is enough, or enough work for one turn."""
        request = self._request
        assert request is not None
        if not request.is_waiting:
            self._move(State.WORKING)
        elif request.is_behind:
            self._pause_reading()
            self._server.turns.line_up(self._catch_up)
        else:
            self._resume_reading()

    def _catch_up(self) -> None:
        if self.state is State.RECEIVING:
            assert self._request is not None
            self._request.accept(0, self._buffer)
            self._received()

    def _on_deadline(self) -> None:
        """Enforce the limit of the state whose deadline has passed."""
        limits = self._server.limits
        if self.state is State.HEAD:
            seconds = limits.receive_timeout
            error = ReceiveTimeout(f"the request head was not received within {seconds:g} s")
            self._refuse_head(self._unparsed, error)
        elif self.state is State.RECEIVING:
            assert self._request is not None
            if self._request.holds_rate():
                self._deadline.set(limits.rate_interval)
                return
            rate = limits.min_receive_rate
            slow = ReceiveTimeout(f"the body was received at less than {rate} bytes a second")
            self._request.fail(slow)
            self._move(State.WORKING)
        else:
            super()._on_deadline()

    def _refuse_head(self, held: bytes, error: Exception) -> None:
        """Refuse bytes that are not a valid head, and close the connection."""
        self._unparsed = b""
        server = self._server
        response = server.handler.refuse(path_of(held), error)
        server.render()
        head = head_bytes(response, sum(map(len, response.parts)), server.common_lines, close=True)
        self.transport.write(b"".join((head, *response.parts)))
        self._head_is_over(held, response)
        self._linger()

    def _head_is_over(self, held: bytes, response: Response | None) -> None:
        """Report a head that is no request; without ``response`` the caller has left."""
        is_begun = self.state is State.HEAD
        seconds = perf_counter() - self._head_began if is_begun else 0.0
        exchange = FinishedExchange(path_of(held), None, self._client, len(held), response, seconds)
        self._server.handler.finished(exchange)

    def _write_preallocated(self, request: ReceivedRequest, error: Exception) -> Response | None:
        """Send a preallocated response, if nothing has been sent yet, and return it."""
        if self.state is not State.WORKING:
            self._abort()
            return None
        self._request = None
        handler = self._server.handler
        response, serialized = handler.preallocated_response(request.head.path, error)
        self.transport.write(serialized)
        self._linger()
        return response


@dataclass(eq=False)
class HTTPProtocol:
    """A value for uvicorn's option ``http``: it makes the protocol of each connection."""

    handler: RequestHandler
    limits: ConnectionLimits
    other: OtherProtocol | None = None
    #: Made with the first connection, as it needs the event loop.
    _server: ServerContext | None = field(default=None, init=False)

    def __call__(self, *, server_state: ServerState, **_others: Any) -> Connection:
        """A protocol; uvicorn passes it to the event loop."""
        if self._server is None:
            self._server = ServerContext(self.handler, self.limits, server_state, self.other)
        return Connection(self._server)

    @property
    def is_opening(self) -> bool:
        """Whether a connection is accepted and not open yet: its TLS handshake is under way."""
        return self._server is not None and bool(self._server.opening)
