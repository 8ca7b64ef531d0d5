"""``onnxruntime[:PROVIDER]`` and ``onnx-reference``."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx.reference import ReferenceEvaluator

from tensor_round.contract.errors import CannotVerify

from ..conversions.conversion import Cast, Linear
from ..conversions.patterns import Trial
from .forms import Form, Values
from .model_tensors import Array, Tensor, by_onnxruntime, tensor_of
from .onnx_model import DTYPES, OPERATORS, cast_model, is_float8, linear_model, rounding_model
from .runtime import (
    Adapter,
    NotSupported,
    QuantizeBits,
    RoundBits,
    RunsModel,
    RunsOnnx,
    by_rank,
    first_line,
    version,
)

#: The log severity for errors only.
ERRORS_ONLY = 3
#: The attribute of the directions that it names, which it does of one type.
ROUND_MODES = {"ties_to_even": "nearest", "toward_positive": "up", "toward_zero": "down"}


class _Onnx(Adapter, RunsOnnx):
    """Runs models of one node: Round, Ceil, Floor; Cast, QuantizeLinear."""

    dtypes = DTYPES
    operators = OPERATORS
    forms = Form.LENGTH | Form.EMPTY | Form.RANK
    concurrent = True
    mixes_types = True
    linear_operators = ("quantize_linear", "dequantize_linear")

    def _running(self, model: bytes) -> Callable[[Mapping[str, Any]], Array]:
        """A function that runs the model on its named inputs; raises :class:`NotSupported`."""
        try:
            run = self._loaded(model)
        except Exception as error:  # of many classes, which the packages do not publish
            raise NotSupported(first_line(error)) from error
        return lambda given: run(given, ["y"])["y"].array()

    def _of_x(self, model: bytes) -> Callable[[Values], Any]:
        run = self._running(model)
        return lambda x: run({"x": x})

    def _rounds(self, dtype: str, rounding: str) -> Callable[[Values], Any]:
        operator = self._operator(dtype, rounding)
        return by_rank(lambda rank: self._of_x(rounding_model(operator, dtype, rank)))

    def cast(self, how: Cast) -> RoundBits:
        """Cast by a model of Cast-25."""
        modes = ROUND_MODES if how.target == "float8_e8m0fnu" else {how.usual: ""}
        if how.rounding not in modes:
            raise NotSupported(f"ONNX's Cast cannot be asked to round {how.rounding}")
        if how.saturate and not is_float8(how.target):
            raise NotSupported(f"ONNX's Cast to {how.target} cannot be asked to saturate")
        mode = modes[how.rounding]
        return self._casting(by_rank(lambda rank: self._of_x(cast_model(how, rank, mode))), how)

    def _linear(self, how: Linear) -> QuantizeBits:
        """By models of QuantizeLinear-25 or DequantizeLinear-25."""

        @cache
        def running(ranks: tuple[int, int], *options: tuple[str, int]) -> Callable[..., Any]:
            return self._running(linear_model(how, ranks, dict(options)))

        if not (how.per_axis or how.blocked):
            running((1, 0))  # else each trial would be refused, and logged

        def call(trial: Trial) -> Any:
            x, scale, point = how.arrays(trial)
            run = running((x.ndim, scale.ndim), *how.options(trial).items())
            return run({"x": x, "scale": scale, "zero_point": point})

        return self._by_trials(call, how)


class OnnxRuntime(_Onnx):
    """ONNX Runtime, on one provider."""

    strict_options = "graph_optimization_level ORT_DISABLE_ALL"

    def __init__(self, provider: str, _: float) -> None:
        import onnxruntime

        self._provider = _provider(provider, onnxruntime.get_available_providers())
        self.name = f"onnxruntime {version(onnxruntime)}, {self._provider}"

    def _loaded(self, model: bytes | Path, *, strict: bool = False) -> RunsModel:
        """By a session, since session.run has no arrays of bfloat16 and float8_e5m2."""
        return partial(by_onnxruntime, _session(model, [self._provider], strict=strict))


class OnnxReference(_Onnx):
    """The reference evaluator of the onnx package."""

    def __init__(self, _: str, __: float) -> None:
        self.name = f"onnx {version(onnx)}, reference evaluator"

    def _loaded(self, model: bytes | Path, *, strict: bool = False) -> RunsModel:
        """By the evaluator, which has no options."""
        is_path = isinstance(model, Path)
        loaded = onnx.load(model) if is_path else onnx.load_model_from_string(model)
        evaluator = ReferenceEvaluator(loaded)

        def run(given: Mapping[str, Array], names: Sequence[str]) -> dict[str, Tensor]:
            with np.errstate(all="ignore"):
                found = evaluator.run(list(names), dict(given))
            return {name: tensor_of(value) for name, value in zip(names, found, strict=True)}

        return run


def _provider(wanted: str, available: list[str]) -> str:
    wanted = wanted or "CPU"
    for name in available:
        if wanted.lower() in (name.lower(), name.lower().removesuffix("executionprovider")):
            return name
    raise CannotVerify(f"onnxruntime has no provider {wanted} here; it has {', '.join(available)}")


# onnxruntime has no annotations.
def _session(model: bytes | Path, providers: list[str], *, strict: bool = False) -> Any:
    """A session as a user has it, by the defaults of its options, or without optimizations."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.log_severity_level = ERRORS_ONLY
    if strict:
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(model, options, providers=providers)
    session.disable_fallback()
    if session.get_providers()[0] != providers[0]:
        raise CannotVerify(f"{providers[0]} cannot be loaded")
    return session
