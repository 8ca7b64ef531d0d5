"""``onnxruntime[:PROVIDER]``, ``onnx-reference`` and ``onnx-model:FILE``."""

from __future__ import annotations

import abc
import math
import shlex
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx.reference import ReferenceEvaluator

from tensor_round.contract.dtypes import BY_NAME
from tensor_round.contract.errors import CannotVerify
from tensor_round.contract.operators.dialects.onnx import DTYPES as ONNX_DTYPES

from ..conversions.conversion import Cast, Quantization
from ..conversions.patterns import Trial
from ..reference import bits_type
from .forms import Form, Values
from .onnx_model import DTYPES, OPERATORS, cast_model, quantize_model, rounding_model
from .runtime import Adapter, NotTaken, QuantizeBits, RoundBits, first_line, version
from .tensors import Array, Tensor, by_onnxruntime

#: The log severity for errors only.
ERRORS_ONLY = 3


class _Onnx(Adapter, abc.ABC):
    """Runs models of one node: Round, Ceil, Floor; Cast, QuantizeLinear."""

    dtypes = DTYPES
    operators = OPERATORS
    roundings = tuple(OPERATORS)
    forms = Form.LENGTH | Form.EMPTY | Form.RANK
    concurrent = True

    @abc.abstractmethod
    def _running(self, model: bytes) -> Callable[[Mapping[str, Any]], Any]:
        """A function that runs the model on its named inputs; raises :class:`NotTaken`."""

    def _rounds(self, dtype: str, rounding: str) -> Callable[[Values], Any]:
        operator = self._operator(dtype, rounding)

        @cache
        def running(rank: int) -> Callable[[Mapping[str, Any]], Any]:
            return self._running(rounding_model(operator, dtype, rank))

        return lambda x: running(x.ndim)({"x": x})

    def cast(self, how: Cast) -> RoundBits:
        """Cast by a model of Cast-25."""
        if how.rounding != "ties_to_even":
            raise NotTaken(f"ONNX's Cast cannot be asked to round {how.rounding}")
        run = self._running(cast_model(how.source, how.target, saturate=how.saturate))

        def cast(x: Any) -> Any:
            found = run({"x": x})
            # ONNX Runtime returns 8-bit floats as unsigned integers.
            is_raw = isinstance(found, np.ndarray) and found.dtype == bits_type(how.target)
            return found.view(BY_NAME[how.target].numpy) if is_raw else found

        return self._casting(cast, how)

    def quantize(self, how: Quantization) -> QuantizeBits:
        """Quantize by a model of QuantizeLinear-25; its axis is the first one."""
        run = self._running(quantize_model(how.source, how.target, per_axis=how.per_axis))

        def quantize(trial: Trial) -> Any:
            return run(dict(zip(("x", "scale", "zero_point"), how.arrays(trial), strict=True)))

        return self._by_trials(quantize, how)


class OnnxRuntime(_Onnx):
    """ONNX Runtime, on one provider."""

    def __init__(self, provider: str, _: float) -> None:
        import onnxruntime

        self._provider = _provider(provider, onnxruntime.get_available_providers())
        self.name = f"onnxruntime {version(onnxruntime)}, {self._provider}"

    def _running(self, model: bytes) -> Callable[[Mapping[str, Any]], Any]:
        try:
            session = _session(model, [self._provider])
        except Exception as error:  # of many classes, which the package does not publish
            raise NotTaken(first_line(error)) from error
        (output,) = (value.name for value in session.get_outputs())

        def run(given: Mapping[str, Any]) -> Any:
            # session.run makes NumPy arrays, and has none of bfloat16 and float8_e5m2.
            found = by_onnxruntime(session, given, [output])[output]
            return found.bits.view(BY_NAME[found.dtype].numpy).reshape(found.shape)

        return run

    def run_onnx(
        self, model: bytes, given: Mapping[str, Array], names: Sequence[str]
    ) -> dict[str, Tensor]:
        """The outputs of a session on the provider."""
        with self._failures_of("the model"):
            return by_onnxruntime(_session(model, [self._provider]), given, names)


class OnnxReference(_Onnx):
    """The reference evaluator of the onnx package."""

    def __init__(self, _: str, __: float) -> None:
        self.name = f"onnx {version(onnx)}, reference evaluator"

    def _running(self, model: bytes) -> Callable[[Mapping[str, Any]], Any]:
        evaluator = ReferenceEvaluator(onnx.load_model_from_string(model))
        return lambda given: evaluator.run(None, dict(given))[0]

    def run_onnx(
        self, model: bytes, given: Mapping[str, Array], names: Sequence[str]
    ) -> dict[str, Tensor]:
        """The outputs of the evaluator."""
        with self._failures_of("the model"), np.errstate(all="ignore"):
            evaluator = ReferenceEvaluator(onnx.load_model_from_string(model))
            found = evaluator.run(list(names), dict(given))
        return {
            name: Tensor.of(np.asarray(value)) for name, value in zip(names, found, strict=True)
        }


class OnnxModel(Adapter):
    """A model file with one input and one output, run by ONNX Runtime on the CPU."""

    roundings = ("ties_to_even",)
    concurrent = True
    probed = False

    def __init__(self, path: str, _: float) -> None:
        import onnxruntime

        self.name = f"onnx-model:{path}, by onnxruntime {version(onnxruntime)}"
        if not Path(path).is_file():
            raise CannotVerify(f"there is no file {path}")
        try:
            self._session = _session(path, ["CPUExecutionProvider"])
        except Exception as error:  # of many classes, which the package does not publish
            raise CannotVerify(f"{path} is not a model: {first_line(error)}") from error
        inputs, outputs = self._session.get_inputs(), self._session.get_outputs()
        nodes = shlex.join(["tensor-round", "verify", path, "--input", "x.npz"])
        instead = f"its rounding nodes are verified by {nodes} --runtime onnxruntime"
        if (len(inputs), len(outputs)) != (1, 1):
            raise CannotVerify(
                f"{path} has {len(inputs)} inputs and {len(outputs)} outputs; it must have one "
                f"each; {instead}"
            )
        (self._input,), (output,) = inputs, outputs
        onnx_type = self._input.type.removeprefix("tensor(").removesuffix(")").upper()
        dtype = ONNX_DTYPES.get(onnx_type)
        if dtype is None or output.type != self._input.type:
            raise CannotVerify(
                f"{path} turns {self._input.type} into {output.type}; "
                f"it must keep a type that tensor-round has; {instead}"
            )
        # A size that is not a number is free.
        self._shape = [size if isinstance(size, int) else None for size in self._input.shape]
        if 0 in self._shape:
            raise CannotVerify(f"{path} accepts only empty tensors")
        self.dtypes = (dtype,)
        # Tensors of any length, if a dimension is free.
        self.forms = Form.LENGTH if None in self._shape else Form(0)

    def _rounds(self, dtype: str, rounding: str) -> Callable[[Values], Any]:
        if dtype not in self.dtypes:
            raise NotTaken(f"it supports {self.dtypes[0]} alone")
        return self._run

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
