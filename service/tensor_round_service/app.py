"""The application: the parts put together."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from importlib.metadata import version
from pathlib import Path

from fastapi import FastAPI
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from .auth.api_keys import KeyRing
from .auth.authenticator import Authenticator
from .auth.cors import Cors
from .auth.hosts import host_check
from .backends.select import DeviceOptions, choose
from .deployment import Deployment
from .documents import NAME
from .engine.engine import Engine
from .engine.readiness import Lifecycle, Readiness
from .front import Front
from .inference.shared.cuda import CudaSharedMemory
from .inference.shared.posix import SharedMemory
from .inference.shared.regions import Registry
from .inference.statistics import Statistics
from .openapi.document import describe
from .refusals import add_refusal_handlers
from .routes.compare import compare_route
from .routes.docs import docs_router
from .routes.inference import inference_routes
from .routes.inference_status import inference_status_router
from .routes.open_paths import OPEN_PATHS
from .routes.repository import repository_router
from .routes.round import round_route
from .routes.shared_memory import shared_memory_router
from .routes.status import status_router
from .routes.tensor_route import TensorRoute
from .settings import Settings

logger = logging.getLogger(__name__)


class Application(FastAPI):
    """FastAPI behind a front, through which every request comes."""

    front: Front

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Have the front respond, where another server than ours calls."""
        if scope["type"] == "http":
            await self.front.serve_asgi(scope, receive, send)
        else:
            await super().__call__(scope, receive, send)

    async def framework(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Respond as FastAPI does."""
        await super().__call__(scope, receive, send)


def _engine(settings: Settings, say: Callable[[str], None]) -> Engine:
    devices = DeviceOptions(
        numbers=settings.device_numbers,
        least_bytes=settings.gpu_min_bytes,
        pool_bytes=settings.gpu_memory_limit,
    )
    backend = choose(settings.backend, devices, say=say)
    return Engine(backend, Deployment.of(settings).worker_bytes)


def _shared_memory(settings: Settings, worker_folder: Path | None) -> SharedMemory | None:
    if settings.shared_memory_prefix is None:
        return None
    registry = Registry(None if worker_folder is None else worker_folder / "regions")
    return SharedMemory(settings.shared_memory_prefix, registry)


def _cuda_memory(
    settings: Settings, engine: Engine, worker_folder: Path | None
) -> CudaSharedMemory | str:
    """The regions on devices, or why there are none."""
    if not settings.cuda_shared_memory:
        return (
            "CUDA shared memory is off: the service was started without --cuda-shared-memory true "
            "(TENSOR_ROUND_CUDA_SHARED_MEMORY)"
        )
    if engine.backend.device_memory is None:
        return f"the {engine.backend.name} backend has no CUDA shared memory"
    registry = Registry(None if worker_folder is None else worker_folder / "device-regions")
    return CudaSharedMemory(engine, registry)


def create_app(
    settings: Settings,
    engine: Engine | None = None,
    lifecycle: Lifecycle | None = None,
    worker_folder: Path | None = None,
) -> Application:
    """The application on these settings.

    An engine that is given stays the caller's; one made here is closed with the application.
    ``lifecycle`` is how its server and it tell each other that the process is to leave.
    ``worker_folder`` is where several workers of one service keep what all of them must know.
    Raises :class:`~.api_keys.KeyFileError` or :class:`~.backends.choice.BackendUnavailable`.
    """
    own = engine is None
    # Said once it is served: where the start fails, its one line stands alone.
    said: list[str] = []
    serving = _engine(settings, said.append) if engine is None else engine
    lifecycle = lifecycle or Lifecycle()
    lifecycle.is_lost = lambda: not serving.backend.is_healthy
    readiness = Readiness(serving.backend, lifecycle)

    @asynccontextmanager
    async def lifespan(_app: FastAPI) -> AsyncIterator[None]:
        for line in said:
            logger.info(line)
        tidying = asyncio.create_task(serving.tidy())
        try:
            yield
        finally:
            tidying.cancel()
            if own:
                serving.close()

    app = Application(
        title=NAME,
        version=version(NAME),
        summary="Exact tensor rounding: DirectML, ONNX, OpenVINO and IEEE 754, to the last bit.",
        lifespan=lifespan,
        docs_url=None,
        redoc_url=None,
        # A redirected upload is an upload lost.
        redirect_slashes=False,
        # The same whatever else is offered; functions are named for it.
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
        # For other methods' 405; their OpenAPI entries are written in openapi/.
        app.router.routes.append(Route(path, _led_by_the_front, methods=["POST"]))
    deployment = Deployment.of(settings, serving.memory.limit_bytes)
    app.include_router(status_router(serving, deployment, readiness))
    app.include_router(
        inference_status_router(counts, readiness.check, shared_memory, has_cuda_memory)
    )
    app.include_router(repository_router())
    app.include_router(shared_memory_router(shared_memory, cuda_memory))
    app.include_router(docs_router(NAME))
    add_refusal_handlers(app)
    app.front = Front(
        app.framework,
        tensor_routes,
        host_check(settings),
        None
        if settings.api_keys_file is None
        else Authenticator(KeyRing(settings.api_keys_file), OPEN_PATHS),
        cors,
    )
    describe(app, OPEN_PATHS, has_keys=settings.api_keys_file is not None)
    return app


async def _led_by_the_front(_request: object) -> None:
    raise RuntimeError("the front leads POST requests to tensor routes")


__all__ = ["create_app"]
