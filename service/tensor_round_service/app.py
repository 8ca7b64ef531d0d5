"""The application: creates all components from the settings and connects them."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING

from fastapi import FastAPI
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from .auth.api_keys import Authenticator, KeyRing
from .auth.origins import Cors, host_check
from .backends.select import DeviceOptions, select_backend
from .deployment import Deployment
from .dispatcher import Dispatcher
from .documents import NAME
from .engine.engine import Engine
from .engine.readiness import ProcessLifecycle, Readiness
from .inference.cuda_memory import CudaSharedMemory
from .inference.posix_memory import PosixSharedMemory
from .inference.regions import Registry
from .inference.statistics import Statistics
from .metrics.counts import Gauges
from .metrics.recorder import Metrics
from .openapi.document import describe
from .refusals import add_refusal_handlers
from .routes.compare import compare_route
from .routes.inference import inference_routes
from .routes.inference_status import inference_status_router
from .routes.metrics import metrics_router
from .routes.open_paths import OPEN_PATHS
from .routes.pages.docs import docs_router
from .routes.pages.home import FILE_PATHS, page_router
from .routes.repository import repository_router
from .routes.round import round_route
from .routes.shared_memory import shared_memory_router
from .routes.status import status_router
from .routes.tensor_route import TensorRoute
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
    metrics: Metrics
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


def _metrics_dispatcher(metrics: Metrics, settings: Settings) -> Dispatcher:
    """``GET /metrics`` and nothing else."""
    app = FastAPI(
        openapi_url=None,
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
        telemetry=_NO_TELEMETRY,
    )
    app.include_router(metrics_router(metrics))
    add_refusal_handlers(app)
    return Dispatcher(app, {}, host_check(settings), None)


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
    has_cuda_memory = None if isinstance(cuda_memory, str) else cuda_memory
    counts = Statistics(worker_folder)
    cors = Cors.of(settings)
    tensor_routes: Mapping[str, TensorRoute] = {
        "/round": round_route(serving, settings.max_tensor_bytes),
        "/compare": compare_route(serving, settings.max_tensor_bytes),
        **inference_routes(
            serving,
            settings.max_tensor_bytes,
            shared_memory,
            counts,
            has_cuda_memory,
            cors.origins if cors else frozenset(),
        ),
    }
    for path in tensor_routes:
        # For 405 on other methods. The package openapi writes the OpenAPI entries.
        app.router.routes.append(Route(path, _handled_by_dispatcher, methods=["POST"]))
    deployment = Deployment.of(settings, serving.memory.limit_bytes)
    app.include_router(status_router(serving, deployment, readiness))
    app.include_router(
        inference_status_router(counts, readiness.check, shared_memory, has_cuda_memory)
    )
    app.include_router(repository_router())
    app.include_router(shared_memory_router(shared_memory, cuda_memory))
    app.include_router(docs_router(NAME))
    app.include_router(page_router())
    metrics = Metrics(
        {"version": version(NAME), "backend": serving.backend.name},
        {*tensor_routes, *OPEN_PATHS - FILE_PATHS, "/operators", "/conformance", "/metrics"},
        partial(_gauges, serving, lifecycle),
        settings.workers,
        serving.backend.device_events,
        worker_folder,
    )
    app.metrics = metrics
    for path, tensor_route in tensor_routes.items():
        tensor_route.path, tensor_route.observer = path, metrics.counts
    if settings.metrics_port is None:
        app.include_router(metrics_router(metrics))
    app.metrics_dispatcher = _metrics_dispatcher(metrics, settings)
    add_refusal_handlers(app)
    app.keys = None if settings.api_keys_file is None else KeyRing(settings.api_keys_file)
    app.dispatcher = Dispatcher(
        app.framework,
        tensor_routes,
        host_check(settings),
        None if app.keys is None else Authenticator(app.keys, OPEN_PATHS),
        cors,
        metrics,
        settings.access_log,
    )
    describe(app, OPEN_PATHS, has_keys=settings.api_keys_file is not None)
    return app


async def _handled_by_dispatcher(_request: object) -> None:
    raise RuntimeError("the dispatcher passes POST requests to tensor routes")


__all__ = ["create_app"]
