"""``onnxruntime[:PROVIDER]``, ``onnx-reference`` and ``onnx-model:FILE``."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from tensor_round.contract.operators.dialects.onnx import DTYPES as ONNX_DTYPES

from ..errors import CannotVerify, NotTaken
from ..reference import Bits
from .onnx_model import DTYPES, OPERATORS, model_of
from .runtime import RoundBits, failures_of, first_line, patterns, probed, values, version

#: The log severity for errors only.
ERRORS_ONLY = 3


class OnnxRuntime:
    """ONNX Runtime, on one provider, by models of one node: Round, Ceil, Floor."""

    dtypes = DTYPES
    roundings = tuple(OPERATORS)
    concurrent = True

    def __init__(self, provider: str) -> None:
        import onnxruntime

        self._provider = _provider(provider, onnxruntime.get_available_providers())
        self.name = f"onnxruntime {version(onnxruntime)}, {self._provider}"

    def kernel(self, dtype: str, rounding: str) -> RoundBits:
        """A session of the operator; raises :class:`NotTaken` if the provider does not have it."""
        _check(dtype, rounding)
        session = self.session(model_of(dtype, rounding))
        kernel = _running(lambda x: session.run(None, {"x": x})[0], dtype, self.name)
        return probed(kernel, dtype)

    def session(self, model: bytes) -> Any:  # onnxruntime has no annotations
        """A session of a model; raises :class:`NotTaken` if the provider lacks its operator."""
        try:
            return _session(model, [self._provider])
        except Exception as error:  # of many classes, which the package does not publish
            raise NotTaken(first_line(error)) from error

    def close(self) -> None:
        """Do nothing: sessions end with their kernels."""


class OnnxReference:
    """The reference evaluator of the onnx package."""

    dtypes = DTYPES
    roundings = tuple(OPERATORS)
    concurrent = True

    def __init__(self, _: str) -> None:
        import onnx

        self.name = f"onnx {version(onnx)}, reference evaluator"

    def kernel(self, dtype: str, rounding: str) -> RoundBits:
        """The evaluator of a model of one node."""
        import onnx
        from onnx.reference import ReferenceEvaluator

        _check(dtype, rounding)
        evaluator = ReferenceEvaluator(onnx.load_model_from_string(model_of(dtype, rounding)))

        def run(x: Any) -> Any:
            with np.errstate(all="ignore"):
                return evaluator.run(None, {"x": x})[0]

        return probed(_running(run, dtype, self.name), dtype)

    def close(self) -> None:
        """Do nothing: there are no resources."""


class OnnxModel:
    """A model file with one input and one output, run by ONNX Runtime on the CPU."""

    roundings = ("ties_to_even",)
    concurrent = True

    def __init__(self, path: str) -> None:
        import onnxruntime

        self.name = f"onnx-model:{path}, by onnxruntime {version(onnxruntime)}"
        if not Path(path).is_file():
            raise CannotVerify(f"there is no file {path}")
        try:
            self._session = _session(path, ["CPUExecutionProvider"])
        except Exception as error:  # of many classes, which the package does not publish
            raise CannotVerify(f"{path} is no model: {first_line(error)}") from error
        inputs, outputs = self._session.get_inputs(), self._session.get_outputs()
        if (len(inputs), len(outputs)) != (1, 1):
            raise CannotVerify(
                f"{path} has {len(inputs)} inputs and {len(outputs)} outputs; it must have one each"
            )
        (self._input,), (output,) = inputs, outputs
        onnx_type = self._input.type.removeprefix("tensor(").removesuffix(")").upper()
        taken = ONNX_DTYPES.get(onnx_type)
        if taken is None or output.type != self._input.type:
            raise CannotVerify(
                f"{path} turns {self._input.type} into {output.type}; "
                "it must keep a type that tensor-round has"
            )
        # A size that is not a number is free.
        self._shape = [size if isinstance(size, int) else None for size in self._input.shape]
        if 0 in self._shape:
            raise CannotVerify(f"{path} takes empty tensors alone")
        self.dtypes = (taken,)

    def kernel(self, dtype: str, rounding: str) -> RoundBits:
        """The model; if its shape is fixed, it runs once for each part of that size."""
        if dtype not in self.dtypes:
            raise NotTaken(f"it takes {self.dtypes[0]} alone")
        return _running(self._run, dtype, self.name)

    def close(self) -> None:
        """Do nothing: the session ends with this object."""

    def _run(self, x: Any) -> Any:
        # The first free dimension gets all elements; any further one is 1.
        free = next((i for i, size in enumerate(self._shape) if size is None), None)
        shape = [1 if size is None else size for size in self._shape]
        step = math.prod(shape)
        padded = np.concatenate([x, np.zeros(-x.size % step, x.dtype)])
        if free is not None:
            shape[free] = padded.size // step
        # The items of a one-dimensional array are scalars, not arrays.
        pieces = map(np.asarray, padded.reshape(-1, *shape))
        results = [self._session.run(None, {self._input.name: piece})[0] for piece in pieces]
        return np.concatenate([np.reshape(result, -1) for result in results])[: x.size]


def _provider(wanted: str, available: list[str]) -> str:
    wanted = wanted or "CPU"
    for name in available:
        if wanted.lower() in (name.lower(), name.lower().removesuffix("executionprovider")):
            return name
    raise CannotVerify(f"onnxruntime has no provider {wanted} here; it has {', '.join(available)}")


def _session(model: bytes | str, providers: list[str]) -> Any:  # onnxruntime has no annotations
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.log_severity_level = ERRORS_ONLY
    session = onnxruntime.InferenceSession(model, options, providers=providers)
    session.disable_fallback()
    if session.get_providers()[0] != providers[0]:
        raise CannotVerify(f"{providers[0]} cannot be loaded")
    return session


def _check(dtype: str, rounding: str) -> None:
    if dtype not in DTYPES or rounding not in OPERATORS:
        raise NotTaken(f"it has no operator for {dtype} {rounding}")


def _running(run: Callable[[Any], Any], dtype: str, name: str) -> RoundBits:
    def kernel(bits: Bits) -> Bits:
        with failures_of(name, dtype):
            result = run(values(bits, dtype))
        return patterns(result, bits, dtype, name)

    return kernel
