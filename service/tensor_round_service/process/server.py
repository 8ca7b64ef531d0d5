"""uvicorn's server, with an end in which no request is lost.

The first SIGTERM or SIGINT makes ``/readyz`` say so at once and nothing else: balancers
have DRAIN_DELAY to look elsewhere. Then nothing new is accepted, what has begun has
DRAIN_TIMEOUT to end, and the process leaves with exit code 0. So it leaves when its device is
lost, but with exit code 1: whoever looks after it starts another.

What this and the connections need of uvicorn is held by ``tests/service/process/test_uvicorn.py``.
"""

from __future__ import annotations

import asyncio
import logging
import os
import select
import signal
import socket
import threading
import time
from collections import Counter
from collections.abc import Callable
from functools import partial
from types import FrameType
from typing import Any

import uvicorn

from ..engine.readiness import Lifecycle
from ..http1.connection.connection import Connection
from ..settings import Settings
from .listener import Listener

logger = logging.getLogger(__name__)

#: Seconds between two looks at what is left to do.
TICK = 0.02
#: Seconds to accept those who have connected before; there may be ever more of them.
LONGEST_QUEUE = 0.5
#: Seconds that requests which are cut off have to take their refusals.
LAST_WORDS = 1.0
#: Seconds after which the process leaves, whatever holds it: a thread in a stuck device would.
LEAVE_WITHIN = 2.0


class Server(uvicorn.Server):
    """Serves on a listener until it is told to stop.

    ``supervised`` says that a supervisor passes signals on: then a terminal's or a process
    group's, which every process gets beside it, is not taken for a second one.
    """

    def __init__(
        self,
        config: uvicorn.Config,
        settings: Settings,
        listener: Listener,
        lifecycle: Lifecycle,
        on_start: Callable[[], None],
        metrics_protocol: Callable[..., Connection],
        *,
        supervised: bool = False,
    ) -> None:
        super().__init__(config)
        self._drain_delay = settings.drain_delay
        self._drain_timeout = settings.drain_timeout
        self._listener = listener
        self._lifecycle = lifecycle
        self._on_start = on_start
        self._metrics_protocol = metrics_protocol
        self._supervised = supervised
        lifecycle.connections = self._connections
        self._stop_at = float("inf")

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Begin to leave; asked for the second time, be gone."""
        if self._supervised and (self._lifecycle.draining or sig == signal.SIGINT):
            return
        if self._lifecycle.draining:
            self._listener.close()
            os._exit(128 + sig)
        self._lifecycle.draining = True
        self._stop_at = time.monotonic() + self._drain_delay

    @property
    def exit_code(self) -> int:
        """What the process should leave with: 1 tells a supervisor that it did not want to."""
        return 1 if self._lifecycle.is_lost() else 0

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Start, and say so."""
        await super().startup(sockets)
        loop = asyncio.get_running_loop()
        protocol = partial(self._metrics_protocol, server_state=self.server_state)
        for sock in self._listener.metrics_sockets:
            self.servers.append(await loop.create_server(protocol, sock=sock))
        self._on_start()

    def _connections(self) -> dict[str, int]:
        """The open connections by state."""
        connections: set[Any] = self.server_state.connections  # of this package's protocol
        return dict(Counter(each.state.name.lower() for each in connections))

    async def on_tick(self, counter: int) -> bool:
        """Whether it is time to stop."""
        if self._lifecycle.is_lost() and not self._lifecycle.draining:
            # What a signal would begin: requests under way still end, a new process follows.
            self.handle_exit(signal.SIGTERM, None)
        self.should_exit = self.should_exit or time.monotonic() >= self._stop_at
        return await super().on_tick(counter)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Accept nothing more, finish what has begun, close the application."""
        await self._accept_all()
        self._listener.close()
        for server in self.servers:
            server.close()
        if not await self._finish(self._drain_timeout):
            tasks = list(self.server_state.tasks)
            logger.warning("%d requests took too long and are refused", len(tasks))
            for task in tasks:
                task.cancel()
            await self._finish(LAST_WORDS)
        for connection in list(self.server_state.connections):
            connection.transport.abort()
        last = threading.Timer(LEAVE_WITHIN, os._exit, (self.exit_code,))
        last.daemon = True
        last.start()
        await self.lifespan.shutdown()

    async def _accept_all(self) -> None:
        """Accept who has connected so far: closing would reset what they may have sent.

        The loop accepts one a turn, so that many may wait though it has nothing else to do.
        """
        deadline = time.monotonic() + LONGEST_QUEUE
        waiting = select.poll()
        for plug in self._listener.sockets:
            waiting.register(plug, select.POLLIN)
        while waiting.poll(0) and time.monotonic() < deadline:
            await asyncio.sleep(0)

    async def _finish(self, seconds: float) -> bool:
        """Whether all connections and requests came to an end within so many seconds."""
        state = self.server_state
        told: set[object] = set()
        deadline = time.monotonic() + seconds
        while True:
            # A connection that was just accepted is known a little later.
            for connection in state.connections - told:
                connection.shutdown()
            told |= state.connections
            await asyncio.sleep(TICK)
            if not (state.connections or state.tasks):
                return True
            if time.monotonic() >= deadline:
                return False
