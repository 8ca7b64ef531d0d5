"""The application: creates all components from the settings and connects them."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

from fastapi import FastAPI
from starlette.types import Receive, Scope, Send

from tensor_round.contract.version import __version__

from .auth.api_keys import Authenticator, KeyRing
from .auth.origins import Cors, HostCheck, host_check
from .backends.select import BackendUnavailable, DeviceOptions, select_backend
from .counters import Key
from .deployment import Deployment
from .dispatcher import Dispatcher
from .engine.engine import Engine
from .engine.memory import Memory
from .engine.readiness import ProcessLifecycle, Readiness, rounds_correctly
from .features import Feature, FeatureContext, load
from .gate import Gate
from .metrics.counts import (
    CONNECTIONS,
    CPU,
    DROPPED,
    EVENT,
    EXPIRY,
    IN_FLIGHT,
    KEY_REQUESTS,
    MEMORY,
    REFUSED,
    Gauges,
    Metrics,
)
from .metrics.process import process_gauges
from .net.forwarded import TrustedProxies
from .openapi.document import describe
from .refusals import Refusals, add_refusal_handlers
from .routes.round import round_row
from .routes.service import METRICS_PATH, health_rows, metrics_row, moved_metrics_row, service_row
from .routes.table import RouteEntry, RoutingTable
from .service_types import NAME
from .settings import Settings

logger = logging.getLogger(__name__)

#: Options of FastAPI.
_OPTIONS: dict[str, Any] = {
    "docs_url": None,
    "redoc_url": None,
    # Clients do not send an upload again after a redirect.
    "redirect_slashes": False,
    # The gate has traces, metrics and logs of all requests. Earlier versions ignore this.
    "telemetry": {"tracing": False, "metrics": False, "logs": False},
}


class Application(FastAPI):
    """FastAPI behind the dispatcher, which gets every request first."""

    dispatcher: Dispatcher
    gate: Gate
    context: FeatureContext
    features: list[Feature]
    #: Its routes.
    table: RoutingTable
    #: What METRICS_PORT serves.
    metrics_dispatcher: Dispatcher
    #: The keys of API_KEYS_FILE.
    keys: KeyRing | None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve another ASGI server."""
        if scope["type"] == "http":
            await self.dispatcher.serve_asgi(scope, receive, send)
        else:
            await super().__call__(scope, receive, send)

    async def framework(self, scope: Scope, receive: Receive, send: Send) -> None:
        """FastAPI's own ASGI application."""
        await super().__call__(scope, receive, send)


def create_app(
    settings: Settings,
    engine: Engine | None = None,
    lifecycle: ProcessLifecycle | None = None,
    worker_folder: Path | None = None,
) -> Application:
    """Create the application: the core, which serves ``POST /round``, and the features.

    The application closes its engine at shutdown, unless the caller gave ``engine``.
    ``lifecycle`` is shared with the server. ``worker_folder`` holds the state that several
    workers share. Raises :class:`~.auth.api_keys.KeyFileError` or
    :class:`~.backends.select.BackendUnavailable`.
    """
    # Logged when the application starts: a failed start prints nothing but its one line.
    messages: list[str] = []
    serving = _engine(settings, messages.append) if engine is None else engine
    lifecycle = lifecycle or ProcessLifecycle()
    lifecycle.is_lost = lambda: not serving.backend.is_healthy
    context = FeatureContext(
        settings=settings,
        deployment=Deployment.of(settings, serving.memory.limit_bytes),
        engine=serving,
        readiness=Readiness(serving.backend, lifecycle),
        lifecycle=lifecycle,
        worker_folder=worker_folder,
    )
    features = load(context)
    health = health_rows(serving, context.readiness)
    rows = [
        round_row(serving, settings.max_tensor_bytes),
        RouteEntry("/openapi.json", None, link="openapi", is_open=True),
        *health,
        *(row for feature in features for row in feature.rows),
    ]
    rows.append(service_row(rows, [f.home for f in features if f.home]))
    keys = None if settings.api_keys_file is None else KeyRing(settings.api_keys_file)
    metrics = _metrics(context, rows, features, keys)
    is_elsewhere = settings.metrics_port is not None
    shown_metrics = metrics_row(metrics, serving.backend.name)
    rows.append(moved_metrics_row() if is_elsewhere else shown_metrics)
    table = RoutingTable(rows)
    close = serving.close if engine is None else None
    tasks = [serving.release_idle_memory, metrics.share]
    app = _application(partial(_running, messages, tasks, close))
    app.context, app.features, app.table, app.keys = context, features, table, keys
    open_paths = table.open_paths.union(*(feature.open_paths for feature in features))
    authenticator = None if keys is None else Authenticator(keys, open_paths)
    check_host = host_check(settings)
    proxies = settings.forwarded_allow_ips
    probes = table.probes.union(*(feature.probes for feature in features))
    app.gate = Gate(
        check_host,
        authenticator,
        metrics,
        logs_access=settings.access_log,
        proxies=None if not proxies else TrustedProxies(proxies),
        unlogged=frozenset() if settings.access_log_probes else probes,
    )
    refusals = Refusals({f.folder: f.error_form for f in features if f.error_form})
    cors = Cors.of(settings, [name for feature in features for name in feature.fields])
    table.add_to(app)
    add_refusal_handlers(app, refusals)
    changing = [feature.folder for feature in features if feature.changes]
    app.dispatcher = Dispatcher(
        app.framework, table, serving.memory, app.gate, refusals, cors, changing
    )
    app.metrics_dispatcher = _metrics_dispatcher(
        [shown_metrics, *health], serving.memory, check_host
    )
    descriptions = [(f.folder, f.description) for f in features if f.description]
    describe(app, table, descriptions, has_keys=keys is not None)
    return app


