"""What the ``/v2`` face tells of the server and its models: health, metadata, statistics."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from importlib.metadata import version
from typing import Any

from fastapi import APIRouter

from .. import model_description
from ..cuda_shared_memory import CudaSharedMemory
from ..models import MODELS, find
from ..shared_memory import SharedMemory
from ..statistics import Statistics

NAME = "tensor-round"
EXTENSIONS = (
    "binary_tensor_data",
    "parameters",
    "statistics",
    "model_configuration",
    "model_repository",
)


def inference_status_router(
    counts: Statistics,
    check_ready: Callable[[], Awaitable[None]],
    shared_memory: SharedMemory | None,
    cuda_memory: CudaSharedMemory | None = None,
) -> APIRouter:
    """The routes. ``check_ready`` raises the refusal there is while the service is not ready."""
    router = APIRouter(prefix="/v2", tags=["open inference protocol"])
    extensions = [
        *EXTENSIONS,
        *(["system_shared_memory"] if shared_memory else ()),
        *(["cuda_shared_memory"] if cuda_memory else ()),
    ]

    @router.get("/", include_in_schema=False)
    @router.get("", summary="Server metadata")
    async def server_metadata() -> dict[str, Any]:
        """Name, version and the extensions of the protocol that are on."""
        return {"name": NAME, "version": version(NAME), "extensions": extensions}

    @router.get("/health/live", summary="Is the server alive?")
    async def live() -> dict[str, bool]:
        """Answers as long as the event loop turns."""
        return {"live": True}

    @router.get("/health/ready", summary="Can the server infer?")
    async def ready() -> dict[str, bool]:
        """Answers 200 when requests can be served, else 503."""
        await check_ready()
        return {"ready": True}

    # Before the routes of a model: no model has this name.
    @router.get("/models/stats", summary="Statistics of all models")
    async def all_statistics() -> dict[str, Any]:
        """How often each version of each model was asked, and how long that took."""
        return {"model_stats": [counts.describe(model) for model in MODELS]}

    @router.get("/models/{name}", summary="Model metadata")
    @router.get("/models/{name}/versions/{model_version}", summary="Model metadata")
    async def model_metadata(name: str, model_version: str | None = None) -> dict[str, Any]:
        """Versions, and the names of input and output."""
        return model_description.metadata(find(name, model_version))

    @router.get("/models/{name}/ready", summary="Can the model infer?")
    @router.get("/models/{name}/versions/{model_version}/ready", summary="Can the model infer?")
    async def model_ready(name: str, model_version: str | None = None) -> dict[str, Any]:
        """A model is ready when the server is."""
        model = find(name, model_version)
        await check_ready()
        return {"name": model.name, "ready": True}

    @router.get("/models/{name}/config", summary="Model configuration")
    @router.get("/models/{name}/versions/{model_version}/config", summary="Model configuration")
    async def model_config(name: str, model_version: str | None = None) -> dict[str, Any]:
        """Triton's configuration; `parameters` tell what the model takes besides FP32."""
        return model_description.config(find(name, model_version))

    @router.get("/models/{name}/stats", summary="Model statistics")
    @router.get("/models/{name}/versions/{model_version}/stats", summary="Model statistics")
    async def model_statistics(name: str, model_version: str | None = None) -> dict[str, Any]:
        """How often the model was asked, and how long that took; all versions without one."""
        found = find(name, model_version)
        models = [m for m in MODELS if m.name == found.name and model_version in (None, m.version)]
        return {"model_stats": [counts.describe(model) for model in models]}

    # Those of known models are routes of their own, and come first.
    @router.post("/models/{name}/infer", include_in_schema=False)
    @router.post("/models/{name}/versions/{model_version}/infer", include_in_schema=False)
    async def unknown_model(name: str, model_version: str | None = None) -> None:
        """Say which models or versions there are."""
        find(name, model_version)

    return router
