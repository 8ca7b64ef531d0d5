"""Small requests answered in the turn of the event loop in which they came.

uvicorn starts a task for each request once its head is parsed; the body is parsed before
that task gets its turn. Here a request that came whole is run there and then instead, as
far as it goes without waiting, which for a small tensor is to its end.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, cast

from uvicorn.config import Config
from uvicorn.protocols.http.httptools_impl import RequestResponseCycle

from .direct import IsPrompt, never_prompt
from .eager import run_until_it_waits
from .http_protocol import DirectHttpProtocol


class PromptHttpProtocol(DirectHttpProtocol):
    """One connection, whose requests begin when the parser has seen all that came."""

    def __init__(self, config: Config, *arguments: Any, **named: Any) -> None:
        super().__init__(config, *arguments, **named)
        self._is_prompt: IsPrompt = getattr(config.loaded_app, "is_prompt", never_prompt)
        #: Whether the parser is at work on what came.
        self._parsing = False
        #: The request whose head the parser has just seen the end of, and who is to answer it.
        self._begun: tuple[RequestResponseCycle, Any] | None = None

    def data_received(self, data: bytes) -> None:
        """Parse, and answer a request that came whole, now."""
        self._parsing = True
        super().data_received(data)
        self._parsing = False
        if self._begun is not None:
            (cycle, app), self._begun = self._begun, None
            self._begin(cycle, app)

    def _begin(self, cycle: RequestResponseCycle, app: Any) -> None:
        if not cycle.more_body and self._is_prompt(cast(dict[str, Any], cycle.scope)):
            self._run(cycle, app)
        else:
            super()._start_asgi_task(cycle, app)

    def _start_asgi_task(self, cycle: RequestResponseCycle, app: Any) -> None:
        """Start a request: when the parser has seen all that came, in case it is whole."""
        if self._parsing and self._begun is None:
            self._begun = cycle, app
        else:
            super()._start_asgi_task(cycle, app)

    def _run(self, cycle: RequestResponseCycle, app: Any) -> None:
        self._at_work = cycle
        self._go_on_with(cycle.run_asgi(app))

    def _go_on_with(self, coroutine: Coroutine[Any, Any, None]) -> asyncio.Task[None] | None:
        """Run it as far as it goes; the rest is a task that the server waits for."""
        rest = run_until_it_waits(coroutine, self.loop)
        if rest is not None:
            self.tasks.add(rest)
            rest.add_done_callback(self.tasks.discard)
        return rest
