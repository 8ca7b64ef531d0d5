"""Small requests answered in the turn of the event loop in which they came.

uvicorn starts a task for each request once its head is parsed; the body is parsed before
that task gets its turn. Here a request that came whole is run there and then instead, as
far as it goes without waiting, which for a small tensor is to its end. If its head came
before, it is not even parsed (:mod:`.known_heads`).
"""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any, ClassVar, cast

from uvicorn.config import Config
from uvicorn.protocols.http.httptools_impl import RequestResponseCycle

from .direct import EXTENSION, IsPrompt, never_prompt
from .eager import run_until_it_waits
from .http_exchange import Exchange
from .http_protocol import DirectHttpProtocol
from .known_heads import HEAD_END, KnownHead, KnownHeads, lasting_scope, without_id
from .request_id import REQUEST_ID


class PromptHttpProtocol(DirectHttpProtocol):
    """One connection. What it does not know it leaves to the parser."""

    #: Of all connections of a service, whose application they know: each has a class of its own.
    known_heads: ClassVar[KnownHeads] = KnownHeads()

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        cls.known_heads = KnownHeads()

    def __init__(self, config: Config, *arguments: Any, **named: Any) -> None:
        super().__init__(config, *arguments, **named)
        self._is_prompt: IsPrompt = getattr(config.loaded_app, "is_prompt", never_prompt)
        #: Whether the parser is at work on what came.
        self._parsing = False
        #: Whether a request has begun and has not come whole.
        self._in_request = False
        #: The request whose head the parser has just seen the end of, and who is to answer it.
        self._begun: tuple[RequestResponseCycle, Any] | None = None

    def data_received(self, data: bytes) -> None:
        """Answer a request that came whole, now."""
        head = request_id = b""
        body = 0
        if not self._in_request and self._is_idle():
            body = data.find(HEAD_END) + len(HEAD_END)
            head, request_id = without_id(data[:body])
            known = self.known_heads.get(head)
            if known is not None and len(data) - body == known.length:
                self._unset_keepalive_if_required()
                self._disarm()
                cycle = self._cycle_of(known, request_id, memoryview(data)[body:])
                exchange = cast(Any, cycle.scope)["extensions"][EXTENSION]
                self._run(cycle, known.app)
                if known.app is self.app and exchange.again is not None:
                    self.known_heads.remember(head, replace(known, app=exchange.again))
                return
        self._parsing = True
        super().data_received(data)
        self._parsing = False
        if self._begun is None:
            return
        (cycle, app), self._begun = self._begun, None
        scope = cast(dict[str, Any], cycle.scope)
        if cycle.more_body or not self._is_prompt(scope):
            super()._start_asgi_task(cycle, app)
            return
        exchange = scope["extensions"][EXTENSION]
        length = len(data) - body
        lasting = None
        if head and cycle.keep_alive and exchange.length == length:
            lasting = lasting_scope(head, request_id, scope)
        self._run(cycle, app)
        if lasting is not None:
            again = exchange.again or self.app
            self.known_heads.remember(head, KnownHead(lasting, length, again))

    def _is_idle(self) -> bool:
        """Whether every request so far has been answered, and others are welcome."""
        if self._draining or self._is_deaf:
            return False
        return self.cycle is None or self.cycle.response_complete

    def on_message_begin(self) -> None:
        """A request begins."""
        self._in_request = True
        super().on_message_begin()

    def on_message_complete(self) -> None:
        """A request has come whole."""
        super().on_message_complete()
        self._in_request = self.cycle.more_body

    def take_back(self) -> None:
        """Have the connection again, after a body that the parser never saw the end of."""
        self._in_request = False
        super().take_back()

    def _start_asgi_task(self, cycle: RequestResponseCycle, app: Any) -> None:
        """Start a request: when the parser has seen all that came, in case it is whole."""
        if self._parsing and self._begun is None:
            self._begun = cycle, app
        else:
            super()._start_asgi_task(cycle, app)

    def _run(self, cycle: RequestResponseCycle, app: Any) -> None:
        self._at_work = cycle
        rest = run_until_it_waits(cycle.run_asgi(app), self.loop)
        if rest is not None:
            self.tasks.add(rest)
            rest.add_done_callback(self.tasks.discard)

    def _cycle_of(
        self, known: KnownHead, request_id: bytes, body: memoryview
    ) -> RequestResponseCycle:
        """The request of a head that is known, as the parser would have it made."""
        exchange = Exchange(self, known.length)
        self.fed = known.length
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
        cycle.body = cast(bytearray, body)  # it is only read from here on
        cycle.more_body = False
        cycle.message_event.set()
        return cycle
