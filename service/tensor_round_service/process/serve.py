"""The service's main function: it reads the settings and runs one or several processes."""

from __future__ import annotations

import ctypes
import logging
import os
import signal
import sys
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from types import FrameType
from typing import Any

import uvicorn

from ..app import Application, create_app
from ..auth.api_keys import KeyFileError
from ..backends.select import BackendUnavailable
from ..deployment import Deployment
from ..engine.readiness import ProcessLifecycle
from ..http1.connection import HTTPProtocol
from ..http1.context import ConnectionLimits, RequestHandler
from ..http1.response import SERVER_HEADERS
from ..settings import Settings
from .command_line import read_settings, unknown_variables
from .listener import CannotListen, Inherited, Listener, notify
from .logs import Log, logging_to_stderr
from .server import Server
from .tls import CertificateError, ServerTLS
from .tracing import CannotTrace, is_configured, is_installed, traced
from .worker_folder import held, worker_folder
from .workers import CannotServe, Supervisor

logger = logging.getLogger(__name__)

#: Errors of the start that the operator can correct: one line, exit code 1.
_START_ERRORS = (
    *(BackendUnavailable, CannotListen, CannotServe, CannotTrace),
    *(CertificateError, KeyFileError),
)

#: Maximum size of the free memory at the end of the heap.
KEPT_HEAP_BYTES = 8 << 20
#: Blocks below this size are on the heap; larger ones are mapped.
HEAP_BLOCK_BYTES = 2 << 20

# Of <malloc.h>.
_M_TRIM_THRESHOLD = -1
_M_MMAP_THRESHOLD = -3


def run(arguments: Sequence[str]) -> int:
    """Serve until SIGTERM or Ctrl-C; return the exit code."""
    settings = read_settings(Settings, arguments)
    with logging_to_stderr(settings) as log:
        return _run(settings, log)


def _run(settings: Settings, log: Log) -> int:
    for sentence in unknown_variables(os.environ):
        logger.warning(sentence)
    if is_configured(os.environ) and not is_installed():
        logger.warning("traces are not exported: pip install 'tensor-round[telemetry]'")
    # Until the server handles signals, the process can exit at once.
    for signum in (signal.SIGINT, signal.SIGTERM):
        signal.signal(signum, _exit)
    # It asks for files to be read again; until then they are still to be read for the first time.
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        inherited = Inherited.take(os.environ)
        if inherited is not None:
            for name in sorted({"port", "uds"} & settings.model_fields_set):
                logger.warning("%s has no effect: the service inherits its sockets", name.upper())
            settings = inherited.applied_to(settings)
        if settings.workers > 1:
            return _supervise(settings, inherited)
        return _serve_alone(settings, inherited, log)
    except _START_ERRORS as error:
        log.say(f"tensor-round-service: {error}")
        return 1


def _serve_alone(settings: Settings, inherited: Inherited | None, log: Log) -> int:
    """Serve in this process."""
    _keep_freed_memory()
    lifecycle = _lifecycle(log)
    app = create_app(settings, lifecycle=lifecycle)
    with Listener(settings, inherited) as listener:
        on_start = partial(_announce, settings, listener)
        return _serve(settings, app, listener, lifecycle, on_start)


def _lifecycle(log: Log) -> ProcessLifecycle:
    return ProcessLifecycle(dropped_log_lines=lambda: log.dropped)


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
        tls = None
        if settings.ssl_certfile is not None:
            files = settings.ssl_certfile, settings.ssl_keyfile, settings.ssl_ca_certs
            tls = ServerTLS(*files, handshake_seconds=settings.receive_timeout)
        protocol = _http_protocol(settings, handler)
        server = Server(
            *(_config(settings, app, protocol), settings, listener, lifecycle, on_start),
            *(protocol, _http_protocol(settings, app.metrics_dispatcher), tls, app.keys),
            supervised=supervised,
        )
        server.run([])  # it listens by itself
    return server.exit_code


def _supervise(settings: Settings, inherited: Inherited | None) -> int:
    """Serve in several processes on one listener."""
    with Listener(settings, inherited) as listener, worker_folder() as folder:
        main = partial(_worker_main, settings, folder)
        return Supervisor(main, settings, listener, partial(_announce, settings, listener)).run()


def _announce(settings: Settings, listener: Listener) -> None:
    """Log the address and the deployment, and tell systemd."""
    logger.info("running on %s with %s", listener.name, Deployment.of(settings))
    if listener.is_reachable and settings.api_keys_file is None and settings.ssl_ca_certs is None:
        logger.warning(
            "other machines may reach HOST %s, and whoever does may use the service: it has "
            "neither API_KEYS_FILE nor SSL_CA_CERTS",
            settings.host,
        )
    notify("READY=1")


def _worker_main(
    settings: Settings, folder: Path, listener: Listener, report: Callable[[], None]
) -> None:
    """The main function of a worker; all workers share ``folder``."""
    _keep_freed_memory()
    try:
        with logging_to_stderr(settings) as log, held(folder):
            lifecycle = _lifecycle(log)
            app = create_app(settings, lifecycle=lifecycle, worker_folder=folder)
            _serve(settings, app, listener, lifecycle, report, supervised=True)
    except _START_ERRORS as error:
        raise CannotServe(str(error)) from None


def _http_protocol(settings: Settings, handler: RequestHandler) -> HTTPProtocol:
    limits = ConnectionLimits(
        receive_timeout=settings.receive_timeout,
        min_receive_rate=settings.min_receive_rate,
        min_send_rate=settings.min_send_rate,
        keep_alive=settings.keep_alive,
    )
    return HTTPProtocol(handler, limits)


def _config(settings: Settings, app: Application, protocol: HTTPProtocol) -> uvicorn.Config:
    http: Any = protocol  # uvicorn declares a class
    return uvicorn.Config(
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


def _exit(_signum: int, _frame: FrameType | None) -> None:
    sys.exit(0)


def _keep_freed_memory() -> None:
    """Have glibc's malloc keep freed memory for the next request.

    By default glibc returns free memory at the end of the heap to the system if it is 128 KiB or
    more. The first part of every body is received into such memory. If it is at the end of the
    heap, which is chance, each request costs about 150 page faults. With these settings it costs
    none, and at most :data:`KEPT_HEAP_BYTES` stay unused. Does nothing if the C library is not
    glibc, or the environment has malloc settings.
    """
    if any(name.startswith(("MALLOC_", "GLIBC_TUNABLES")) for name in os.environ):
        return
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (AttributeError, OSError, TypeError):  # not glibc
        return
    mallopt(_M_TRIM_THRESHOLD, KEPT_HEAP_BYTES)
    mallopt(_M_MMAP_THRESHOLD, HEAP_BLOCK_BYTES)
