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

from .admission import memory_limit
from .api_keys import KeyRing
from .auth import Door
from .backends.choice import DeviceOptions, choose
from .cuda_shared_memory import CudaSharedMemory
from .engine import Engine
from .hardening import NoStoreMiddleware
from .openapi import describe
from .readiness import Lifecycle, Readiness
from .refusals import add_refusal_handlers
from .regions import Registry
from .request_id import RequestIdMiddleware
from .routes.docs import docs_router
from .routes.inference import inference_routes
from .routes.inference_status import inference_status_router
from .routes.repository import repository_router
from .routes.round import round_route
from .routes.shared_memory import shared_memory_router
from .routes.status import status_router
from .routes.tensor_route import TensorRoute
from .settings import Settings
from .shared_memory import SharedMemory
from .statistics import Statistics
from .whole_answers import WholeAnswerMiddleware

TITLE = "tensor-round"

logger = logging.getLogger(__name__)


class _Application(FastAPI):
    """FastAPI, with a way past it: its stack costs a small tensor more than rounding does."""

    short_cuts: Mapping[str, TensorRoute]
    door: Door | None = None

    def is_prompt(self, scope: Scope) -> bool:
        """Whether a request, come whole, needs no task: one that goes past the stack."""
        return scope["method"] == "POST" and scope["path"] in self.short_cuts

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Lead POST requests of tensor routes to their endpoints, all else through the stack."""
        if (
            self.door is not None
            and scope["type"] == "http"
            and await self.door.turns_away(scope, send)
        ):
            return
        if scope["type"] == "http" and scope["method"] == "POST":
            endpoint = self.short_cuts.get(scope["path"])
            if endpoint is not None:
                await endpoint(scope, receive, send)
                return
        await super().__call__(scope, receive, send)


def _engine(settings: Settings, say: Callable[[str], None]) -> Engine:
    total = settings.max_bytes_in_flight or memory_limit() // 2
    devices = DeviceOptions(
        numbers=settings.device_numbers,
        least_bytes=settings.gpu_min_bytes,
        pool_bytes=settings.gpu_memory_limit,
    )
    backend = choose(settings.backend, devices, say=say)
    return Engine(backend, total // settings.workers)


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
        return "CUDA shared memory is off: the service's CUDA_SHARED_MEMORY is not set"
    if engine.backend.device_memory is None:
        return f"the {engine.backend.name} backend has no CUDA shared memory"
    registry = Registry(None if worker_folder is None else worker_folder / "device-regions")
    return CudaSharedMemory(engine, registry)


def create_app(
    settings: Settings,
    engine: Engine | None = None,
    lifecycle: Lifecycle | None = None,
    worker_folder: Path | None = None,
) -> FastAPI:
    """The ASGI application on these settings.

    An engine that is given stays the caller's; one made here is closed with the application.
    ``lifecycle`` is how its server and it tell each other that the process is to leave.
    ``worker_folder`` is where several workers of one service keep what all of them must know.
    Raises :class:`~.api_keys.KeyFileError` or :class:`~.backends.choice.BackendUnavailable`.
    """
    door = None if settings.api_keys_file is None else Door(KeyRing(settings.api_keys_file))
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

    app = _Application(
        title=TITLE,
        version=version(TITLE),
        summary="Exact tensor rounding: DirectML, ONNX, OpenVINO and IEEE 754, to the last bit.",
        lifespan=lifespan,
        docs_url=None,
        redoc_url=None,
        # A redirected upload is an upload lost.
        redirect_slashes=False,
    )
    # Tensor routes are plain ASGI; their OpenAPI entries are written in openapi.py.
    shared_memory = _shared_memory(settings, worker_folder)
    cuda_memory = _cuda_memory(settings, serving, worker_folder)
    has_cuda_memory = None if isinstance(cuda_memory, str) else cuda_memory
    counts = Statistics(worker_folder)
    tensor_routes = {
        "/round": round_route(serving, settings.max_tensor_bytes),
        **inference_routes(
            serving, settings.max_tensor_bytes, shared_memory, counts, has_cuda_memory
        ),
    }
    for path, endpoint in tensor_routes.items():
        app.router.routes.append(Route(path, endpoint, methods=["POST"]))
    app.include_router(status_router(serving, settings.max_tensor_bytes, readiness))
    app.include_router(
        inference_status_router(counts, readiness.check, shared_memory, has_cuda_memory)
    )
    app.include_router(repository_router())
    app.include_router(shared_memory_router(shared_memory, cuda_memory))
    app.include_router(docs_router(TITLE))
    app.add_middleware(RequestIdMiddleware)
    app.add_middleware(NoStoreMiddleware)
    app.add_middleware(WholeAnswerMiddleware)
    app.short_cuts = tensor_routes
    app.door = door
    add_refusal_handlers(app)
    describe(app, None if door is None else door.open_paths)
    return app


__all__ = ["create_app"]
