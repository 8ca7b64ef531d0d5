"""uvicorn's server, with a drain in which no request is lost.

The first SIGTERM or SIGINT only makes ``/readyz`` respond 503, so that load balancers notice during
DRAIN_DELAY. Then the listener closes, current requests have DRAIN_TIMEOUT to finish, and the
process exits with 0. A lost device starts the same drain, but with exit code 1, so that a
supervisor starts a new process.

``tests/service/process/test_uvicorn.py`` tests the interface of uvicorn that this package uses.
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

from ..engine.readiness import ProcessLifecycle
from ..http1.connection.connection import Connection
from ..settings import Settings
from .listener import Listener

logger = logging.getLogger(__name__)

#: Time between two checks for open connections and requests.
POLL_SECONDS = 0.02
#: Maximum time to accept connections that wait in the backlog.
ACCEPT_SECONDS = 0.5
#: Time to send refusals after the drain timeout.
REFUSAL_SECONDS = 1.0
#: Time after which the process exits, even if a thread hangs in a device.
EXIT_SECONDS = 2.0


class Server(uvicorn.Server):
    """Serves on a listener until a signal.

    ``supervised`` says that a supervisor forwards signals. Then the server ignores SIGINT and
    repeated signals, because a terminal sends its signals to the whole process group.
    """

    def __init__(
        self,
        config: uvicorn.Config,
        settings: Settings,
        listener: Listener,
        lifecycle: ProcessLifecycle,
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
        """Start the drain; at the second signal, exit at once."""
        if self._supervised and (self._lifecycle.draining or sig == signal.SIGINT):
            return
        if self._lifecycle.draining:
            self._listener.close()
            os._exit(128 + sig)
        self._lifecycle.draining = True
        self._stop_at = time.monotonic() + self._drain_delay

    @property
    def exit_code(self) -> int:
        """The exit code of the process: 1 after the loss of the device."""
        return 1 if self._lifecycle.is_lost() else 0

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Start serving, then call ``on_start``."""
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
        """Return True to stop the server."""
        if self._lifecycle.is_lost() and not self._lifecycle.draining:
            # Drain as after a signal: current requests finish, and a new process follows.
            self.handle_exit(signal.SIGTERM, None)
        self.should_exit = self.should_exit or time.monotonic() >= self._stop_at
        return await super().on_tick(counter)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Close the listener, finish the current requests, close the application."""
        await self._accept_all()
        self._listener.close()
        for server in self.servers:
            server.close()
        if not await self._finish(self._drain_timeout):
            tasks = list(self.server_state.tasks)
            logger.warning("drain timeout: %d requests are refused", len(tasks))
            for task in tasks:
                task.cancel()
            await self._finish(REFUSAL_SECONDS)
        for connection in list(self.server_state.connections):
            connection.transport.abort()
        last = threading.Timer(EXIT_SECONDS, os._exit, (self.exit_code,))
        last.daemon = True
        last.start()
        await self.lifespan.shutdown()

    async def _accept_all(self) -> None:
        """Accept the connections in the backlog: closing the listener would reset them.

        The event loop accepts one connection a turn, so several may wait even if it is idle.
        """
        deadline = time.monotonic() + ACCEPT_SECONDS
        waiting = select.poll()
        for sock in self._listener.sockets:
            waiting.register(sock, select.POLLIN)
        while waiting.poll(0) and time.monotonic() < deadline:
            await asyncio.sleep(0)

    async def _finish(self, seconds: float) -> bool:
        """Drain all connections; return False if some are left after ``seconds``."""
        state = self.server_state
        notified: set[object] = set()
        deadline = time.monotonic() + seconds
        while True:
            # In a loop, because accepted connections appear in the state a little later.
            for connection in state.connections - notified:
                connection.shutdown()
            notified |= state.connections
            await asyncio.sleep(POLL_SECONDS)
            if not (state.connections or state.tasks):
                return True
            if time.monotonic() >= deadline:
                return False
