"""tritonclient, whichever transport it has: a test of one is a test of both."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import tritonclient.http as http
import tritonclient.http.aio as http_aio
from tritonclient.utils import InferenceServerException, np_to_triton_dtype


class OverHttp:
    """``tritonclient.http``: its classes, and what transports say of the same differently.

    ``form`` says whether numbers travel as bytes or as JSON, both ways.
    """

    #: The clients, of which either has its own implementation.
    blocking: Any = http.InferenceServerClient
    asynchronous: Any = http_aio.InferenceServerClient
    tensor: Any = http.InferInput
    output: Any = http.InferRequestedOutput

    def __init__(self, **form: bool) -> None:
        self.form = form

    def given(self, x: np.ndarray[Any, Any], name: str = "X") -> Any:
        """An array as the input of a request."""
        datatype = np_to_triton_dtype(x.dtype)
        tensor = self.tensor(name, list(x.shape), datatype)
        # The client has no bfloat16 in JSON.
        tensor.set_data_from_numpy(x, **({} if datatype == "BF16" else self.form))
        return tensor

    def wish(self, name: str = "Y") -> Any:
        """A requested output."""
        return self.output(name, **self.form)

    def packed(self, algorithm: str | None) -> dict[str, Any]:
        """The options of an inference that is compressed so, as far as the transport has it."""
        return {f"{way}_compression_algorithm": algorithm for way in ("request", "response")}

    def later(self, client: Any, model: str, inputs: list[Any]) -> Callable[[], Any]:
        """Begin an inference; returns what waits for its result."""
        pending = client.async_infer(model, inputs)
        return lambda: pending.get_result()

    def plain(self, told: Any) -> Any:
        """A response as plain values, those of HTTP."""
        for output in told.get("outputs", ()) if isinstance(told, dict) else ():
            output.get("parameters", {}).pop("binary_data_size", None)
        return told

    def status(self, error: InferenceServerException) -> int:
        """The status of an error, as HTTP has it."""
        return int(error.status())
