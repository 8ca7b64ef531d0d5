"""The ``/v2`` routes of model repository, logging and tracing. Models and settings are fixed."""

from __future__ import annotations

from fastapi import APIRouter, Request

from tensor_round.contract.errors import Fault, InvalidDescriptor
from tensor_round.contract.quoting import shown

from .. import documents
from ..inference.models import MODELS, find
from .control_body import control_body

#: Triton's log settings. They are constant: the service's own settings control logging.
LOGGING: documents.LogSettings = {
    "log_file": "",
    "log_info": True,
    "log_warning": True,
    "log_error": True,
    "log_verbose_level": 0,
    "log_format": "default",
}
TRACE: documents.TraceSettings = {
    "trace_level": ["OFF"],
    "trace_rate": "1000",
    "trace_count": "-1",
    "log_frequency": "0",
    "trace_file": "",
    "trace_mode": "triton",
}


def repository_router() -> APIRouter:
    """The routes of repository, logging and tracing."""
    router = APIRouter(prefix="/v2", tags=["open inference protocol"])

    @router.post("/repository/index", summary="List the models")
    async def repository_index(request: Request) -> list[documents.IndexEntry]:
        """Every version of every model; `ready` makes no difference, because all are ready."""
        ready = (await control_body(request)).get("ready", True)
        if not isinstance(ready, bool):
            rule = f"must be true or false, got {shown(ready)}"
            raise InvalidDescriptor.of([Fault(("ready",), rule)])
        return [{"name": m.name, "version": m.version, "state": "READY"} for m in MODELS]

    @router.post("/repository/models/{name}/load", summary="Load a model")
    async def load_model(name: str, request: Request) -> documents.Nothing:
        """Does nothing: every model is loaded."""
        find(name)
        await control_body(request)
        return {}

    @router.post("/repository/models/{name}/unload", include_in_schema=False)
    async def unload_model(name: str) -> None:
        """Refused: the models are fixed."""
        raise InvalidDescriptor(f"model {find(name).name} is fixed and cannot be unloaded")

    @router.get("/logging", summary="Log settings")
    async def log_settings() -> documents.LogSettings:
        """The log settings, in Triton's form."""
        return LOGGING

    @router.post("/logging", include_in_schema=False)
    async def change_log_settings() -> None:
        """Refused: logging is set when the service starts."""
        raise InvalidDescriptor("log settings are fixed when the service starts")

    @router.get("/trace/setting", summary="Trace settings")
    async def trace_settings() -> documents.TraceSettings:
        """Nothing is traced."""
        return TRACE

    @router.get("/models/{name}/trace/setting", summary="Trace settings of a model")
    async def model_trace_settings(name: str) -> documents.TraceSettings:
        """Nothing is traced."""
        find(name)
        return TRACE

    @router.post("/trace/setting", include_in_schema=False)
    async def change_trace_settings() -> None:
        """Refused: the service has no tracing."""
        raise InvalidDescriptor("the service has no tracing")

    @router.post("/models/{name}/trace/setting", include_in_schema=False)
    async def change_model_trace_settings(name: str) -> None:
        """Refused: the service has no tracing."""
        find(name)
        raise InvalidDescriptor("the service has no tracing")

    return router
