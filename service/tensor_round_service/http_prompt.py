"""Small requests answered in the turn of the event loop in which they came.

uvicorn starts a task for each request once its head is parsed; the body is parsed before
that task gets its turn. Here a request that came whole is run there and then instead, as
far as it goes without waiting, which for a small tensor is to its end.

Whoever sends tensors sends many alike, and the heads of such requests are the same to the
last byte. What a parser made of one is remembered, so that the next is looked up instead
of parsed. A head that carries a credential is not: that is to stay nowhere.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Any, cast

from uvicorn.config import Config
from uvicorn.protocols.http.httptools_impl import RequestResponseCycle

from .auth import CREDENTIALS
from .direct import EXTENSION, IsPrompt, never_prompt
from .eager import run_until_it_waits
from .http_exchange import Exchange
from .http_protocol import DirectHttpProtocol

#: Heads that are remembered, and the longest: together no more than a MiB or two.
REMEMBERED_HEADS = 256
REMEMBERED_BYTES = 4 << 10

_HEAD_END = b"\r\n\r\n"
#: Fields of heads that are not remembered: secrets, and what changes how a connection goes on.
_NEVER = CREDENTIALS | {b"cookie", b"proxy-authorization", b"expect", b"upgrade"}


@dataclass(frozen=True, slots=True)
class KnownHead:
    """What the parser made of a head: the request's scope, and how long its body is."""

    scope: dict[str, Any]
    length: int


class PromptHttpProtocol(DirectHttpProtocol):
    """One connection. What it does not know it leaves to the parser."""

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
        head = b""
        if not self._in_request and self._is_idle():
            end = data.find(_HEAD_END) + len(_HEAD_END)
            head = data[:end]
            known = _known_heads.get(head)
            if known is not None and len(data) == end + known.length:
                self._unset_keepalive_if_required()
                self._disarm()
                self._run(self._cycle_of(known, memoryview(data)[end:]), self.app)
                return
        self._parsing = True
        super().data_received(data)
        self._parsing = False
        if self._begun is None:
            return
        (cycle, app), self._begun = self._begun, None
        if cycle.more_body or not self._is_prompt(cast(dict[str, Any], cycle.scope)):
            super()._start_asgi_task(cycle, app)
            return
        if head and cycle is self.cycle and not self._in_head:
            _remember(head, cycle, len(data) - len(head))
        self._run(cycle, app)

    def _is_idle(self) -> bool:
        """Whether every request so far has been answered, and others are welcome."""
        return not self._draining and (self.cycle is None or self.cycle.response_complete)

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

    def _cycle_of(self, known: KnownHead, body: memoryview) -> RequestResponseCycle:
        """The request of a head that is known, as the parser would have it made."""
        exchange = Exchange(self, known.length)
        self.fed = known.length
        scope: Any = known.scope.copy()
        scope["server"] = self.server
        scope["client"] = self.client
        scope["scheme"] = self.scheme
        scope["state"] = self.app_state.copy()
        scope["extensions"] = {EXTENSION: exchange}
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


_known_heads: dict[bytes, KnownHead] = {}


def _remember(head: bytes, cycle: RequestResponseCycle, length: int) -> None:
    """Remember a head whose request came whole and alone, if another may be just like it."""
    scope: Any = cycle.scope
    if (
        len(head) > REMEMBERED_BYTES
        or not head.endswith(_HEAD_END)
        or not cycle.keep_alive
        or scope["http_version"] != "1.1"
        or scope["extensions"][EXTENSION].length != length
        or any(name in _NEVER for name, _ in scope["headers"])
    ):
        return
    if len(_known_heads) >= REMEMBERED_HEADS:
        del _known_heads[next(iter(_known_heads))]
    own = {"server", "client", "scheme", "state", "extensions"}
    kept = {name: value for name, value in scope.items() if name not in own}
    _known_heads[head] = KnownHead({**kept, "headers": tuple(scope["headers"])}, length)
