"""What accepts the connections of sockets, as long as file descriptors are left."""

from __future__ import annotations

import asyncio
import logging
import math
import select
import socket
from functools import partial
from heapq import nsmallest
from operator import attrgetter
from typing import Any

from ..engine.readiness import ProcessLifecycle
from ..net.http1.connection import HTTPProtocol
from ..net.server import ServerState
from . import descriptors
from .listener import BACKLOG

logger = logging.getLogger(__name__)

#: Time between two looks for free descriptors.
POLL_SECONDS = 0.05
#: Time for which connections wait for one; then they are refused.
PATIENCE_SECONDS = 1.0
#: Time between two lines of the log.
NOTICE_SECONDS = 60.0
#: Connections that are refused in a turn of the event loop.
_REFUSED_AT_ONCE = 100


class Door:
    """Accepts the connections of ``sockets``, and leaves ``kept`` file descriptors free.

    If no more are free, it closes the connections that have been idle longest. New ones wait in the
    sockets, where other workers may accept them. Those that wait for longer than
    ``PATIENCE_SECONDS`` are closed and counted.
    """

    def __init__(
        self,
        sockets: list[socket.socket],
        protocol: HTTPProtocol,
        state: ServerState,
        lifecycle: ProcessLifecycle,
        kept: int,
    ) -> None:
        self._sockets = sockets
        self._make = partial(protocol, server_state=state)
        self._state = state
        self._lifecycle = lifecycle
        self._kept = kept
        self._servers: list[asyncio.Server] = []
        self._options: dict[str, Any] = {}
        #: Waits for descriptors.
        self._wait: asyncio.Task[None] | None = None
        self._noticed_at = -math.inf

    async def open(self, options: dict[str, Any]) -> None:
        """Accept connections with these options of the event loop from now on."""
        self._options = options
        if self._wait is None:
            await self._accept()

    def close(self) -> None:
        """Accept no more connections."""
        if self._wait is not None:
            self._wait.cancel()
        self._stop()

    async def _accept(self) -> None:
        """Have servers accept on duplicates of the sockets, which they close."""
        loop, options = asyncio.get_running_loop(), self._options
        servers = [
            await loop.create_server(self._accepted, sock=sock.dup(), backlog=BACKLOG, **options)
            for sock in self._sockets
        ]
        self._stop()
        self._servers = servers

    def _stop(self) -> None:
        for server in self._servers:
            server.close()
        self._servers = []

    def _accepted(self) -> asyncio.BaseProtocol:
        """Make the protocol of a connection that has just been accepted."""
        if self._wait is None and not self._are_left(1):
            self._wait = asyncio.create_task(self._wait_for_descriptors())
        return self._make()

    def _are_left(self, count: int) -> bool:
        return descriptors.are_left(count, self._kept, self._sockets[0].fileno())

    async def _wait_for_descriptors(self) -> None:
        """Accept no connection until some may come."""
        self._stop()
        waiting = select.poll()
        for sock in self._sockets:
            waiting.register(sock, select.POLLIN)
        loop = asyncio.get_running_loop()
        some = max(1, self._kept // 4)
        since, closed_at = math.inf, -math.inf
        while not self._are_left(some):
            now = loop.time()
            self._notice(now)
            if now - closed_at >= PATIENCE_SECONDS:
                closed_at = now
                self._close_idle(some)
            if not waiting.poll(0):
                since = math.inf
            elif since > now:
                since = now
            elif now - since >= PATIENCE_SECONDS:
                self._refuse()
            await asyncio.sleep(POLL_SECONDS)
        self._wait = None
        await self._accept()

    def _close_idle(self, count: int) -> None:
        """Have connections close that have been idle longest."""
        until = attrgetter("idle_until")
        for connection in nsmallest(count, self._state.connections, key=until):
            if until(connection) < math.inf:
                connection.shutdown()

    def _refuse(self) -> None:
        """Close connections that wait."""
        for sock in self._sockets:
            for _ in range(_REFUSED_AT_ONCE):
                try:
                    sock.accept()[0].close()
                except OSError:  # no more wait: the servers have made the sockets non-blocking
                    break
                self._lifecycle.refused_connections += 1

    def _notice(self, now: float) -> None:
        if now - self._noticed_at >= NOTICE_SECONDS:
            self._noticed_at = now
            logger.warning(
                "too many connections for %d file descriptors: further ones wait %g s, then are "
                "refused (%d so far); to allow more, raise LimitNOFILE= or ulimit -n",
                descriptors.limit(),
                PATIENCE_SECONDS,
                self._lifecycle.refused_connections,
            )
