"""The Open Inference Protocol: the operators as models, under ``/v2``."""

from __future__ import annotations

from pathlib import Path

from tensor_round.contract.errors import RequestRefused
from tensor_round.contract.wire import http_fields

from ..engine.engine import Engine
from ..features import Feature, FeatureContext
from ..openapi.document import Description
from ..settings import Settings
from . import infer_json
from .calls import control_calls
from .control import control_rows
from .cuda_memory import CudaSharedMemory
from .executor import InferenceExecutor
from .infer import inference_rows
from .inference import Inference
from .operations import TAG, complete, schemas
from .plan import NO_SHARED_MEMORY
from .posix_memory import PosixSharedMemory
from .regions import Registry
from .statistics import Statistics

_DESCRIPTION = "The same operators as models, for tritonclient, KServe and others."


def feature(context: FeatureContext) -> Feature:
    """The paths under ``/v2``."""
    settings, engine = context.settings, context.engine
    system = _system_memory(settings, context.worker_folder)
    cuda = _cuda_memory(settings, engine, context.worker_folder)
    has_system, has_cuda = not isinstance(system, str), not isinstance(cuda, str)
    executor = InferenceExecutor(engine, system, cuda)
    counts = Statistics(context.worker_folder)
    inference = Inference(engine, executor, counts, settings.max_tensor_bytes)
    calls = control_calls(counts, system, cuda, context.readiness.check)
    origins = frozenset(origin.encode() for origin in settings.listed_origins)
    return Feature(
        rows=[
            *control_rows(calls, has_system=has_system, has_cuda=has_cuda),
            *inference_rows(inference, origins),
        ],
        folder="/v2",
        changes=True,
        error_form=_error,
        fields=[infer_json.HEADER_LENGTH],
        description=Description(
            schemas=schemas,
            tag={"name": TAG, "description": _DESCRIPTION},
            complete=complete,
        ),
        provides=[inference, calls],
    )


def _error(refusal: RequestRefused, _traceparent: str | None) -> tuple[int, str, bytes]:
    """The protocol's errors: one line of text, with status 400 for all invalid requests."""
    status = 400 if refusal.status == 422 else refusal.status
    return status, http_fields.JSON, infer_json.write_error(refusal.detail)


def _system_memory(settings: Settings, worker_folder: Path | None) -> PosixSharedMemory | str:
    if settings.shared_memory_prefix is None:
        return NO_SHARED_MEMORY
    return PosixSharedMemory(settings.shared_memory_prefix, Registry(worker_folder))


def _cuda_memory(
    settings: Settings, engine: Engine, worker_folder: Path | None
) -> CudaSharedMemory | str:
    if not settings.cuda_shared_memory:
        return (
            "CUDA shared memory is off: the service was started without --cuda-shared-memory true "
            "(TENSOR_ROUND_CUDA_SHARED_MEMORY)"
        )
    if engine.backend.device_memory is None:
        return f"the {engine.backend.name} backend has no CUDA shared memory"
    return CudaSharedMemory(engine, Registry(worker_folder, "device-regions"))
