"""One connection: its requests are read, responded to and ended here, one after another.

::

    IDLE --> HEAD --> WORKING <--> RECEIVING     a route waits for its body
                         |
                      SENDING --> IDLE           or, where no request may follow:
                         |
                      LINGERING --> DROPPING --> CLOSING --> CLOSED
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Any

from tensor_round.errors import Draining, ReceiveTimeout, RequestRefused

from . import eager
from .head import MalformedRequest, path_of, split_head
from .rates import Deadline
from .receiving import ReceivedRequest
from .request import ClientDisconnected
from .response import FixedFields, Response, head_bytes
from .sending import Writer
from .site import Application, Limits, ServerState, Site
from .states import MOVES, State

logger = logging.getLogger(__name__)

#: Where bytes are received that have no place of their own. It is one for all connections, as
#: what is in it is used before the next read.
_RECEIVED = memoryview(bytearray(64 << 10))
#: From this size on a body is written from where it lies; below, it is joined to its head.
LARGE_BYTES = 64 << 10
_LINE_ENDS = b"\r\n"
_PLAIN_TEXT = FixedFields((b"content-type", b"text/plain; charset=utf-8"))


class Connection(asyncio.BufferedProtocol):
    """One connection, from its first byte to its last."""

    transport: Any
    _writer: Writer
    _deadline: Deadline

    def __init__(self, site: Site) -> None:
        self._site = site
        self._state = State.IDLE
        #: What was received of the next head.
        self._held = b""
        self._request: ReceivedRequest | None = None
        #: Whether the peer has stopped sending.
        self._at_eof = False
        #: Whether the server leaves.
        self._is_draining = False
        self._is_paused = False
        #: Bytes that a refused sender may still send.
        self._to_drop = site.limits.linger_bytes

    # What the transport calls

    def connection_made(self, transport: Any) -> None:
        """Wait for a first request, but not for ever."""
        self.transport = transport
        self._writer = Writer(transport)
        self._writer.open()
        self._deadline = Deadline(self._site.loop, self._expired)
        self._deadline.set(self._site.limits.receive_timeout)
        self._site.state.connections.add(self)

    def get_buffer(self, sizehint: int) -> memoryview:
        """Where the next bytes go: to a body's own memory, or to the receive buffer."""
        if self._state is State.RECEIVING and self._request is not None:
            return self._request.next_buffer() or _RECEIVED
        return _RECEIVED

    def buffer_updated(self, nbytes: int) -> None:
        """Take what has come where it is waited for; hold what is not, and read no further."""
        state = self._state
        if state <= State.HEAD:
            received = bytes(_RECEIVED[:nbytes])
            self._held = self._held + received if self._held else received
            self._begin_requests()
        elif state is State.RECEIVING and self._request is not None:
            self._request.accept(nbytes, _RECEIVED)
            if not self._request.is_waiting:
                self._move(State.WORKING)
        elif state is State.DROPPING:
            self._to_drop -= nbytes
            if self._to_drop < 0:
                self._close()
        elif self._request is not None:
            self._request.keep(_RECEIVED[:nbytes])
            self._pause_reading()

    def eof_received(self) -> bool:
        """Keep the connection for the responses to a peer that is only done with sending."""
        if self._writer.is_encrypted or self._state is State.RECEIVING:
            return False  # TLS cannot be closed by half; a body that is asked for will not come
        if self._request is None and (self._state is not State.IDLE or not self._held):
            return False
        self._at_eof = True
        return True

    def pause_writing(self) -> None:
        """Bytes wait to be sent."""
        self._writer.pause()

    def resume_writing(self) -> None:
        """None do any more."""
        self._writer.resume()

    def connection_lost(self, error: Exception | None) -> None:
        """Tell whoever waits, and leave nothing to the garbage collector."""
        self._state = State.CLOSED
        self._deadline.close()
        self._held = b""
        request, self._request = self._request, None
        if request is not None:
            request.fail(ClientDisconnected())
        self._writer.resume(lost=True)
        self._site.state.connections.discard(self)

    # What the server calls

    def shutdown(self) -> None:
        """Take no further request; let those that have begun end.

        A request may be on its way to a connection that looks idle, so that closes a little later.
        """
        self._is_draining = True
        if self._state is State.IDLE:
            self._later(self._site.limits.drain_grace, self._close_if_idle)

    def _close_if_idle(self) -> None:
        if self._state is State.IDLE:
            self._close()
            self._later(self._site.limits.drain_grace, self._abort_if_sent)

    def _abort_if_sent(self) -> None:
        """Abort instead of waiting for TLS's close_notify, once all data is sent."""
        if self._state is State.CLOSING and not self._writer.left and self._writer.is_writable:
            self.transport.abort()

    # Requests, one after another

    def _begin_requests(self) -> None:
        """Begin those whose heads have come, for as long as each ends without waiting."""
        while self._state <= State.HEAD:
            held = self._held
            if held and held[0] in _LINE_ENDS:
                held = self._held = held.lstrip(_LINE_ENDS)
            if not held:
                if self._is_paused or self._at_eof:
                    self._wait_for_head()
                return
            try:
                found = split_head(held)
            except (MalformedRequest, RequestRefused) as error:
                self._refuse_head(held, error)
                return
            if found is None:
                self._wait_for_head()
                return
            head, end = found
            self._held = b""
            self._move(State.WORKING)
            request = self._request = ReceivedRequest(head, memoryview(held)[end:])
            request.transport = self.transport
            request.wait = self._receive
            rest = eager.start(self._serve(request), self._site.loop)
            if rest is not None:
                if self._state is State.WORKING:
                    self._deadline.clear()
                self._site.state.tasks.add(rest)
                rest.add_done_callback(self._served)

    def _wait_for_head(self) -> None:
        """Wait for the rest of a head, or for its beginning, unless the peer has stopped."""
        if self._at_eof:
            self._close()
            return
        if self._held and self._state is State.IDLE:
            self._move(State.HEAD)
            self._deadline.set(self._site.limits.receive_timeout)
        self._resume_reading()

    def _served(self, task: asyncio.Task[None]) -> None:
        self._site.state.tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            logger.error("a connection failed", exc_info=error)
            self.transport.abort()
        if self._state <= State.HEAD:
            self._begin_requests()

    async def _serve(self, request: ReceivedRequest) -> None:
        """Respond to one request, whatever becomes of it."""
        application, head = self._site.application, request.head
        response: Response | None = None
        try:
            try:
                if head.fault is not None:
                    response = application.refuse(head.path, head.fault)
                else:
                    response = await application.respond(request)
                if not request.is_at_end:
                    request.skip()
            except (MalformedRequest, RequestRefused) as error:
                holder = None if response is None else response.holder
                response = self._refusal(head.path, error)
                response.holder = holder
            except asyncio.CancelledError:  # the server leaves
                refusal = Draining("the service stopped before it was done", retry_after=1)
                response = application.refuse(head.path, refusal)
            await self._respond(request, response)
        except ClientDisconnected:
            self.transport.abort()
        except Exception as error:  # no response could be made, or its head
            self._write_last_resort(request, error)
        except BaseException:  # of a response that is cut short there is nothing to say
            self.transport.abort()
            raise
        finally:
            if response is not None and response.holder is not None:
                # It is not settled where it was cut short: the kernel may still read from it.
                response.holder.end(settled=self._request is not request)

    async def _respond(self, request: ReceivedRequest, response: Response) -> None:
        """Send a response; on return its memory is free, and the connection in its next state."""
        if self._writer.is_lost:
            return
        is_kept = request.is_at_end and request.head.keep_alive
        if self._is_draining or self._at_eof:
            is_kept = is_kept and bool(request.early)
        parts = response.parts
        nbytes = sum(map(len, parts))
        site = self._site
        if site.default_headers is not site.state.default_headers:
            site.render()
        head = head_bytes(response, nbytes, site.common_lines, close=not is_kept)
        if request.head.method == "HEAD":
            parts, nbytes = (), 0
        if nbytes < LARGE_BYTES:
            self.transport.write(b"".join((head, *parts)))
            if self._writer.is_paused:
                self._start_sending()
                await self._writer.drain()
        else:
            self._start_sending()
            await self._writer.write_parts((head, *parts))
        if self._writer.is_lost:
            return
        self._request = None
        if is_kept:
            self._held = bytes(request.early)
            self._move(State.IDLE)
            self._deadline.set(site.limits.keep_alive)
        elif request.is_at_end and not request.early:
            self._close()
        else:
            self._linger()

    # Bodies and limits

    async def _receive(self, waiter: asyncio.Future[None]) -> None:
        """Wait for bytes of the request's body."""
        if self._state is State.CLOSED or self._at_eof:
            raise ClientDisconnected
        request = self._request
        assert request is not None
        if request.received == 0 and request.head.expects_continue:
            self.transport.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        self._move(State.RECEIVING)
        request.start_rate(self._site.limits)
        self._deadline.set(self._site.limits.rate_interval)
        self._resume_reading()
        try:
            await waiter
        finally:
            # Break the cycle future > exception > traceback > frame > future.
            del waiter
            if self._state is State.RECEIVING:
                self._move(State.WORKING)
            self._deadline.clear()

    def _start_sending(self) -> None:
        limits = self._site.limits
        self._move(State.SENDING)
        self._writer.start_rate(limits.min_send_rate, limits.receive_timeout)
        self._deadline.set(limits.rate_interval)

    def _expired(self) -> None:
        """The deadline of the state has passed."""
        limits, state = self._site.limits, self._state
        if state is State.HEAD:
            seconds = limits.receive_timeout
            error = ReceiveTimeout(f"the head did not come within {seconds:g} s")
            self._refuse_head(self._held, error)
        elif state is State.RECEIVING and self._request is not None:
            if self._request.is_timely(limits):
                self._deadline.set(limits.rate_interval)
            else:
                rate = limits.min_receive_rate
                slow = ReceiveTimeout(f"the body came at less than {rate} bytes a second")
                self._request.fail(slow)
                self._move(State.WORKING)
        elif state is State.SENDING or state is State.CLOSING:
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

    # The end

    def _refuse_head(self, held: bytes, error: Exception) -> None:
        """Respond to what will not become a request, and end the connection."""
        self._held = b""
        response, site = self._refusal(path_of(held), error), self._site
        site.render()
        head = head_bytes(response, sum(map(len, response.parts)), site.common_lines, close=True)
        self.transport.write(b"".join((head, *response.parts)))
        self._linger()

    def _refusal(self, path: str, error: Exception) -> Response:
        if isinstance(error, MalformedRequest):
            return Response(400, _PLAIN_TEXT, [b"Invalid HTTP request received."], [])
        return self._site.application.refuse(path, error)

    def _write_last_resort(self, request: ReceivedRequest, error: Exception) -> None:
        """Respond with what was made beforehand, if nothing has been sent."""
        if self._state is not State.WORKING:
            self.transport.abort()
            return
        self._request = None
        self.transport.write(self._site.application.last_resort(request.head.path, error))
        self._linger()

    def _linger(self) -> None:
        """Let a refused sender read why, before the kernel resets what it still sends."""
        self._move(State.LINGERING)
        self._pause_reading()
        self._deadline.set(self._site.limits.linger_before)
        if self.transport.can_write_eof():  # TLS cannot
            self.transport.write_eof()

    def _close(self) -> None:
        """Close the connection; what is left has to be taken at the minimum rate."""
        limits = self._site.limits
        self._move(State.CLOSING)
        self._writer.start_rate(limits.min_send_rate, limits.receive_timeout)
        self._deadline.set(limits.rate_interval)
        self.transport.close()

    # Small things

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

    def _later(self, seconds: float, action: Callable[[], None]) -> None:
        self._site.loop.call_later(seconds, action)


def http_protocol(application: Application, limits: Limits) -> Callable[..., Connection]:
    """What uvicorn's ``http=`` takes: it makes the connections of each server that has it."""
    sites: dict[int, Site] = {}

    def connection(*, server_state: ServerState, **_others: Any) -> Connection:
        site = sites.get(id(server_state))
        if site is None:
            site = sites[id(server_state)] = Site(application, limits, server_state)
        return Connection(site)

    return connection
