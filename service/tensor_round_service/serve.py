"""From a command line to running servers."""

from __future__ import annotations

import asyncio
import os
import signal
import ssl
import sys
from collections.abc import Callable, Sequence
from functools import partial
from types import FrameType
from typing import Any

import uvicorn
from fastapi import FastAPI
from pydantic import ValidationError
from pydantic_settings import CliApp
from uvicorn.config import LOGGING_CONFIG
from uvicorn.supervisors import Multiprocess

from .api_keys import KeyFileError, KeyRing
from .app import create_app
from .backends.choice import BackendUnavailable
from .hardening import SERVER_HEADERS
from .http_protocol import DirectHttpProtocol, Limits
from .settings import PREFIX, Settings
from .tls import CertificateError, server_context, timed_loop

#: What uvicorn's supervisor takes as "do not start this worker again".
WORKER_CANNOT_START = 3

#: What keeps a service from starting that its operator can mend.
_START_FAULTS = (BackendUnavailable, CertificateError, KeyFileError)


def run(arguments: Sequence[str]) -> int:
    """Serve until SIGTERM or Ctrl-C; the process's exit code."""
    try:
        settings = CliApp.run(Settings, cli_args=list(arguments))
    except ValidationError as error:
        for fault in error.errors():
            name = PREFIX + "_".join(map(str, fault["loc"])).upper()
            print(f"tensor-round-service: {name}: {fault['msg']}", file=sys.stderr)
        return 2
    # uvicorn raises the signal that stopped it once more when it has stopped cleanly.
    for signum in (signal.SIGINT, signal.SIGTERM):
        signal.signal(signum, _leave)
    try:
        return _supervise(settings) if settings.workers > 1 else _serve(settings)
    except _START_FAULTS as error:
        print(f"tensor-round-service: {error}", file=sys.stderr)
        return 1
    finally:
        if settings.uds is not None:
            settings.uds.unlink(missing_ok=True)


def _serve(settings: Settings) -> int:
    """One process: this one."""
    server = uvicorn.Server(_config(settings, create_app(settings)))
    server.run()
    return 0 if server.started else 1


def _supervise(settings: Settings) -> int:
    """Several processes on one socket, each started again when it dies."""
    # Said once and here, not by each worker.
    if settings.api_keys_file is not None:
        KeyRing(settings.api_keys_file)
    if settings.ssl_certfile is not None:
        _tls_context(settings)
    os.environ.update(settings.environment())
    config = _config(settings, f"{__name__}:worker_app")
    Multiprocess(config, [config.bind_socket()]).run()
    return 0


def worker_app() -> FastAPI:
    """The application of one of several workers; its settings are in the environment."""
    try:
        return create_app(Settings())
    except _START_FAULTS as error:
        print(f"tensor-round-service: {error}", file=sys.stderr)
        sys.exit(WORKER_CANNOT_START)


def _http_protocol(settings: Settings) -> Any:
    if not settings.direct_receive:
        return "httptools"
    limits = Limits(
        receive_timeout=settings.receive_timeout, min_receive_rate=settings.min_receive_rate
    )
    return type("LimitedHttpProtocol", (DirectHttpProtocol,), {"limits": limits})


def _tls_context(settings: Settings, *_uvicorns_own: object) -> ssl.SSLContext:
    assert settings.ssl_certfile is not None
    return server_context(settings.ssl_certfile, settings.ssl_keyfile, settings.ssl_ca_certs)


class _Config(uvicorn.Config):
    """uvicorn's, with times for what TLS does before HTTP begins and after it ends."""

    handshake_seconds: float

    def get_loop_factory(self) -> Callable[[], asyncio.AbstractEventLoop] | None:
        new_loop = super().get_loop_factory()
        if not self.is_ssl:
            return new_loop
        return partial(timed_loop, new_loop or asyncio.new_event_loop, self.handshake_seconds)


def _config(settings: Settings, app: FastAPI | str) -> uvicorn.Config:
    config = _Config(
        app,
        factory=isinstance(app, str),
        host=settings.host,
        port=settings.port,
        uds=None if settings.uds is None else str(settings.uds),
        workers=settings.workers,
        # httptools', with a faster way for large bodies. Never h11: it takes Content-Length
        # beside chunked, bare LF and folded headers.
        http=_http_protocol(settings),
        ws="none",
        proxy_headers=False,
        lifespan="on",
        access_log=False,
        server_header=False,
        headers=SERVER_HEADERS,
        ssl_context_factory=partial(_tls_context, settings) if settings.ssl_certfile else None,
        timeout_graceful_shutdown=round(settings.drain_timeout),
        log_config=_logging(),
    )
    config.handshake_seconds = settings.receive_timeout
    return config


def _logging() -> dict[str, Any]:
    """Uvicorn's own logging, and this package's beside it."""
    config = dict(LOGGING_CONFIG)
    config["loggers"] = {
        **config["loggers"],
        __package__: {"handlers": ["default"], "level": "INFO", "propagate": False},
    }
    return config


def _leave(_signum: int, _frame: FrameType | None) -> None:
    sys.exit(0)
