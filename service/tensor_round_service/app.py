"""The application: creates all components from the settings and connects them."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING

from fastapi import FastAPI
from starlette.types import Receive, Scope, Send

from .auth.api_keys import Authenticator, KeyRing
from .auth.origins import Cors, HostCheck, host_check
from .backends.select import DeviceOptions, select_backend
from .deployment import Deployment
from .dispatcher import Dispatcher
from .documents import NAME
from .engine.engine import Engine
from .engine.memory import Memory
from .engine.readiness import ProcessLifecycle, Readiness
from .grpc.methods import OPEN_METHODS, all_methods
from .grpc.service import Service
from .inference.cuda_memory import CudaSharedMemory
from .inference.executor import InferenceExecutor
from .inference.inference import Inference
from .inference.posix_memory import PosixSharedMemory
from .inference.regions import Registry
from .inference.statistics import Statistics
from .metrics.counts import Gauges
from .metrics.recorder import Metrics
from .openapi.document import describe
from .refusals import add_refusal_handlers
from .routes.compare import compare_row
from .routes.control import control_rows
from .routes.inference import inference_rows
from .routes.pages import page_rows
from .routes.round import round_row
from .routes.status import METRICS_PATH, metrics_row, moved_metrics_row, service_row, status_rows
from .routes.table import Row, Table
from .settings import Settings

if TYPE_CHECKING:
    from fastapi.telemetry import TelemetryConfig

logger = logging.getLogger(__name__)

#: FastAPI's own traces, metrics and logs are off: :mod:`.process.tracing` and :mod:`.metrics` have
#: those of all requests. Earlier versions of FastAPI ignore this.
_NO_TELEMETRY: TelemetryConfig = {"tracing": False, "metrics": False, "logs": False}


class Application(FastAPI):
    """FastAPI behind the dispatcher, which gets every request first."""

    dispatcher: Dispatcher
    #: Its routes.
    table: Table
    metrics: Metrics
    #: What METRICS_PORT serves.
    metrics_dispatcher: Dispatcher
    #: What answers gRPC; None if it is off.
    grpc: Service | None
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


def _engine(settings: Settings, log: Callable[[str], None]) -> Engine:
    devices = DeviceOptions(
        numbers=settings.device_numbers,
        min_bytes=settings.gpu_min_bytes,
        pool_bytes=settings.gpu_memory_limit,
    )
    backend = select_backend(settings.backend, devices, log=log)
    return Engine(backend, Deployment.of(settings).worker_bytes)


def _shared_memory(settings: Settings, worker_folder: Path | None) -> PosixSharedMemory | None:
    if settings.shared_memory_prefix is None:
        return None
    registry = Registry(None if worker_folder is None else worker_folder / "regions")
    return PosixSharedMemory(settings.shared_memory_prefix, registry)


def _cuda_memory(
    settings: Settings, engine: Engine, worker_folder: Path | None
) -> CudaSharedMemory | str:
    """The CUDA shared memory, or the reason why it is not offered."""
    if not settings.cuda_shared_memory:
        return (
            "CUDA shared memory is off: the service was started without --cuda-shared-memory true "
            "(TENSOR_ROUND_CUDA_SHARED_MEMORY)"
        )
    if engine.backend.device_memory is None:
        return f"the {engine.backend.name} backend has no CUDA shared memory"
    registry = Registry(None if worker_folder is None else worker_folder / "device-regions")
    return CudaSharedMemory(engine, registry)


def dispatcher_of(rows: Iterable[Row], memory: Memory, check_host: HostCheck | None) -> Dispatcher:
    """These routes and nothing else; their answers are reserved in ``memory``."""
    app = FastAPI(
        openapi_url=None,
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
        telemetry=_NO_TELEMETRY,
    )
    table = Table(rows)
    table.add_to(app)
    add_refusal_handlers(app)
    return Dispatcher(app, table, memory, check_host, None)


async def _gauges(engine: Engine, lifecycle: ProcessLifecycle) -> Gauges:
    return Gauges(
        bytes_in_flight=engine.memory.in_use,
        bytes_in_flight_limit=engine.memory.limit_bytes,
        is_ready=engine.backend.is_healthy and not lifecycle.draining,
        connections=lifecycle.connections(),
        device_memory=await engine.device_memory_info(),
    )


def create_app(
    settings: Settings,
    engine: Engine | None = None,
    lifecycle: ProcessLifecycle | None = None,
    worker_folder: Path | None = None,
) -> Application:
    """Create the application.

    The application closes its engine at shutdown, unless the caller gave ``engine``.
    ``lifecycle`` is shared with the server. ``worker_folder`` holds the state that several
    workers share. Raises :class:`~.auth.api_keys.KeyFileError` or
    :class:`~.backends.select.BackendUnavailable`.
    """
    owns_engine = engine is None
    # Logged when the application starts: a failed start prints nothing but its one line.
    messages: list[str] = []
    serving = _engine(settings, messages.append) if engine is None else engine
    lifecycle = lifecycle or ProcessLifecycle()
    lifecycle.is_lost = lambda: not serving.backend.is_healthy
    readiness = Readiness(serving.backend, lifecycle)

    @asynccontextmanager
    async def lifespan(_app: FastAPI) -> AsyncIterator[None]:
        for line in messages:
            logger.info(line)
        tasks = [
            asyncio.create_task(serving.release_idle_memory()),
            asyncio.create_task(app.metrics.share()),
            asyncio.create_task(counts.share()),
        ]
        try:
            yield
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.wait(tasks)
            if owns_engine:
                serving.close()

    app = Application(
        title=NAME,
        version=version(NAME),
        summary="Exact tensor rounding: DirectML, ONNX, OpenVINO and IEEE 754, to the last bit.",
        lifespan=lifespan,
        docs_url=None,
        redoc_url=None,
        # Clients do not send an upload again after a redirect.
        redirect_slashes=False,
        telemetry=_NO_TELEMETRY,
        # Operation ids do not depend on the settings.
        generate_unique_id_function=lambda route: route.name,
    )
    shared_memory = _shared_memory(settings, worker_folder)
    cuda_memory = _cuda_memory(settings, serving, worker_folder)
    executor = InferenceExecutor(
        serving, shared_memory, None if isinstance(cuda_memory, str) else cuda_memory
    )
    counts = Statistics(worker_folder)
    cors = Cors.of(settings)
    origins = cors.origins if cors else frozenset()
    limit = settings.max_tensor_bytes
    deployment = Deployment.of(settings, serving.memory.limit_bytes)
    inference = Inference(serving, executor, counts, limit)
    methods = {}
    if settings.grpc:
        methods = all_methods(
            *(inference, readiness.check, lambda: lifecycle.draining, shared_memory, cuda_memory)
        )
    rows = [
        *page_rows(NAME),
        Row("/openapi.json", None, link="openapi", is_open=True),
        *status_rows(serving, deployment, readiness),
        round_row(serving, limit),
        compare_row(serving, limit),
        *control_rows(counts, readiness.check, shared_memory, cuda_memory),
        *inference_rows(inference, origins),
    ]
    rows = [service_row(rows), *rows]
    metrics = Metrics(
        {"version": version(NAME), "backend": serving.backend.name},
        Table(rows).counted_paths | {METRICS_PATH, *methods},
        partial(_gauges, serving, lifecycle),
        settings.workers,
        serving.backend.device_events,
        lifecycle.dropped_log_lines,
        worker_folder,
    )
    app.metrics = metrics
    is_elsewhere = settings.metrics_port is not None
    rows.append(moved_metrics_row() if is_elsewhere else metrics_row(metrics))
    app.table = table = Table(rows)
    table.add_to(app)
    for path, tensor_route in table.tensor_routes.items():
        tensor_route.path, tensor_route.observer = path, metrics.counts
    app.metrics_dispatcher = dispatcher_of(
        [metrics_row(metrics)], serving.memory, host_check(settings)
    )
    add_refusal_handlers(app)
    app.keys = None if settings.api_keys_file is None else KeyRing(settings.api_keys_file)
    open_paths = table.open_paths | OPEN_METHODS
    authenticator = None if app.keys is None else Authenticator(app.keys, open_paths)
    app.grpc = None
    if methods:
        app.grpc = Service(
            *(methods, serving.memory, host_check(settings), authenticator, metrics),
            logs_access=settings.access_log,
        )
    app.dispatcher = Dispatcher(
        app.framework,
        table,
        serving.memory,
        host_check(settings),
        authenticator,
        cors,
        metrics,
        settings.access_log,
    )
    describe(app, table.operations, table.open_paths, has_keys=app.keys is not None)
    return app


__all__ = ["create_app", "dispatcher_of"]
