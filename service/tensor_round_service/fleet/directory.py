"""The list of replicas over HTTP, for clients: ``GET /replicas``."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import uvicorn
from starlette.responses import JSONResponse

from ..app import dispatcher_of
from ..engine.memory import Memory
from ..http1.connection import HTTPProtocol
from ..http1.context import ConnectionLimits
from ..http1.response import SERVER_HEADERS
from ..process.listener import listen, url
from ..routes.table import Row

#: Connections, so that callers leave the controller descriptors. Each client needs one every 5 s,
#: for a moment: it connects again if an idle one was closed for another caller.
MAX_CONNECTIONS = 128
#: The most memory of all answers that are under way.
ANSWER_BYTES = 16 << 20


@contextmanager
def directory(host: str, port: int, urls: Callable[[], Sequence[str]], least: int) -> Iterator[str]:
    """Serve ``urls()``, the addresses of the ready replicas, on a thread; yields its own URL.

    ``/readyz`` responds 200 if ``least`` replicas are ready. Raises :class:`CannotListen`.
    """
    sockets = listen(host, port)
    memory = Memory(lambda nbytes: np.empty(nbytes, np.uint8), ANSWER_BYTES)
    dispatcher = dispatcher_of(_rows(urls, least), memory, None)
    http: Any = HTTPProtocol(dispatcher, ConnectionLimits(max_connections=MAX_CONNECTIONS))
    config = uvicorn.Config(
        dispatcher.serve_asgi,
        http=http,  # uvicorn declares a class
        ws="none",
        lifespan="off",
        proxy_headers=False,
        access_log=False,
        server_header=False,
        headers=SERVER_HEADERS,
        log_config=None,
        timeout_graceful_shutdown=2,
    )
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, args=(sockets,))
    thread.start()
    try:
        yield url("http", host, sockets[0].getsockname()[1])
    finally:
        server.should_exit = True
        thread.join()


def _rows(urls: Callable[[], Sequence[str]], least: int) -> list[Row]:
    async def replicas() -> JSONResponse:
        return JSONResponse({"replicas": [{"url": each} for each in urls()]})

    async def livez() -> JSONResponse:
        return JSONResponse({"status": "alive"})

    async def readyz() -> JSONResponse:
        is_ready = len(urls()) >= least
        return JSONResponse({"ready": is_ready}, 200 if is_ready else 503)

    return [Row(f"/{each.__name__}", each) for each in (replicas, livez, readyz)]
