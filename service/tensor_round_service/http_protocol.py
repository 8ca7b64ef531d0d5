"""uvicorn's HTTP protocol, with limits, and a way around its buffers for tensors.

uvicorn hands a body on in pieces of some 64 KiB and copies each twice. Here a body of
known length goes from the socket into the memory that the request's own lease gave:
after the head of a large request reading is paused; when the application asks
(:class:`.http_exchange.Exchange`), the transport gets a protocol that does nothing but
fill that memory, and hands the connection back when it is full. An answer is written
as it lies there, head and small body in one system call.

Senders have limits of size and time that uvicorn does not set, and so has who takes an
answer. Everything else, from header fields to keep-alive, stays uvicorn's. What this leans
on of its insides is held by ``tests/service/test_uvicorn_guard.py``.
"""

from __future__ import annotations

import asyncio
import select
from collections.abc import Callable, Iterable, MutableMapping
from dataclasses import dataclass
from typing import Any, ClassVar, cast

from tensor_round.errors import HeadersTooLarge, ReceiveTimeout, RequestRefused, UnsupportedEncoding

from .admission import ENOUGH_BYTES
from .answers import Send, refusal_answer
from .direct import EXTENSION, LARGE_BYTES, Header, direct_exchange
from .http_exchange import Exchange
from .http_feed import FedHttpProtocol, request_parser
from .http_lingering import Lingering
from .http_pace import Arriving, Pace, Taker
from .http_sending import head_bytes, pause_when_anything_waits

_LENGTH = b"content-length"
_CODING = b"transfer-encoding"

#: Seconds that an idle connection stays open after the service has begun to stop.
IDLE_GRACE = 0.25


@dataclass(frozen=True, slots=True)
class Limits:
    """What the other side may take: bytes and lines of a head, seconds, bytes a second."""

    head_bytes: int = 32 << 10
    head_lines: int = 100
    receive_timeout: float = 10.0
    min_receive_rate: int = 64 << 10
    min_send_rate: int = 64 << 10
    #: Seconds between two looks at how far a body or an answer has come.
    watch_interval: float = 1.0


