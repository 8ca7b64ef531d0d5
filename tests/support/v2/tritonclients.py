"""tritonclient, whichever transport it has: a test of one is a test of both."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

import numpy as np
import tritonclient.http as http
import tritonclient.http.aio as http_aio
from tritonclient.utils import InferenceServerException, np_to_triton_dtype


class Tritonclient(Protocol):
    """tritonclient with one transport: its classes, and what they say of the same differently."""

    #: The clients, of which either has its own implementation.
    blocking: Any
    asynchronous: Any
    tensor: Any
    wish: Any

    def packed(self, algorithm: str | None) -> dict[str, Any]:
        """The options of an inference that is compressed so, as far as the transport has it."""

    def later(self, client: Any, model: str, inputs: list[Any]) -> Callable[[], Any]:
        """Begin an inference; returns what waits for its result."""

    def plain(self, told: Any) -> Any:
        """A response as plain values, those of HTTP."""

    def status(self, error: InferenceServerException) -> int:
        """The status of an error, as HTTP has it."""


class OverHttp:
    """``tritonclient.http``."""

    blocking = http.InferenceServerClient
    asynchronous = http_aio.InferenceServerClient
    tensor = http.InferInput
    wish = http.InferRequestedOutput

    def packed(self, algorithm: str | None) -> dict[str, Any]:
        return {f"{way}_compression_algorithm": algorithm for way in ("request", "response")}

    def later(self, client: Any, model: str, inputs: list[Any]) -> Callable[[], Any]:
        pending = client.async_infer(model, inputs)
        return lambda: pending.get_result()

    def plain(self, told: Any) -> Any:
        for output in told.get("outputs", ()) if isinstance(told, dict) else ():
            output.get("parameters", {}).pop("binary_data_size", None)
        return told

    def status(self, error: InferenceServerException) -> int:
        return int(error.status())


def given(kind: Tritonclient, x: np.ndarray[Any, Any], name: str = "X") -> Any:
    """An array as the input of a request."""
    tensor = kind.tensor(name, list(x.shape), np_to_triton_dtype(x.dtype))
    tensor.set_data_from_numpy(x)
    return tensor
