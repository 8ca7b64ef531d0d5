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

from tensor_round.errors import Draining, ReceiveTimeout, RequestRefused

from ..head import MalformedRequest, RequestHead, path_of, split_head
from ..request import ClientDisconnected
from ..response import FixedFields, Response, head_bytes
from . import eager
from .lifecycle import Lifecycle
from .receiving import ReceivedRequest
from .site import Site
from .states import State

logger = logging.getLogger(__name__)

#: Where bytes are received that have no place of their own. It is one for all connections, as
#: what is in it is used before the next read.
_RECEIVED = memoryview(bytearray(64 << 10))
#: From this size on a body is written from where it lies; below, it is joined to its head.
LARGE_BYTES = 64 << 10
_LINE_ENDS = b"\r\n"
_PLAIN_TEXT = FixedFields((b"content-type", b"text/plain; charset=utf-8"))


class Connection(Lifecycle):
    """One connection, from its first byte to its last."""

    def __init__(self, site: Site) -> None:
        super().__init__(site)
        #: What was received of the next head.
        self._held = b""
        self._request: ReceivedRequest | None = None
        #: Whether the peer has stopped sending.
        self._at_eof = False

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
            self._drop(nbytes)
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

    def connection_lost(self, error: Exception | None) -> None:
        """Tell the route that waits for its body."""
        super().connection_lost(error)
        self._held = b""
        request, self._request = self._request, None
        if request is not None:
            request.fail(ClientDisconnected())

    def _begin_requests(self) -> None:
        """Begin those whose heads have come, for as long as each ends without waiting."""
        while self._state <= State.HEAD:
            held = self._held
            if held and held[0] in _LINE_ENDS:
                held = self._held = held.lstrip(_LINE_ENDS)
            if not held:
                if self._is_paused or self._at_eof or self._is_draining:
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
        if self._at_eof or (self._is_draining and not self._held):
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
            self._abort()
        if self._state <= State.HEAD:
            self._begin_requests()

    async def _serve(self, request: ReceivedRequest) -> None:
        """Respond to one request, whatever becomes of it."""
        application, head = self._site.application, request.head
        response: Response | None = None
        try:
            try:
                response = await application.respond(request)
                if not request.is_at_end:
                    request.skip()
            except (MalformedRequest, RequestRefused) as error:
                holder = None if response is None else response.holder
                response = self._refusal(head.path, error, head)
                response.holder = holder
            except asyncio.CancelledError:  # the server leaves
                refusal = Draining("the service stopped before it was done", retry_after=1)
                response = application.refuse(head.path, refusal, head)
            await self._respond(request, response)
        except ClientDisconnected:
            self._abort()
        except Exception as error:  # no response could be made, or its head
            self._write_last_resort(request, error)
        except BaseException:  # of a response that is cut short there is nothing to say
            self._abort()
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

    def _expired(self) -> None:
        """The deadline of the state has passed."""
        limits = self._site.limits
        if self._state is State.HEAD:
            seconds = limits.receive_timeout
            error = ReceiveTimeout(f"the head did not come within {seconds:g} s")
            self._refuse_head(self._held, error)
        elif self._state is State.RECEIVING and self._request is not None:
            if self._request.is_timely(limits):
                self._deadline.set(limits.rate_interval)
                return
            rate = limits.min_receive_rate
            slow = ReceiveTimeout(f"the body came at less than {rate} bytes a second")
            self._request.fail(slow)
            self._move(State.WORKING)
        else:
            super()._expired()

    def _refuse_head(self, held: bytes, error: Exception) -> None:
        """Respond to what will not become a request, and end the connection."""
        self._held = b""
        response, site = self._refusal(path_of(held), error), self._site
        site.render()
        head = head_bytes(response, sum(map(len, response.parts)), site.common_lines, close=True)
        self.transport.write(b"".join((head, *response.parts)))
        self._linger()

    def _refusal(self, path: str, error: Exception, head: RequestHead | None = None) -> Response:
        if isinstance(error, MalformedRequest):
            return Response(400, _PLAIN_TEXT, [b"Invalid HTTP request received."], [])
        return self._site.application.refuse(path, error, head)

    def _write_last_resort(self, request: ReceivedRequest, error: Exception) -> None:
        """Respond with what was made beforehand, if nothing has been sent."""
        if self._state is not State.WORKING:
            self._abort()
            return
        self._request = None
        self.transport.write(self._site.application.last_resort(request.head.path, error))
        self._linger()
