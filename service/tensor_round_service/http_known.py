"""Requests whose head came before (:mod:`.known_heads`): the parser does not see them.

Where the application has said how to repeat its answer for another body, a request is
answered by that alone: no parser, no scope, no cycle, no task. Others get the cycle that
the parser would have them get. A body goes past the parser either way.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any, ClassVar, cast

from uvicorn.protocols.http.httptools_impl import RequestResponseCycle

from .admission import ENOUGH_BYTES
from .direct import EXTENSION, LARGE_BYTES, Header, Parts, Repeat
from .http_exchange import Exchange
from .http_landing import Landing
from .http_prompt import PromptHttpProtocol
from .http_sending import head_bytes, write_through
from .known_heads import HEAD_END, KnownHead, KnownHeads, lasting_scope, without_id
from .request_id import REQUEST_ID

#: The rest of a body up to this size is waited for: it mostly comes with the next read.
WAITED_BYTES = 128 << 10


class KnownHttpProtocol(PromptHttpProtocol):
    """One connection. What it does not know it leaves to the parser, and remembers."""

    #: Of all connections of a service, whose application they know: each has a class of its own.
    known_heads: ClassVar[KnownHeads] = KnownHeads()

    #: Whether a request has begun and has not come whole.
    _in_request = False
    #: A request of a known head, as far as it came, of which nobody else knows yet.
    _start = b""
    #: The head and the id that what the parser is given begins with, and the bytes behind them.
    _given = b"", b"", 0

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        cls.known_heads = KnownHeads()

    def data_received(self, data: bytes) -> None:
        """Look up the head of a request that begins here."""
        if self._past_parser:
            data = self._take_body(data)
            if not data:
                return
        was_held = bool(self._start)
        if was_held:
            data = self._take_start() + data
        if self._in_request or not self._is_idle():
            super().data_received(data)
            return
        body = data.find(HEAD_END) + len(HEAD_END)
        head, request_id = without_id(data[:body])
        known = self.known_heads.get(head)
        here = len(data) - body
        if known is None or here > known.length or (was_held and here < known.length):
            self._given = head, request_id, here
            super().data_received(data)
            self._given = b"", b"", 0
        elif here < known.length <= WAITED_BYTES:
            self._wait_for_rest(data)
        else:
            self._take_known(head, known, request_id, memoryview(data)[body:])

    def connection_lost(self, exc: Exception | None) -> None:
        """Let go of what has come: connections wait for the garbage collector."""
        self._start = b""
        super().connection_lost(exc)

    def _is_idle(self) -> bool:
        """Whether every request so far has been answered, and others are welcome."""
        if self._draining or self._is_deaf:
            return False
        if self.flow.write_paused or self.taker.is_watched:
            return False
        return self.cycle is None or self.cycle.response_complete

    def _begin(self, cycle: RequestResponseCycle, app: Any) -> None:
        """Remember the head of a request that the application may answer promptly."""
        (head, request_id, here), scope = self._given, cast(dict[str, Any], cycle.scope)
        exchange = lasting = None
        if head and cycle.keep_alive and self._is_prompt(scope):
            exchange = scope["extensions"][EXTENSION]
            if exchange.length is not None and here <= exchange.length:
                lasting = lasting_scope(head, request_id, scope)
        if exchange is not None and lasting is not None:
            known = KnownHead(lasting, exchange.length)
            self.known_heads.remember(head, known)
            self._follow(exchange, head, known)
        super()._begin(cycle, app)

    def _follow(self, exchange: Exchange, head: bytes, known: KnownHead) -> None:
        """Hear how requests with a head can be answered, or that they are refused."""
        if known.repeat is None:
            exchange.learn = partial(self._learn, head, known)
        exchange.on_refusal = partial(self.known_heads.forget, head)

    def _learn(self, head: bytes, known: KnownHead, repeat: Repeat) -> None:
        self.known_heads.remember(head, replace(known, repeat=repeat))

    def _take_known(
        self, head: bytes, known: KnownHead, request_id: bytes, body: memoryview
    ) -> None:
        """Answer a request of a known head, or begin to."""
        if known.repeat is not None and self._repeat(known.repeat, known.length, request_id, body):
            return
        self._unset_keepalive_if_required()
        self._disarm()
        cycle = self._cycle_of(known, request_id, body)
        if cycle.more_body:
            self._in_request = self._past_parser = True
            self.flow.pause_reading()
        self._follow(cast(Any, cycle.scope)["extensions"][EXTENSION], head, known)
        self._run(cycle, self.app)

    def _repeat(self, repeat: Repeat, length: int, request_id: bytes, body: memoryview) -> bool:
        """Whether a request is answered as one before it was, or will be."""
        came = len(body)
        if came < length and came < ENOUGH_BYTES:
            return False
        repetition = repeat(body, request_id)
        if repetition is None:
            return False
        if came == length:
            return repetition.answer(self.respond)
        if not repetition.rest:  # there is no memory for it; who refuses it has to hear it out
            repetition.give_up()
            return False
        self._unset_keepalive_if_required()
        self._in_request = self._past_parser = True
        self._in_head = True  # as far as anyone else can tell
        self.tasks.add(cast(Any, Landing(self, repetition, came)))
        return True

    def landed(self, landing: Landing) -> None:
        """A body is no longer on its way."""
        self.tasks.discard(cast(Any, landing))
        self._in_head = False
        self._disarm()
        del self._watched  # it knows the tensor's memory, which must not wait for the collector

    def respond_last(self, status: int, headers: Sequence[Header], parts: Parts) -> None:
        """Answer a request that never came whole, and end the connection."""
        self._is_deaf = True
        self._answer_last(status, headers, *parts)

    def respond(
        self, status: int, headers: Sequence[Header], parts: Parts
    ) -> asyncio.Task[None] | None:
        """Answer a request that uvicorn knows nothing of."""
        fields = (*self.server_state.default_headers, *headers)
        head = head_bytes(status, fields, close=self._draining)
        sending = None
        if sum(map(len, parts)) < LARGE_BYTES:
            self.transport.write(b"".join((head, *parts)))
        else:
            sending = self._go_on_with(self._send((head, *parts)))
        self.server_state.total_requests += 1
        if self._draining:
            self.close()
        else:
            self._stay()
        return sending

    async def _send(self, parts: Parts) -> None:
        try:
            await write_through(self, parts)
            self._idle_since = self.loop.time()
        except BaseException:  # the server leaves: of what is cut short there is nothing to say
            self.transport.abort()
            raise

    def _wait_for_rest(self, start: bytes) -> None:
        """Wait for the rest of a request; if it takes long, its sender is to keep a pace."""
        self._unset_keepalive_if_required()
        self._start = start
        self._in_head = True  # as far as anyone else can tell
        self._arm(self.limits.watch_interval, self._give_up_waiting)

    def _give_up_waiting(self) -> None:
        super().data_received(self._take_start())

    def _take_start(self) -> bytes:
        start, self._start = self._start, b""
        self._in_head = False
        self._disarm()
        return start

    def _take_body(self, data: bytes) -> bytes:
        """Have more of a body whose head was known; what came behind it."""
        left = (self._length or 0) - self.fed
        piece, rest = data[:left], data[left:]
        if isinstance(cast(Any, self.cycle.body), memoryview):
            self.cycle.body = bytearray(self.cycle.body)
        self.on_body(piece)
        if len(piece) == left:
            self._in_request = self._past_parser = False
            self._disarm()
            self.cycle.more_body = False
        return rest

    def on_message_begin(self) -> None:
        """A request begins."""
        self._in_request = True
        super().on_message_begin()

    def on_message_complete(self) -> None:
        """A request has come whole."""
        super().on_message_complete()
        self._in_request = self.cycle.more_body

    def take_back(self) -> None:
        """Have the connection again, after a body that went straight into its memory."""
        self._in_request = False
        super().take_back()

    def _cycle_of(
        self, known: KnownHead, request_id: bytes, body: memoryview
    ) -> RequestResponseCycle:
        """The request of a head that is known, as the parser would have it made."""
        exchange = Exchange(self, known.length)
        self._length = known.length
        self.fed = len(body)
        scope: Any = known.scope.copy()
        scope["server"] = self.server
        scope["client"] = self.client
        scope["scheme"] = self.scheme
        scope["state"] = self.app_state.copy()
        scope["extensions"] = {EXTENSION: exchange, REQUEST_ID: request_id}
        self.scope = scope
        self.cycle = exchange.cycle = cycle = RequestResponseCycle(
            scope=scope,
            transport=self.transport,
            flow=self.flow,
            logger=self.logger,
            access_logger=self.access_logger,
            access_log=self.access_log,
            default_headers=self.server_state.default_headers,
            message_event=asyncio.Event(),
            expect_100_continue=False,
            keep_alive=True,
            on_response=self.on_response_complete,
        )
        cycle.body = cast(bytearray, body)  # what has come; it is only read from here on
        cycle.more_body = len(body) < known.length
        cycle.message_event.set()
        return cycle
