"""The application under other servers than its own, on a real socket, in this process."""

from __future__ import annotations

import asyncio
import socket
import threading
import time

import hypercorn
import hypercorn.asyncio
import uvicorn

from support.services.server import Service
from tensor_round_service.app import Application, create_app
from tensor_round_service.backends.cpu.backend import NumpyBackend
from tensor_round_service.engine.engine import Engine
from tensor_round_service.settings import Settings

SERVERS = ["uvicorn, httptools", "uvicorn, h11", "hypercorn"]


class OtherService(Service):
    """The application under one of ``SERVERS``, in a thread."""

    def __init__(self, server: str, max_bytes_in_flight: int = 256 << 20) -> None:
        super().__init__()
        self.server = server
        self.engine = Engine(NumpyBackend(), max_bytes_in_flight)
        self._app = create_app(Settings(allowed_hosts="x"), self.engine)
        self._loop = asyncio.new_event_loop()
        self._end = asyncio.Event()
        self._thread = threading.Thread(target=self._run)

    def __enter__(self) -> OtherService:
        self._plug = socket.create_server(("127.0.0.1", 0), backlog=64)
        self.port = self._plug.getsockname()[1]
        self._thread.start()
        self._wait_until_ready()
        return self

    def _run(self) -> None:
        with asyncio.Runner(loop_factory=lambda: self._loop) as runner:
            name, _, protocol = self.server.partition(", ")
            serve = _uvicorn if name == "uvicorn" else _hypercorn
            runner.run(serve(self._app, self._plug, self._end, protocol))

    def settled(self, within: float = 5.0) -> bool:
        """Whether, in that many seconds, no request holds anything any more."""
        deadline = time.monotonic() + within
        while self.engine.memory.in_use and time.monotonic() < deadline:
            time.sleep(0.001)
        return not self.engine.memory.in_use

    def __exit__(self, *fault: object) -> None:
        self._loop.call_soon_threadsafe(self._end.set)
        self._thread.join(30)
        self.engine.close()
        self._plug.close()
        assert not self._thread.is_alive()


async def _uvicorn(
    app: Application, plug: socket.socket, end: asyncio.Event, protocol: str
) -> None:
    config = uvicorn.Config(
        app, http=protocol, ws="none", lifespan="on", access_log=False, log_config=None
    )
    server = uvicorn.Server(config)
    serving = asyncio.create_task(server.serve([plug]))
    await end.wait()
    server.should_exit = True
    await serving


async def _hypercorn(app: Application, plug: socket.socket, end: asyncio.Event, _: str) -> None:
    config = hypercorn.Config()
    config.bind = [f"fd://{plug.detach()}"]
    config.graceful_timeout = 1
    config.loglevel = "ERROR"
    await hypercorn.asyncio.serve(app, config, shutdown_trigger=end.wait)
