"""Quantization by the NumPy backend beside ONNX Runtime: no service, one thread.

As among the casts, the backend takes part compiled and with NumPy alone, and all quantize 16 MiB of
float32 to int8. Scales and zero points are one, or one for each index of an axis.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from importlib.util import find_spec
from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt

from tensor_round.contract.call import Call, Parameters
from tensor_round.contract.dtypes import BY_NAME
from tensor_round.contract.functions import Quantize
from tensor_round.contract.layout import Layout
from tensor_round_service.backends.cpu.backend import NumpyBackend
from tensor_round_service.backends.select import compiled_kernels

from .casts import ONNX_RUNTIME
from .kernels import COMPILED, WITH_NUMPY, Contestant, compete, onnx_node

#: What the parameters are for, with the tensor's shape and the axis that has them.
CASES: dict[str, tuple[tuple[int, ...], int | None]] = {
    "the tensor": ((1024, 4096), None),
    "the last axis": ((1024, 4096), 1),
    "the first axis": ((1024, 4096), 0),
    "channels of an image": ((16, 256, 32, 32), 1),
}
SCALE, POINT = 0.7, 3

Elements = npt.NDArray[Any]


def rows() -> list[dict[str, Any]]:
    """One row a granularity, in GB of operands a second."""
    return [row(what, *case) for what, case in CASES.items()]


def row(what: str, shape: tuple[int, ...], axis: int | None) -> dict[str, Any]:
    """The figures of one granularity."""
    counts = [size if i == axis else 1 for i, size in enumerate(shape)]
    given = np.random.default_rng(754).standard_normal(prod(shape), np.float32) * 30
    scales = np.full(prod(counts), SCALE, np.float32)
    points = np.full(prod(counts), POINT, np.int8)
    payload = np.concatenate([part.view(np.uint8) for part in (given, scales, points)])
    operands = payload[: given.nbytes].view(np.float32)
    results = np.ones(shape, np.int8)
    contestants = [
        Contestant(name, operands, partial(ours, backend, call_of(shape, counts), payload, results))
        for name, backend in entrants()
    ]
    if find_spec("onnxruntime"):
        run = onnx_node(
            "QuantizeLinear",
            operands.reshape(shape),
            results,
            threads=1,
            constants={
                "s": scales if axis is not None else scales[0],
                "z": points if axis is not None else points[0],
            },
            axis=axis or 0,
        )
        contestants.append(Contestant(ONNX_RUNTIME, operands, run))
    seconds = compete(contestants, given)
    rates = {name: given.nbytes / time / 1e9 for name, time in seconds.items()}
    return {"a scale for": what, "unit": "GB/s", **rates}


def entrants() -> Iterator[tuple[str, NumpyBackend]]:
    """Both ways of the backend."""
    kernels = compiled_kernels()
    if kernels is not None:
        single, quantized = BY_NAME["float32"], BY_NAME["int8"]
        kernels.ask(Quantize(), single, single, quantized)
        kernels.wait()
        yield COMPILED, NumpyBackend(1, kernels)
    yield WITH_NUMPY, NumpyBackend(1)


def call_of(shape: tuple[int, ...], counts: list[int]) -> Call:
    single, quantized = BY_NAME["float32"], BY_NAME["int8"]
    given, made = Layout.of(single, shape), Layout.of(quantized, shape)
    parameters = Parameters.of(shape, Layout.of(single, counts), quantized)
    return Call(Quantize(), given, made, given.byte_length, parameters)


def ours(backend: NumpyBackend, call: Call, payload: Elements, results: Elements) -> None:
    backend.round(call, payload, results.reshape(-1).view(np.uint8))
