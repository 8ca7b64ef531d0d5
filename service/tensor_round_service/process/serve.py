"""From a command line to running servers."""

from __future__ import annotations

import asyncio
import logging.config
import os
import signal
import ssl
import sys
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from types import FrameType
from typing import Any

import uvicorn
from pydantic import ValidationError
from uvicorn.config import LOGGING_CONFIG

from ..app import Application, create_app
from ..auth.api_keys import KeyFileError
from ..backends.select import BackendUnavailable
from ..deployment import Deployment
from ..engine.readiness import Lifecycle
from ..http1.connection.protocol import http_protocol
from ..http1.connection.site import Limits
from ..http1.security_headers import SERVER_HEADERS
from ..settings import PREFIX, Settings
from .command_line import read_settings, unknown_variables
from .listener import BACKLOG, CannotListen, Listener
from .malloc import keep_freed_memory
from .server import Server
from .tls import CertificateError, server_context, timed_loop
from .workers import CannotServe, Supervisor

logger = logging.getLogger(__name__)

#: What keeps a service from starting that its operator can mend.
_START_FAULTS = (BackendUnavailable, CannotListen, CannotServe, CertificateError, KeyFileError)


def run(arguments: Sequence[str]) -> int:
    """Serve until SIGTERM or Ctrl-C; the process's exit code."""
    try:
        settings = read_settings(arguments)
    except ValidationError as error:
        for fault in error.errors():
            name = "_".join(map(str, fault["loc"]))
            both = f"--{name.replace('_', '-')} ({PREFIX}{name.upper()})"
            # pydantic puts the class of an error of ours before it.
            why = fault["msg"].removeprefix("Value error, ").replace("Input should", "must")
            print(f"tensor-round-service: {both}: {why}", file=sys.stderr)
        return 2
    logging.config.dictConfig(_logging())
    for sentence in unknown_variables(os.environ):
        logger.warning(sentence)
    # Until there is a server that can be stopped, nothing is lost by leaving.
    for signum in (signal.SIGINT, signal.SIGTERM):
        signal.signal(signum, _leave)
    try:
        return _supervise(settings) if settings.workers > 1 else _serve_alone(settings)
    except _START_FAULTS as error:
        print(f"tensor-round-service: {error}", file=sys.stderr)
        return 1


def _serve_alone(settings: Settings) -> int:
    """One process: this one."""
    keep_freed_memory()
    lifecycle = Lifecycle()
    app = create_app(settings, lifecycle=lifecycle)
    with Listener(settings) as listener:
        say = partial(_announce, settings, listener)
        server = Server(_config(settings, app), settings, listener, lifecycle, say)
        server.run(listener.sockets)
    return server.exit_code


def _supervise(settings: Settings) -> int:
    """Several processes on one listener."""
    with Listener(settings) as listener, TemporaryDirectory(prefix="tensor-round-") as folder:
        work = partial(_work, settings, Path(folder))
        return Supervisor(work, settings, listener, partial(_announce, settings, listener)).run()


def _announce(settings: Settings, listener: Listener) -> None:
    """Say where it serves, and on what terms."""
    logger.info("running on %s with %s", listener.name, Deployment.of(settings))


def _work(
    settings: Settings, folder: Path, listener: Listener, on_start: Callable[[], None]
) -> None:
    """One of several processes; ``folder`` is theirs together."""
    keep_freed_memory()
    lifecycle = Lifecycle()
    try:
        app = create_app(settings, lifecycle=lifecycle, worker_folder=folder)
        server = Server(
            _config(settings, app), settings, listener, lifecycle, on_start, supervised=True
        )
        server.run(listener.sockets)
    except _START_FAULTS as error:
        raise CannotServe(str(error)) from None


def _http_protocol(settings: Settings, app: Application) -> Any:
    limits = Limits(
        receive_timeout=settings.receive_timeout,
        min_receive_rate=settings.min_receive_rate,
        min_send_rate=settings.min_send_rate,
    )
    return http_protocol(app.front, limits)


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


def _config(settings: Settings, app: Application) -> uvicorn.Config:
    config = _Config(
        app,
        http=_http_protocol(settings, app),
        ws="none",
        proxy_headers=False,
        lifespan="on",
        access_log=False,
        server_header=False,
        headers=SERVER_HEADERS,
        ssl_context_factory=partial(_tls_context, settings) if settings.ssl_certfile else None,
        backlog=BACKLOG,
        log_config=_logging(),
    )
    config.handshake_seconds = settings.receive_timeout
    return config


def _logging() -> dict[str, Any]:
    """Uvicorn's own logging, and this package's beside it."""
    config = dict(LOGGING_CONFIG)
    config["loggers"] = {
        **config["loggers"],
        "tensor_round_service": {"handlers": ["default"], "level": "INFO", "propagate": False},
    }
    return config


def _leave(_signum: int, _frame: FrameType | None) -> None:
    sys.exit(0)
