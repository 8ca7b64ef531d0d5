"""The ``/v2`` routes that describe the server and its models: health, metadata, statistics."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from importlib.metadata import version

from fastapi import APIRouter

from tensor_round.contract.errors import NotFound

from .. import documents
from ..inference.cuda_memory import CudaSharedMemory
from ..inference.models import MODELS, Model, config_of, find, metadata_of
from ..inference.posix_memory import PosixSharedMemory
from ..inference.statistics import Statistics

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
    shared_memory: PosixSharedMemory | None,
    cuda_memory: CudaSharedMemory | None = None,
) -> APIRouter:
    """The routes. ``check_ready`` raises a refusal if the service is not ready."""
    router = APIRouter(prefix="/v2", tags=["open inference protocol"])
    extensions = [
        *EXTENSIONS,
        *(["system_shared_memory"] if shared_memory else ()),
        *(["cuda_shared_memory"] if cuda_memory else ()),
    ]

    @router.get("", summary="Server metadata")
    async def server_metadata() -> documents.ServerMetadata:
        """Name, version and the protocol extensions that are enabled."""
        return {
            "name": documents.NAME,
            "version": version(documents.NAME),
            "extensions": extensions,
        }

    @router.get("/health/live", summary="Is the server alive?")
    async def server_live() -> documents.ServerLive:
        """Responds 200 as long as the event loop runs."""
        return {"live": True}

    @router.get("/health/ready", summary="Can the server infer?")
    async def server_ready() -> documents.ServerReady:
        """Responds 200 if requests can be served, else 503."""
        await check_ready()
        return {"ready": True}

    @router.get("/models", include_in_schema=False)
    async def no_models() -> None:
        """Refuse, and name the path that lists the models."""
        raise NotFound("there is nothing at this path; POST /v2/repository/index lists the models")

    # Before the routes of a model, so that "stats" is not taken for a model's name.
    @router.get("/models/stats", summary="Statistics of all models")
    async def all_statistics() -> documents.StatisticsReport:
        """Counts and durations of the inferences of every version of every model."""
        return {"model_stats": [counts.describe(model) for model in MODELS]}

    @router.get("/models/{name}", summary="Model metadata")
    async def model_metadata(name: str) -> documents.ModelMetadata:
        """Versions, and the names of input and output."""
        return metadata_of(find(name))

    @router.get("/models/{name}/versions/{model_version}", summary="Metadata of a version")
    async def model_version_metadata(name: str, model_version: str) -> documents.ModelMetadata:
        """Versions, and the names of input and output."""
        return metadata_of(find(name, model_version))

    async def _readiness(model: Model) -> documents.ModelReady:
        await check_ready()
        return {"name": model.name, "ready": True}

    @router.get("/models/{name}/ready", summary="Can the model infer?")
    async def model_ready(name: str) -> documents.ModelReady:
        """A model is ready when the server is."""
        return await _readiness(find(name))

    @router.get("/models/{name}/versions/{model_version}/ready", summary="Can the version infer?")
    async def model_version_ready(name: str, model_version: str) -> documents.ModelReady:
        """A version is ready when the server is."""
        return await _readiness(find(name, model_version))

    @router.get("/models/{name}/config", summary="Model configuration")
    async def model_config(name: str) -> documents.ModelConfig:
        """Triton's configuration; `parameters` list all datatypes that the model accepts."""
        return config_of(find(name))

    @router.get("/models/{name}/versions/{model_version}/config", summary="Version's configuration")
    async def model_version_config(name: str, model_version: str) -> documents.ModelConfig:
        """Triton's configuration; `parameters` list all datatypes that the version accepts."""
        return config_of(find(name, model_version))

    @router.get("/models/{name}/stats", summary="Model statistics")
    async def model_statistics(name: str) -> documents.StatisticsReport:
        """Counts and durations of the inferences of every version of the model."""
        find(name)
        versions = [model for model in MODELS if model.name == name]
        return {"model_stats": [counts.describe(model) for model in versions]}

    @router.get("/models/{name}/versions/{model_version}/stats", summary="Version's statistics")
    async def model_version_statistics(name: str, model_version: str) -> documents.StatisticsReport:
        """Counts and durations of the inferences of the version."""
        return {"model_stats": [counts.describe(find(name, model_version))]}

    # Tensor routes serve the known models before these routes are reached.
    @router.post("/models/{name}/infer", include_in_schema=False)
    @router.post("/models/{name}/versions/{model_version}/infer", include_in_schema=False)
    async def unknown_model(name: str, model_version: str | None = None) -> None:
        """Refuse with the name of the unknown model or version."""
        find(name, model_version)

    return router
