"""A real service on a real socket in this very process, so that a test can look inside."""

from __future__ import annotations

import threading
import time
from pathlib import Path
from typing import Any

import uvicorn

from support.services.server import Service
from tensor_round_service.app import create_app
from tensor_round_service.backends.cpu.backend import NumpyBackend
from tensor_round_service.engine.engine import Engine
from tensor_round_service.net.http1.connection import HTTPProtocol
from tensor_round_service.net.http2.connection import HTTP2
from tensor_round_service.net.limits import ConnectionLimits
from tensor_round_service.settings import Settings


class HostedService(Service):
    """The service in a thread; ``certificate`` is for TLS.

    ``http`` is uvicorn's protocol of this name, in place of the service's.
    """

    def __init__(
        self,
        max_bytes_in_flight: int = 256 << 20,
        *,
        certificate: Path | None = None,
        http: str | None = None,
    ) -> None:
        super().__init__()
        self.engine = Engine(NumpyBackend(), max_bytes_in_flight)
        self.app = create_app(Settings(allowed_hosts="x"), self.engine)
        made = (each.streams for each in self.app.features if each.streams is not None)
        http2 = HTTP2([make(self.app.gate) for make in made])
        protocol: Any = http or HTTPProtocol(self.app.dispatcher, ConnectionLimits(), http2)
        self._server = uvicorn.Server(
            uvicorn.Config(
                self.app,
                port=0,
                http=protocol,
                ws="none",
                proxy_headers=False,
                lifespan="on",
                access_log=False,
                log_config=None,
                ssl_certfile=certificate,
            )
        )
        self._thread = threading.Thread(target=self._server.run)

    def __enter__(self) -> HostedService:
        self._thread.start()
        while not self._server.started:
            assert self._thread.is_alive(), "the service did not start"
            time.sleep(0.01)
        self.port = self._server.servers[0].sockets[0].getsockname()[1]
        return self

    def settled(self) -> bool:
        """Whether, in half a minute, no request holds anything any more."""
        deadline = time.monotonic() + 30
        while self.engine.memory.in_use or self._server.server_state.connections:
            if time.monotonic() > deadline:
                return False
            time.sleep(0.001)
        return True

    def __exit__(self, *fault: object) -> None:
        self._server.should_exit = True
        self._thread.join(30)
        self.engine.close()
        assert not self._thread.is_alive()
