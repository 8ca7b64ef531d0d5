"""The list of replicas over HTTP, for clients: ``GET /replicas``."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route

from ..http1.response import SERVER_HEADERS
from ..process.listener import listen, url


@contextmanager
def directory(host: str, port: int, urls: Callable[[], Sequence[str]], least: int) -> Iterator[str]:
    """Serve ``urls()``, the addresses of the ready replicas, on a thread; yields its own URL.

    ``/readyz`` responds 200 if ``least`` replicas are ready. Raises :class:`CannotListen`.
    """

    def replicas(_request: Request) -> JSONResponse:
        return JSONResponse({"replicas": [{"url": each} for each in urls()]})

    def livez(_request: Request) -> JSONResponse:
        return JSONResponse({"status": "alive"})

    def readyz(_request: Request) -> JSONResponse:
        is_ready = len(urls()) >= least
        return JSONResponse({"ready": is_ready}, 200 if is_ready else 503)

    sockets = listen(host, port)
    app = Starlette(routes=[Route(f"/{f.__name__}", f) for f in (replicas, livez, readyz)])
    config = uvicorn.Config(
        app,
        ws="none",
        lifespan="off",
        proxy_headers=False,
        access_log=False,
        server_header=False,
        headers=SERVER_HEADERS,
        log_config=None,
        timeout_graceful_shutdown=1,
    )
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, args=(sockets,))
    thread.start()
    try:
        yield url("http", host, sockets[0].getsockname()[1])
    finally:
        server.should_exit = True
        thread.join()
