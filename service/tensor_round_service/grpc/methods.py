"""All methods of gRPC, by their paths."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from ..inference.cuda_memory import CudaSharedMemory
from ..inference.inference import Inference
from ..inference.posix_memory import PosixSharedMemory
from . import control, health
from .call import Method
from .infer import InferMethods
from .reflection import reflection_methods

#: Methods that need no key.
OPEN_METHODS = control.OPEN_METHODS | health.OPEN_METHODS


def all_methods(
    inference: Inference,
    check_ready: Callable[[], Awaitable[None]],
    is_draining: Callable[[], bool],
    shared_memory: PosixSharedMemory | None,
    cuda_memory: CudaSharedMemory | str,
) -> dict[str, Method]:
    """The methods. ``check_ready`` raises a refusal if the service is not ready."""
    infer = InferMethods(inference)
    return {
        f"/{control.SERVICE}/ModelInfer": infer.infer,
        f"/{control.SERVICE}/ModelStreamInfer": infer.infer_stream,
        **control.control_methods(inference.counts, check_ready, shared_memory, cuda_memory),
        **health.health_methods(check_ready, is_draining),
        **reflection_methods(),
    }
