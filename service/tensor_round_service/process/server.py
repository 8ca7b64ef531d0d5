"""uvicorn's server, with a drain in which no request is lost.

The first SIGTERM or SIGINT only makes ``/readyz`` respond 503, so that load balancers notice during
DRAIN_DELAY. Then the listener closes, current requests have DRAIN_TIMEOUT to finish, and the
process exits with 0. A lost device starts the same drain, but with exit code 1, so that a
supervisor starts a new process.
"""

from __future__ import annotations

import asyncio
import gc
import logging
import os
import select
import signal
import socket
import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from types import FrameType
from typing import Any

import uvicorn

from ..app import Application
from ..net.http1.connection import HTTPProtocol
from ..net.http2.connection import HTTP2
from ..net.http2.responding import StreamProtocol
from ..net.limits import ConnectionLimits
from ..net.response import SERVER_HEADERS
from . import descriptors
from .door import Door
from .listener import HANDSHAKE_SECONDS, Listener, notify
from .tls import ServerTLS

logger = logging.getLogger(__name__)

#: KEEP_ALIVE while connections take more than half of the file descriptors.
CROWDED_SECONDS = 5.0
#: Time between two checks for open connections and requests.
POLL_SECONDS = 0.02
#: Time by which a worker stops later than its supervisor, which turns new clients away first: a
#: signal to the whole process group may reach the worker sooner.
LEAD_SECONDS = 0.1
#: Maximum time to accept connections that wait: a full backlog of TLS connections takes 3 s. Only a
#: worker that is told to end alone may reach it, as the others let new ones in.
ACCEPT_SECONDS = 5.0
#: Maximum time for the TLS handshakes of connections that were just accepted.
OPENING_SECONDS = 1.0
#: Time to send refusals after the drain timeout.
REFUSAL_SECONDS = 1.0
#: Time between two reports of a worker to its supervisor.
REPORT_SECONDS = 1.0
#: Time after which the process exits, even if a thread hangs in a device.
EXIT_SECONDS = 2.0


