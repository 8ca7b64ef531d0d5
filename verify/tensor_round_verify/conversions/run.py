"""Verifying conversions: the list of them, and the comparison of a runtime's results for each."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Literal

import numpy as np

from tensor_round.contract.progress import ProgressCallback, counted

from ..errors import CannotVerify, NotTaken
from ..reference import FLOATS, ROUNDINGS
from ..runtimes import PythonFunction, open_by
from ..runtimes.function import Function as AnyFunction
from ..runtimes.function import open_function
from ..verifying.results import Lacking, Report, Verdict
from .conversion import Cast, How, Quantization
from .converter import Converter
from .judge import judge
from .libraries import Jax, NumPy, OnnxReference, OnnxRuntime, OpenVINO, Torch
from .own import Command, Function
from .patterns import Operands, cast_operands, trials

ConversionOperator = Literal["cast", "quantize_linear"]

CONVERTERS: dict[str, Callable[[str, float], Converter]] = {
    "onnxruntime": OnnxRuntime,
    "onnx-reference": OnnxReference,
    "openvino": OpenVINO,
    "torch": Torch,
    "jax": Jax,
    "numpy": NumPy,
    "python": lambda text, timeout: Function(open_function(text, timeout)),
    "cmd": Command,
}
#: The types that each operator converts from, and those that it converts to.
SOURCES = {"cast": ("float32", "float64"), "quantize_linear": ("float32", "float16", "bfloat16")}
TARGETS = {
    "cast": ("float16", "bfloat16", "float8_e4m3fn", "float8_e5m2"),
    "quantize_linear": ("int8", "uint8", "int16", "uint16"),
}


def verify_conversions(
    runtime: str | AnyFunction,
    operator: ConversionOperator,
    dtypes: Sequence[str],
    roundings: Sequence[str],
    progress: bool | ProgressCallback,
    timeout: float,
) -> Report:
    """The report on a runtime's conversions; the arguments are those of ``verify``.

    ``dtypes`` names types of operands, types of results, or both. Raises :class:`CannotVerify`.
    """
    converter = _opened(runtime, timeout)
    known = (*SOURCES[operator], *TARGETS[operator])
    sources, targets = (
        set(dtypes) & set(types[operator]) or set(types[operator]) for types in (SOURCES, TARGETS)
    )
    asked = [
        how
        for how in _conversions(operator)
        if how.source in sources and how.target in targets
        if not roundings or how.rounding in roundings
    ]
    if not asked or set(dtypes) - set(known):
        raise CannotVerify(f"{operator} is verified of {', '.join(known)} alone")
    verdicts, lacking = [], []
    with counted(progress, len(asked), "verifying") as done:
        for how in asked:
            try:
                verdicts.append(_verdict(converter, how))
            except NotTaken as error:
                lacking.append(Lacking(how.name, how.rounding, error.reason))
            done(1)
    if not verdicts:
        raise CannotVerify(f"{converter.name}: no verdict on {operator}: {lacking[0].why}")
    return Report(converter.name, tuple(verdicts), tuple(lacking), operator)


def _opened(runtime: str | AnyFunction, timeout: float) -> Converter:
    if isinstance(runtime, str):
        return open_by(CONVERTERS, runtime, timeout)
    return Function(PythonFunction(runtime, timeout))


def _conversions(operator: str) -> Iterator[How]:
    for source in SOURCES[operator]:
        for target in TARGETS[operator]:
            if operator == "quantize_linear":
                yield from (Quantization(source, target, per_axis) for per_axis in (False, True))
                continue
            for saturate in (False, True)[: 1 + (FLOATS[target].width == 8)]:
                yield from (Cast(source, target, rounding, saturate) for rounding in ROUNDINGS)


def _verdict(converter: Converter, how: How) -> Verdict:
    if isinstance(how, Cast):
        cast = converter.cast(how)
        bits = cast_operands(how.source, how.target)
        return judge(how, Operands.of_cast(bits), cast(bits))
    convert = converter.quantize(how)
    tensors = list(trials(how.source, how.target, per_axis=how.per_axis))
    got = np.concatenate([convert(trial) for trial in tensors])
    return judge(how, Operands.joined([trial.operands() for trial in tensors]), got)