class DirectHttpProtocol(FedHttpProtocol):
    """One connection; uvicorn's ``http=`` extension point. A subclass may set other limits."""

    limits: ClassVar[Limits] = Limits()

    #: Bytes of the current body that came through the parser.
    fed = 0
    _head_fed = 0
    #: Whether the parser has seen nothing of the request whose body comes.
    _past_parser = False
    #: Whether a request has ended in the bytes that the parser is at.
    _ended_one = False
    #: Whether the connection has ended.
    is_lost = False
    #: Whether all that is still to be done is to hear out a sender that was refused.
    is_lingering = False
    #: Whether a head has begun and not ended.
    _in_head = False
    _timer: asyncio.TimerHandle | None = None
    #: When the last answer went out that uvicorn knows nothing of, by the loop's clock.
    _idle_since = 0.0
    _draining = False
    #: Bytes of the body of the last request that came, where it says how many.
    _length: int | None = None
    _watched: Arriving
    _came = 0
    _pace: Pace
    taker: Taker

    def connection_made(self, transport: Any) -> None:
        """Wait for a first request, but not for ever."""
        super().connection_made(transport)
        self.taker = Taker(self)
        pause_when_anything_waits(transport)
        self._arm(self.limits.receive_timeout, self._head_is_late)

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget the time."""
        self.is_lost = True
        self._disarm()
        self.taker.release()
        super().connection_lost(exc)

    def pause_writing(self) -> None:
        """More waits to go out than should: from now on it has to be taken."""
        super().pause_writing()
        self.taker.watch()

    def resume_writing(self) -> None:
        """What should go out has, unless it is the end of the connection, or more follows."""
        super().resume_writing()
        if not (self.taker.ahead or self.transport.is_closing()):
            self.taker.release()

    def _stay(self) -> None:
        """Wait for a next request from now on; one timer does for many that come in time."""
        self._idle_since = self.loop.time()
        if self.timeout_keep_alive_task is None:
            self._disarm()
            self._wait_for_next(self.timeout_keep_alive)

    def _wait_for_next(self, seconds: float) -> None:
        self.timeout_keep_alive_task = self.loop.call_later(
            seconds, self.timeout_keep_alive_handler
        )

    def timeout_keep_alive_handler(self) -> None:
        """Close an idle connection; one whose answer is still being taken is none."""
        left = self._idle_since + self.timeout_keep_alive - self.loop.time()
        if self.transport.get_write_buffer_size():
            self.taker.watch()
            self._wait_for_next(self.timeout_keep_alive)
        elif left > 0:
            self._wait_for_next(left)
        else:
            super().timeout_keep_alive_handler()

    def close(self) -> None:
        """Close the connection; what is left to go out has to be taken."""
        self.transport.close()
        self.taker.watch()

    def _parse(self, data: memoryview) -> None:
        """Hold a head that does not end to its limits, and what is between and behind chunks."""
        self._ended_one = False
        fed = self.fed
        super()._parse(data)
        if self._in_head:
            # Of a head that begins behind another request nobody says where it does.
            self._head_fed += 0 if self._ended_one else len(data)
            if self._head_fed > self.limits.head_bytes:
                self._refuse_connection(self._head_too_large())
            elif self._timer is None:
                self._arm(self.limits.receive_timeout, self._head_is_late)
        elif self._ended_one or self.fed != fed:
            self._head_fed = 0
        elif self.cycle is not None and self.cycle.more_body:
            self._head_fed += len(data)
            if self._head_fed > self.limits.head_bytes:
                self._refuse_body(
                    f"what frames the body is more than {self.limits.head_bytes} bytes in a row"
                )
        elif not (self._is_deaf or self._timer or self.timeout_keep_alive_task) and (
            self.cycle is None or self.cycle.response_complete
        ):
            self._wait_for_next(self.timeout_keep_alive)  # an empty line begins nothing

    def _body_left(self) -> int:
        """Bytes that are certain to be the present body's."""
        if self._in_head or self.cycle is None or not self.cycle.more_body:
            return 0
        return max(0, (self._length or 0) - self.fed)

    def _framing(self) -> bytes:
        """The field that says where the present body ends; nothing where there is none."""
        if self._length is not None:
            return b"Content-Length: %d" % self._length if self._length else b""
        is_coded = any(name == _CODING for name, _ in self.headers)
        return b"Transfer-Encoding: chunked" if is_coded else b""

    def _refuse_body(self, why: str) -> None:
        """Take no more of a body whose request has begun; who reads it is told why."""
        self._is_deaf = True
        self.flow.pause_reading()
        exchange: Any = direct_exchange(cast(dict[str, Any], self.scope))
        if exchange is not None:
            exchange.fail(HeadersTooLarge(why))

    def on_message_begin(self) -> None:
        """A head begins."""
        super().on_message_begin()
        self._in_head = True
        self._head_fed = 0

    def on_header(self, name: bytes, value: bytes) -> None:
        """Note a field; what comes behind the body (trailers) is none of the head's."""
        if self._in_head:
            super().on_header(name, value)

    def on_headers_complete(self) -> None:
        """Offer the request its direct way; stop reading before a large body."""
        self._in_head = False
        self._disarm()
        self.fed = 0
        # The parser has checked that a length is digits, and the only one.
        length = next((int(value) for name, value in self.headers if name == _LENGTH), None)
        self._length = length
        exchange = Exchange(self, length)
        extensions: dict[str, Any] = {EXTENSION: exchange}
        self.scope["extensions"] = extensions
        app, refusal = self.app, self._head_refusal(length)
        if refusal is not None:
            self.app = _refusing(refusal)
        super().on_headers_complete()
        self.app = app
        exchange.cycle = self.cycle
        if self._draining or refusal is not None:
            self.cycle.keep_alive = False
        if length is not None and length >= LARGE_BYTES:
            self.flow.pause_reading()

    def on_body(self, body: bytes) -> None:
        """Count what came through the parser."""
        self.fed += len(body)
        super().on_body(body)

    def on_message_complete(self) -> None:
        """The body is whole: its time is no longer watched."""
        if self._is_cut_short():
            return
        self._ended_one = True
        self._disarm()
        super().on_message_complete()

    def take_back(self) -> None:
        """Have the connection again, after a body that the parser never saw the end of."""
        self._disarm()
        if self.cycle is not None:
            self.cycle.more_body = False
        if not self._past_parser:
            self.parser = request_parser(self)
        self._past_parser = False
        self.transport.set_protocol(self)

    def on_response_complete(self) -> None:
        """Go on to the next request, unless the body of this one still stands before it."""
        if not self._in_head:
            self._disarm()
        if self.transport.is_closing():
            self.taker.watch()
        elif self.taker.is_watched and not self.flow.write_paused:
            self.taker.release()  # what this answer added would count as not taken
        if self.cycle.more_body and not self.pipeline and not self.transport.is_closing():
            self.server_state.total_requests += 1
            Lingering(self)
        else:
            super().on_response_complete()

    def shutdown(self) -> None:
        """Take no further request; let those that have begun end.

        A request may be on its way to a connection that looks idle, so that closes a little later.
        """
        self._draining = True
        if self.cycle is not None and not self.cycle.response_complete:
            self.cycle.keep_alive = False
        elif not self._in_head:
            self.loop.call_later(IDLE_GRACE, self._close_if_idle)

    def _close_if_idle(self) -> None:
        if self.is_lingering or self._in_head:
            return
        if self.cycle is None or self.cycle.response_complete:
            self.close()
            self.loop.call_later(IDLE_GRACE, self._leave_farewell)

    def _leave_farewell(self) -> None:
        """Do not wait for TLS's goodbye from one who has had everything."""
        if self in self.connections and not self.taker.left and is_writable(self.transport):
            self.transport.abort()

    def watch(self, exchange: Arriving) -> None:
        """Hold the sender of a body to its pace from now on.

        Once it has sent enough to be given the memory for all of it, a second's worth is all
        the patience left.
        """
        self._watched = exchange
        self._came = exchange.received
        self._pace = Pace(self.limits.min_receive_rate, self.limits.receive_timeout)
        if self._came >= ENOUGH_BYTES:
            self._pace.bound(self.limits.watch_interval)
        self._arm(self.limits.watch_interval, self._check_pace)

    def _check_pace(self) -> None:
        interval = self.limits.watch_interval
        before, self._came = self._came, self._watched.received
        self._pace.moved(self._came - before, interval)
        if before < ENOUGH_BYTES <= self._came:
            self._pace.bound(interval)
        if self._pace.is_lost:
            self._timer = None
            rate = self.limits.min_receive_rate
            self._watched.fail(ReceiveTimeout(f"the body came at less than {rate} bytes a second"))
        else:
            self._arm(interval, self._check_pace)

    def _arm(self, seconds: float, late: Callable[[], None]) -> None:
        self._disarm()
        self._timer = self.loop.call_later(seconds, late)

    def _disarm(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _head_is_late(self) -> None:
        self._timer = None
        if self.pipeline:  # then nothing is read, and its rest may have come long ago
            self._arm(self.limits.receive_timeout, self._head_is_late)
        elif self._in_head:
            seconds = self.limits.receive_timeout
            self._refuse_connection(ReceiveTimeout(f"the head did not come within {seconds:g} s"))
        else:
            self.close()

    def _head_refusal(self, length: int | None) -> RequestRefused | None:
        if self._is_head_too_large():
            return self._head_too_large()
        if length is None and any(
            name == _CODING and value.lower() != b"chunked" for name, value in self.headers
        ):
            return UnsupportedEncoding("Transfer-Encoding must be chunked, and nothing else")
        return None

    def _is_head_too_large(self) -> bool:
        size = len(self.url) + sum(len(name) + len(value) + 4 for name, value in self.headers)
        return size > self.limits.head_bytes or len(self.headers) > self.limits.head_lines

    def _head_too_large(self) -> HeadersTooLarge:
        return HeadersTooLarge(
            f"the head has more than {self.limits.head_bytes} bytes "
            f"or {self.limits.head_lines} fields"
        )

    def send_400_response(self, msg: str) -> None:
        """Say that what came is no HTTP, and end the connection."""
        self._is_deaf = True
        self._in_head = False
        self._disarm()
        if not (self._answers_first() or self._gives_up_the_body()):
            length = (b"content-length", b"%d" % len(msg))
            fields = ((b"content-type", b"text/plain; charset=utf-8"), length)
            self._answer_last(400, fields, msg.encode())

    def _answers_first(self) -> bool:
        """Whether an earlier request, come whole, is still to be answered; then it is the last."""
        if self.cycle is None or self.cycle.response_complete or self.cycle.more_body:
            return False
        self.cycle.keep_alive = False
        self.flow.pause_reading()
        return True

    def _gives_up_the_body(self) -> bool:
        """Whether the last request's answer is under way; else nobody waits for its body now."""
        if self.cycle is None or self.cycle.response_complete:
            return False
        if not self.cycle.response_started:
            self.cycle.disconnected = True
            self.cycle.message_event.set()
            return False
        self.flow.pause_reading()
        return True

    def _refuse_connection(self, refusal: RequestRefused) -> None:
        """Answer a head that never came whole, and end the connection."""
        self._is_deaf = True
        self._in_head = False
        self._disarm()
        if self._answers_first():
            return
        answer = refusal_answer(self.url.decode("latin-1"), refusal)
        self._answer_last(answer.status, answer.fields(), *answer.parts)

    def _answer_last(
        self, status: int, fields: Iterable[Header], *parts: bytes | memoryview
    ) -> None:
        head = head_bytes(status, (*self.server_state.default_headers, *fields), close=True)
        self.transport.write(b"".join((head, *parts)))
        Lingering(self)


def is_writable(transport: asyncio.BaseTransport) -> bool:
    """Whether the kernel would take more, so that nothing waits for it above."""
    waiting = select.poll()
    waiting.register(transport.get_extra_info("socket").fileno(), select.POLLOUT)
    return bool(waiting.poll(0))


def _refusing(refusal: RequestRefused) -> Any:
    """An application that answers every request with this refusal."""

    async def app(scope: MutableMapping[str, Any], _receive: Any, send: Send) -> None:
        answer = refusal_answer(scope["path"], refusal)
        await answer.send(send, direct_exchange(scope))

    return app
