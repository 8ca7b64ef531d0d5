"""A process that serves, alone or as a worker: the application, and the server on its listener."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from pathlib import Path

from ..app import Application, create_app
from ..engine.readiness import ProcessLifecycle
from ..net.http2.responding import StreamProtocol
from ..settings import Settings
from .listener import Inherited, Listener
from .logs import Log, logging_to_stderr
from .server import Server
from .worker_folder import held

#: Maximum size of the free memory at the end of the heap.
KEPT_HEAP_BYTES = 8 << 20
#: Blocks below this size are on the heap; larger ones are mapped.
HEAP_BLOCK_BYTES = 2 << 20

# Of <malloc.h>.
_M_TRIM_THRESHOLD = -1
_M_MMAP_THRESHOLD = -3


def serve_alone(
    settings: Settings,
    inherited: Inherited | None,
    log: Log,
    on_start: Callable[[Listener], None],
) -> int:
    """Serve until a signal; return the exit code.

    Raises :class:`~..failures.CannotStart`.
    """
    app = _application(settings, log, None)
    with Listener(settings, inherited) as listener:
        return _serve(app, listener, partial(on_start, listener))


def serve_as_worker(
    settings: Settings, folder: Path, listener: Listener, report: Callable[[], None]
) -> int:
    """Serve beside other workers, which share ``folder``; return the exit code.

    Raises ``CannotStart``.
    """
    with logging_to_stderr(settings) as log, held(folder):
        return _serve(_application(settings, log, folder), listener, report, supervised=True)


def _application(settings: Settings, log: Log, worker_folder: Path | None) -> Application:
    _keep_freed_memory()
    lifecycle = ProcessLifecycle(dropped_log_lines=lambda: log.dropped)
    return create_app(settings, lifecycle=lifecycle, worker_folder=worker_folder)


def _serve(
    app: Application, listener: Listener, on_start: Callable[[], None], *, supervised: bool = False
) -> int:
    """Serve an application until a signal; return the exit code."""
    with ExitStack() as stack:
        protocols: list[StreamProtocol] = []
        for feature in app.features:
            if feature.serving is not None:
                stack.enter_context(feature.serving(app.gate))
            if feature.streams is not None:
                protocols.append(feature.streams(app.gate))
        server = Server(app, protocols, listener, on_start, supervised=supervised)
        server.run([])  # it listens by itself
    return server.exit_code


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