class Server(uvicorn.Server):
    """Serves an application on a listener until a signal.

    ``protocols`` are those on HTTP/2. SIGHUP has certificates and
    keys read again. ``report`` is called after the start. ``supervised`` says that a supervisor
    forwards signals, and that it wants a report every second. Then the server ignores SIGINT and
    repeated signals, because a terminal sends its signals to the whole process group.
    """

    def __init__(
        self,
        app: Application,
        protocols: Sequence[StreamProtocol],
        listener: Listener,
        report: Callable[[], None],
        *,
        supervised: bool,
    ) -> None:
        settings = app.context.settings
        limits = ConnectionLimits(
            receive_timeout=settings.receive_timeout,
            min_receive_rate=settings.min_receive_rate,
            min_send_rate=settings.min_send_rate,
            keep_alive=settings.keep_alive,
            crowded_keep_alive=min(CROWDED_SECONDS, settings.keep_alive),
        )
        self._protocol = HTTPProtocol(app.dispatcher, limits, HTTP2(protocols))
        self._tls: ServerTLS | None = None
        if settings.ssl_certfile is not None:
            tls = self._tls = ServerTLS(settings, HTTP2.alpn)
            app.context.lifecycle.certificate_expiry = lambda: tls.expiry
        http: Any = self._protocol  # uvicorn declares a class
        super().__init__(
            uvicorn.Config(
                app,
                http=http,
                ws="none",
                proxy_headers=False,
                lifespan="on",
                access_log=False,
                server_header=False,
                headers=SERVER_HEADERS,
                log_config=None,
            )
        )
        self._drain_delay = settings.drain_delay + (LEAD_SECONDS if supervised else 0.0)
        self._drain_timeout = settings.drain_timeout
        self._listener = listener
        self._lifecycle = app.context.lifecycle
        self._report = report
        self._keys = app.keys
        self._supervised = supervised
        #: Whether SIGHUP has come.
        self._is_reload_due = False
        self._door = Door(
            listener.sockets,
            self._protocol,
            self.server_state,
            app.context.lifecycle,
            descriptors.for_files_and_metrics(),
        )
        self._metrics_door = Door(
            listener.metrics_sockets,
            HTTPProtocol(app.metrics_dispatcher, limits, HTTP2()),
            self.server_state,
            app.context.lifecycle,
            descriptors.for_files(),
        )
        signal.signal(signal.SIGHUP, self._request_reload)
        self._lifecycle.connections = self._connections
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

    def _request_reload(self, _sig: int, _frame: FrameType | None) -> None:
        self._is_reload_due = True

    @property
    def exit_code(self) -> int:
        """The exit code of the process: 1 after the loss of the device."""
        return 1 if self._lifecycle.is_lost() else 0

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Start serving, then report it."""
        await super().startup(sockets)
        await self._metrics_door.open({})
        await self._open_door()
        # What is loaded now stays: to walk over it would take a collection 20 ms on the event loop.
        gc.freeze()
        self._report()
        if self._supervised:
            self._reports = asyncio.create_task(self._report_periodically())

    async def _report_periodically(self) -> None:
        """Show the supervisor that the event loop runs."""
        while True:
            await asyncio.sleep(REPORT_SECONDS)
            self._report()

    async def _open_door(self) -> None:
        """Accept connections, with the latest certificate."""
        await self._door.open({} if self._tls is None else self._tls.options)

    def _connections(self) -> dict[str, int]:
        """The open connections by state."""
        connections: set[Any] = self.server_state.connections  # of this package's protocol
        return dict(Counter(each.state.name.lower() for each in connections))

    async def on_tick(self, counter: int) -> bool:
        """Return True to stop the server."""
        if self._lifecycle.is_lost() and not self._lifecycle.draining:
            # Drain as after a signal: current requests finish, and a new process follows.
            self.handle_exit(signal.SIGTERM, None)
        is_due, self._is_reload_due = self._is_reload_due, False
        if is_due and self._keys is not None:
            self._keys.reload()
        tls = self._tls
        if tls is not None and (is_due or tls.has_changed()) and tls.reload():
            await self._open_door()
        self.should_exit = self.should_exit or time.monotonic() >= self._stop_at
        return await super().on_tick(counter)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Stop accepting connections, finish the current requests, close the application."""
        if not self._supervised:
            # A worker may be told to end alone: the sockets are the supervisor's.
            notify("STOPPING=1")
            self._listener.turn_away()
        # What waits in shared sockets is a successor's, or the other workers'.
        is_alone = self._supervised and self._lifecycle.is_lost()
        if not (self._listener.is_inherited or is_alone):
            await self._accept_all()
        self._listener.close()
        for door in (self._door, self._metrics_door):
            door.close()
        if not await self._finish(self._drain_timeout):
            tasks = list(self.server_state.tasks)
            logger.warning("drain timeout: rejecting %d requests", len(tasks))
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
        """Accept the connections that wait: closing the listener would reset them.

        The event loop accepts one connection a turn, so several may wait even if it is idle.
        """
        now = time.monotonic()
        # At least once after the last handshake, and after the supervisor has turned clients away.
        ends = now + (HANDSHAKE_SECONDS if self._listener.is_reachable else POLL_SECONDS)
        deadline = now + ACCEPT_SECONDS
        waiting = select.poll()
        for sock in self._listener.sockets:
            waiting.register(sock, select.POLLIN)
        while (now := time.monotonic()) < deadline:
            if waiting.poll(0):
                await asyncio.sleep(0)
            elif now < ends:
                await asyncio.sleep(POLL_SECONDS)
            else:
                return

    async def _finish(self, seconds: float) -> bool:
        """Drain all connections; return False if some are left after ``seconds``."""
        state = self.server_state
        notified: set[object] = set()
        now = time.monotonic()
        deadline, opened_by = now + seconds, now + OPENING_SECONDS
        while True:
            # In a loop, because accepted connections appear in the state a little later.
            for connection in state.connections - notified:
                connection.shutdown()
            notified |= state.connections
            await asyncio.sleep(POLL_SECONDS)
            now = time.monotonic()
            is_opening = now < opened_by and self._protocol.is_opening
            if not (state.connections or state.tasks or is_opening):
                return True
            if now >= deadline:
                return False
