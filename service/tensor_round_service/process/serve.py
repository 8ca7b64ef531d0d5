"""The service's main function: it reads the settings and runs one or several processes."""

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

from ..app import Application, create_app
from ..auth.api_keys import KeyFileError
from ..backends.select import BackendUnavailable
from ..deployment import Deployment
from ..engine.readiness import ProcessLifecycle
from ..http1.connection.context import ConnectionLimits, RequestHandler
from ..http1.connection.protocol import http_protocol
from ..http1.security_headers import SERVER_HEADERS
from ..settings import Settings
from .command_line import read_settings, unknown_variables
from .listener import BACKLOG, CannotListen, Listener
from .logs import log_config
from .malloc import keep_freed_memory
from .server import Server
from .tls import CertificateError, loop_with_tls_timeouts, server_context
from .tracing import CannotTrace, is_configured, is_installed, traced
from .workers import CannotServe, Supervisor

logger = logging.getLogger(__name__)

#: Errors of the start that the operator can correct: one line, exit code 1.
_START_ERRORS = (
    *(BackendUnavailable, CannotListen, CannotServe, CannotTrace),
    *(CertificateError, KeyFileError),
)


def run(arguments: Sequence[str]) -> int:
    """Serve until SIGTERM or Ctrl-C; return the exit code."""
    settings = read_settings(Settings, arguments)
    logging.config.dictConfig(log_config(settings))
    for sentence in unknown_variables(os.environ):
        logger.warning(sentence)
    if is_configured(os.environ) and not is_installed():
        logger.warning("traces are not exported: pip install 'tensor-round[telemetry]'")
    # Until the server handles signals, the process can exit at once.
    for signum in (signal.SIGINT, signal.SIGTERM):
        signal.signal(signum, _exit)
    try:
        return _supervise(settings) if settings.workers > 1 else _serve_alone(settings)
    except _START_ERRORS as error:
        print(f"tensor-round-service: {error}", file=sys.stderr)
        return 1


def _serve_alone(settings: Settings) -> int:
    """Serve in this process."""
    keep_freed_memory()
    lifecycle = ProcessLifecycle()
    app = create_app(settings, lifecycle=lifecycle)
    with Listener(settings) as listener:
        on_start = partial(_log_start, settings, listener)
        return _serve(settings, app, listener, lifecycle, on_start)


def _serve(
    settings: Settings,
    app: Application,
    listener: Listener,
    lifecycle: ProcessLifecycle,
    on_start: Callable[[], None],
    *,
    supervised: bool = False,
) -> int:
    """Serve an application until a signal; return the exit code."""
    with traced(app.dispatcher, app.metrics.route_of, os.environ) as handler:
        server = Server(
            *(_config(settings, app, handler), settings, listener, lifecycle, on_start),
            _http_protocol(settings, app.metrics_dispatcher),
            supervised=supervised,
        )
        server.run(listener.sockets)
    return server.exit_code


def _supervise(settings: Settings) -> int:
    """Serve in several processes on one listener."""
    with Listener(settings) as listener, TemporaryDirectory(prefix="tensor-round-") as folder:
        main = partial(_worker_main, settings, Path(folder))
        return Supervisor(main, settings, listener, partial(_log_start, settings, listener)).run()


def _log_start(settings: Settings, listener: Listener) -> None:
    """Log the address and the deployment."""
    logger.info("running on %s with %s", listener.name, Deployment.of(settings))


def _worker_main(
    settings: Settings, folder: Path, listener: Listener, on_start: Callable[[], None]
) -> None:
    """The main function of a worker; all workers share ``folder``."""
    keep_freed_memory()
    lifecycle = ProcessLifecycle()
    try:
        app = create_app(settings, lifecycle=lifecycle, worker_folder=folder)
        _serve(settings, app, listener, lifecycle, on_start, supervised=True)
    except _START_ERRORS as error:
        raise CannotServe(str(error)) from None


def _http_protocol(settings: Settings, handler: RequestHandler) -> Any:
    limits = ConnectionLimits(
        receive_timeout=settings.receive_timeout,
        min_receive_rate=settings.min_receive_rate,
        min_send_rate=settings.min_send_rate,
    )
    return http_protocol(handler, limits)


def _tls_context(settings: Settings, *_uvicorn_arguments: object) -> ssl.SSLContext:
    assert settings.ssl_certfile is not None
    return server_context(settings.ssl_certfile, settings.ssl_keyfile, settings.ssl_ca_certs)


class _Config(uvicorn.Config):
    """uvicorn's configuration, with timeouts for TLS handshake and shutdown."""

    handshake_seconds: float

    def get_loop_factory(self) -> Callable[[], asyncio.AbstractEventLoop] | None:
        new_loop = super().get_loop_factory()
        if not self.is_ssl:
            return new_loop
        return partial(
            loop_with_tls_timeouts, new_loop or asyncio.new_event_loop, self.handshake_seconds
        )


def _config(settings: Settings, app: Application, handler: RequestHandler) -> uvicorn.Config:
    config = _Config(
        app,
        http=_http_protocol(settings, handler),
        ws="none",
        proxy_headers=False,
        lifespan="on",
        access_log=False,
        server_header=False,
        headers=SERVER_HEADERS,
        ssl_context_factory=partial(_tls_context, settings) if settings.ssl_certfile else None,
        backlog=BACKLOG,
        log_config=log_config(settings),
    )
    config.handshake_seconds = settings.receive_timeout
    return config


def _exit(_signum: int, _frame: FrameType | None) -> None:
    sys.exit(0)
