"""tritonclient over gRPC, where it is installed; see :mod:`.tritonclients`."""

from __future__ import annotations

import queue
from collections.abc import Callable
from typing import Any

import tritonclient.grpc as grpc
import tritonclient.grpc.aio as grpc_aio
from tritonclient.utils import InferenceServerException

from .grpc_caller import unwrapped
from .tritonclients import OverHttp

_STATUSES = {"INVALID_ARGUMENT": 400, "NOT_FOUND": 404, "UNIMPLEMENTED": 501}


class OverGrpc(OverHttp):
    """``tritonclient.grpc``."""

    blocking = grpc.InferenceServerClient
    asynchronous = grpc_aio.InferenceServerClient
    tensor = grpc.InferInput
    output = grpc.InferRequestedOutput

    def packed(self, algorithm: str | None) -> dict[str, Any]:
        return {"compression_algorithm": algorithm}

    def later(self, client: Any, model: str, inputs: list[Any]) -> Callable[[], Any]:
        told: queue.Queue[tuple[Any, Any]] = queue.Queue()
        client.async_infer(model, inputs, lambda result, error: told.put((result, error)))

        def wait() -> Any:
            result, error = told.get(timeout=60)
            assert error is None
            return result

        return wait

    def plain(self, told: Any) -> Any:
        return unwrapped(told)

    def status(self, error: InferenceServerException) -> int:
        return _STATUSES[error.status().rpartition(".")[2]]