def _engine(settings: Settings, log: Callable[[str], None]) -> Engine:
    devices = DeviceOptions(
        numbers=settings.device_numbers,
        min_bytes=settings.gpu_min_bytes,
        pool_bytes=settings.gpu_memory_limit,
    )
    backend = select_backend(settings.backend, devices, log=log)
    if not rounds_correctly(backend):
        backend.close()
        raise BackendUnavailable(
            f"the {backend.name} backend rounds known values wrongly: reinstall its libraries"
        )
    return Engine(backend, Deployment.of(settings).worker_bytes)


def _metrics(
    context: FeatureContext,
    rows: list[RouteEntry],
    features: list[Feature],
    keys: KeyRing | None,
) -> Metrics:
    counted = (feature.counted_paths for feature in features)
    return Metrics(
        RoutingTable(rows).counted_paths.union({METRICS_PATH}, *counted),
        [feature.folder for feature in features if feature.folder],
        partial(_gauges, context.engine, context.lifecycle),
        context.settings.workers,
        partial(_totals, context.engine, context.lifecycle, keys),
        context.worker_folder,
    )


def _totals(engine: Engine, lifecycle: ProcessLifecycle, keys: KeyRing | None) -> dict[Key, int]:
    events = list(engine.backend.device_events.items())  # another thread may count
    return {
        DROPPED: lifecycle.dropped_log_lines(),
        REFUSED: lifecycle.refused_connections,
        CPU: time.process_time_ns(),
        # The gate counts; a key that nobody uses has a zero.
        **{(KEY_REQUESTS, label): 0 for label in (() if keys is None else keys.labels)},
        **{(EVENT, *key): count for key, count in events},
    }


async def _gauges(engine: Engine, lifecycle: ProcessLifecycle) -> Gauges:
    is_ready = engine.backend.is_healthy and not lifecycle.draining
    expiry = lifecycle.certificate_expiry()
    return {
        **await asyncio.to_thread(process_gauges),  # many open files take milliseconds
        **({} if expiry is None else {EXPIRY: (expiry,)}),
        (IN_FLIGHT,): (engine.memory.in_use, engine.memory.limit_bytes, is_ready),
        **{(CONNECTIONS, state): (n,) for state, n in lifecycle.connections().items()},
        **{(MEMORY, name): sizes for name, sizes in (await engine.device_memory_info()).items()},
    }


def _application(lifespan: Callable[[FastAPI], AbstractAsyncContextManager[None]]) -> Application:
    """FastAPI without routes."""
    return Application(
        title=NAME,
        version=__version__,
        summary="Exact tensor rounding: DirectML, ONNX, OpenVINO and IEEE 754, to the last bit.",
        lifespan=lifespan,
        **_OPTIONS,
        # Operation ids do not depend on the settings.
        generate_unique_id_function=lambda route: route.name,
    )


@asynccontextmanager
async def _running(
    messages: list[str],
    tasks: list[Callable[[], Coroutine[Any, Any, None]]],
    close: Callable[[], None] | None,
    _app: FastAPI,
) -> AsyncIterator[None]:
    """Log the messages, run the tasks, and close the engine at the end."""
    for line in messages:
        logger.info(line)
    running = [asyncio.create_task(task()) for task in tasks]
    try:
        yield
    finally:
        for task in running:
            task.cancel()
        await asyncio.wait(running)
        if close is not None:
            close()


def _metrics_dispatcher(
    rows: list[RouteEntry], memory: Memory, check_host: HostCheck | None
) -> Dispatcher:
    """The routes of metrics and health; their answers are reserved in ``memory``."""
    app = FastAPI(openapi_url=None, **_OPTIONS)
    table, refusals = RoutingTable(rows), Refusals({})
    table.add_to(app)
    add_refusal_handlers(app, refusals)
    return Dispatcher(app, table, memory, Gate(check_host), refusals)
