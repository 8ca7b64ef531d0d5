"""Casts by the NumPy backend beside ml_dtypes, NumPy, torch and ONNX Runtime: no service.

The backend takes part twice, as among the kernels: compiled, and with NumPy alone. Everybody casts
16 MiB of the same operands on one thread, from memory and into memory that was used before.
``copy`` copies half of the bytes that a cast reads and writes: it reads and writes as many.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from importlib.util import find_spec
from typing import Any

import numpy as np
import numpy.typing as npt

from tensor_round.contract.call import Call
from tensor_round.contract.dtypes import BY_NAME, DType
from tensor_round.contract.layout import Layout
from tensor_round.contract.operators.onnx_types import NUMBERS
from tensor_round_service.backends.cpu.backend import NumpyBackend
from tensor_round_service.backends.select import compiled_kernels

from .kernels import COMPILED, MIB, TORCH_ALONE, WITH_NUMPY, Contestant, compete, onnx_node

#: Bytes of operands.
SIZE = 16 * MIB
ASTYPE, COPY, ONNX_RUNTIME = "astype", "copy", "ONNX Runtime"
#: To 8 bits, to 16 bits, and others that are common.
PAIRS = (
    ("float32", "float8_e4m3fn"),
    ("float32", "float8_e5m2"),
    ("float32", "bfloat16"),
    ("float32", "float16"),
    ("bfloat16", "float8_e4m3fn"),
    ("float16", "float32"),
    ("float8_e4m3fn", "float32"),
    ("float64", "float32"),
    ("float32", "int8"),
    ("int32", "float32"),
)

Elements = npt.NDArray[Any]
#: Makes a contestant of operands and memory for results; None where it has no such cast.
Maker = Callable[[Elements, Elements], Callable[[], object] | None]


def rows() -> list[dict[str, Any]]:
    """One row a pair of types, in GB of operands a second."""
    makers = dict(entrants())
    return [row(BY_NAME[source], BY_NAME[target], makers) for source, target in PAIRS]


def row(source: DType, target: DType, makers: dict[str, Maker]) -> dict[str, Any]:
    """The figures of one pair; None for who takes no part."""
    numbers = np.random.default_rng(754).standard_normal(SIZE // source.itemsize, np.float32)
    given = (numbers * 100).astype(source.numpy)
    contestants = []
    for name, make in makers.items():
        operands, results = given.copy(), np.ones(given.size, target.bits).view(target.numpy)
        run = make(operands, results)
        if run is not None:
            contestants.append(Contestant(name, operands, run))
    seconds = compete(contestants, given)
    return {
        "from": source.name,
        "to": target.name,
        "unit": "GB/s",
        **{name: SIZE / seconds[name] / 1e9 if name in seconds else None for name in makers},
    }


def entrants() -> Iterator[tuple[str, Maker]]:
    """Everybody who is installed, the backend first."""
    kernels = compiled_kernels()
    if kernels is not None:
        yield COMPILED, partial(ours, NumpyBackend(1, kernels))
    yield WITH_NUMPY, partial(ours, NumpyBackend(1))
    yield ASTYPE, astype
    for name, module, make in (
        (TORCH_ALONE, "torch", torch),
        (ONNX_RUNTIME, "onnxruntime", onnx_runtime),
    ):
        if find_spec(module):
            yield name, make
    yield COPY, copy


def ours(backend: NumpyBackend, operands: Elements, results: Elements) -> Callable[[], object]:
    source, target = (BY_NAME[elements.dtype.name] for elements in (operands, results))
    call = Call.converting(Layout.of(source, operands.shape), target.name)
    run = partial(backend.round, call, operands.view(np.uint8), results.view(np.uint8))
    run()
    if kernels := compiled_kernels():
        kernels.wait()
    return run


def astype(operands: Elements, results: Elements) -> Callable[[], object]:
    """NumPy's cast, which is ml_dtypes' for types that NumPy lacks."""

    def run() -> None:
        with np.errstate(all="ignore"):
            np.copyto(results, operands, casting="unsafe")

    return run


def copy(operands: Elements, results: Elements) -> Callable[[], object]:
    half = (operands.nbytes + results.nbytes) // 2
    return partial(np.copyto, np.ones(half, np.uint8), np.ones(half, np.uint8))


def torch(operands: Elements, results: Elements) -> Callable[[], object] | None:
    import torch

    source, target = (
        torch.from_numpy(elements.view(np.uint8)).view(getattr(torch, elements.dtype.name))
        for elements in (operands, results)
    )
    return partial(target.copy_, source)


def onnx_runtime(operands: Elements, results: Elements) -> Callable[[], object] | None:
    """None for the types that its CPU has no cast of."""
    try:
        return onnx_node("Cast", operands, results, threads=1, to=NUMBERS[results.dtype.name])
    except Exception:  # of classes that ONNX Runtime does not publish
        return None
