"""Linear quantization by every backend, held against the reference."""

from __future__ import annotations

import itertools
import tracemalloc
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest

from support.cases.backend_calls import run
from support.cases.linear_calls import (
    Operands,
    check,
    drawn,
    linear_call,
    operands_of,
    payload_of,
    right,
)
from tensor_round.contract.call import Call
from tensor_round.contract.dtypes import BY_NAME
from tensor_round.contract.functions import Dequantize, FakeQuantize, Linear, Quantize
from tensor_round.contract.operators import registry
from tensor_round_service.backends import Backend
from tensor_round_service.backends.cpu.backend import NumpyBackend
from tensor_round_service.backends.cpu.granularity import TILE

OPERANDS = ("float32", "float16", "bfloat16", "int32")
SCALES = (*OPERANDS, "float8_e8m0fnu")
INTEGERS = ("int8", "uint8", "int16", "uint16", "int4", "uint4", "int32", "uint32")
TARGETS = ("float32", "float16", "bfloat16")
DIRECTML = registry.OPERATORS["directml:ELEMENT_WISE_QUANTIZE_LINEAR"]
FLOATS = ("float8_e4m3fn", "float8_e5m2", "float8_e4m3fnuz", "float8_e5m2fnuz", "float4_e2m1fn")


@pytest.mark.parametrize("some", [True, pytest.param(False, marks=pytest.mark.sweep)])
@pytest.mark.parametrize("target", [*INTEGERS, *FLOATS])
@pytest.mark.parametrize("source", OPERANDS)
def test_operands_of_all_types_are_quantized(
    quantizing_backend: Backend, source: str, target: str, some: bool
) -> None:
    """With a scale for each element, so that all kinds of scales meet all kinds of operands.

    Here each target has two scales of each operand in turn: compiled kernels are many.
    """
    turn = (*INTEGERS, *FLOATS).index(target)
    for seed, (scale, has_point) in enumerate(itertools.product(SCALES, (True, False))):
        if some and (seed // 2 + 2 * OPERANDS.index(source) + turn) % len(SCALES) > 1:
            continue
        precision = ("", "float16", "float32")[(seed + turn) % 3]
        function = Quantize(precision=BY_NAME.get(precision), saturates=(seed + turn) % 4 > 0)
        shape = [101 if target in FLOATS else 301]
        call = linear_call(function, (source, scale, target), shape, shape, has_point=has_point)
        check(quantizing_backend, call, operands_of(call, seed))


@pytest.mark.parametrize("some", [True, pytest.param(False, marks=pytest.mark.sweep)])
@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("source", [*INTEGERS, *FLOATS])
def test_codes_of_all_types_are_dequantized(
    quantizing_backend: Backend, source: str, target: str, some: bool
) -> None:
    """The targets of each type of codes share the scales."""
    turn = (*INTEGERS, *FLOATS).index(source)
    scales = [scale for scale in SCALES if scale != "int32"]
    for seed, (scale, has_point) in enumerate(itertools.product(scales, (True, False))):
        if not some or (seed // 2 + turn) % len(scales) % len(TARGETS) == TARGETS.index(target):
            types = (source, scale, target)
            call = linear_call(Dequantize(), types, [999], [999], has_point=has_point)
            check(quantizing_backend, call, operands_of(call, seed))


@pytest.mark.parametrize("target", INTEGERS)
def test_integers_saturate_at_the_ends_of_a_call(backend: Backend, target: str) -> None:
    """As a storage type of StableHLO has them; zero points lie between."""
    limits = (1, 6) if target.startswith("uint") else (-7, 5)
    for seed, has_point in enumerate((True, False)):
        function = Quantize(limits=limits)
        types = ("float32", "float32", target)
        call = linear_call(function, types, [700], [700], has_point=has_point)
        operands = operands_of(call, seed)
        if operands.zero_point is not None:
            operands = replace(operands, zero_point=operands.zero_point % 5 + 1)
        elif limits[0] > 0:
            continue  # 0 is no code
        check(backend, call, operands)


@pytest.mark.parametrize("through", ["int8", "uint16", "int4", "int32", "float8_e4m3fn"])
@pytest.mark.parametrize("source", ["float32", "bfloat16"])
def test_fake_quantization_is_both_ways(
    quantizing_backend: Backend, source: str, through: str
) -> None:
    for seed, (target, has_point) in enumerate(
        itertools.product(("float32", "float16"), (True, False))
    ):
        function = FakeQuantize(through=BY_NAME[through])
        types = (source, "float32", target)
        call = linear_call(function, types, [700], [700], has_point=has_point)
        check(quantizing_backend, call, operands_of(call, seed))


# the shape, the scale's, the blocks if they are not even
GRANULARITIES: dict[str, tuple[Sequence[int], Sequence[int], Sequence[int] | None]] = {
    "scalar": ([], [], None),
    "empty": ([3, 0], [3, 1], None),
    "per tensor": ([3, 5], [1, 1], None),
    "per tensor, several tiles": ([3, TILE], [1, 1], None),
    "the last axis": ([7, 5], [1, 5], None),
    "the last axis, an odd one of several tiles": ([TILE // 3, 7], [1, 7], None),
    "the first axis": ([5, 7], [5, 1], None),
    "the first axis, long": ([3, TILE + 77], [3, 1], None),
    "an axis within": ([3, 5, 7], [1, 5, 1], None),
    "an axis within, long": ([2, 3, 9000], [1, 3, 1], None),
    "two axes apart": ([3, 5, 7], [3, 1, 7], None),
    "blocks of the last axis": ([6, 64], [6, 2], None),
    "blocks that do not divide": ([6, 65], [6, 3], [1, 32]),
    "blocks of the first axis": ([64, 6], [2, 6], None),
    "blocks of the first axis that do not divide": ([65, 6], [3, 6], [32, 1]),
    "blocks of two axes": ([6, 4, 5], [2, 2, 1], None),
    "blocks of two axes, several tiles": ([300, 333], [50, 111], None),
    "long blocks that do not divide": ([30_993], [7], [4999]),
    "an element": ([4, 6], [4, 6], None),
    "axes of one": ([1, 6, 1], [1, 6, 1], None),
}


@pytest.mark.parametrize(("shape", "counts", "blocks"), GRANULARITIES.values(), ids=GRANULARITIES)
def test_each_element_has_the_parameters_of_its_block(
    backend: Backend, shape: Sequence[int], counts: Sequence[int], blocks: Sequence[int] | None
) -> None:
    functions: tuple[tuple[Linear, tuple[str, str, str]], ...] = (
        (Quantize(), ("float32", "float32", "int8")),
        (Quantize(), ("float32", "float32", "uint4")),
        (Dequantize(), ("int4", "float16", "float16")),
        (Dequantize(), ("uint8", "float32", "float32")),
    )
    # One that quantizes and one that does not, in turn.
    turn = [*GRANULARITIES.values()].index((shape, counts, blocks)) % 2
    for seed, (function, types) in enumerate(functions[turn::2]):
        call = linear_call(function, types, shape, counts, blocks=blocks)
        check(backend, call, operands_of(call, seed))


def test_threads_share_a_large_tensor(threaded_backend: Backend) -> None:
    rows = 175_001
    for counts, target in (([1, 3], "int4"), ([rows, 1], "int8"), ([1, 1], "float8_e5m2")):
        types = ("float32", "float32", target)
        has_point = target != "float8_e5m2"
        call = linear_call(Quantize(), types, [rows, 3], counts, has_point=has_point)
        check(threaded_backend, call, operands_of(call, 9))


@pytest.mark.parametrize(
    "strides", [([7, 1], None), (None, [7, 1]), ([1, 3], [1, 3]), ([0, 1], None)]
)
def test_parameters_go_by_indices_and_not_by_places(
    backend: Backend, strides: tuple[Sequence[int] | None, Sequence[int] | None]
) -> None:
    shape = [3, 5]
    types = ("float32", "float32", "int8")
    call = linear_call(Quantize(), types, shape, [3, 1], strides=strides)
    packed = linear_call(Quantize(), types, shape, [3, 1])
    whole = operands_of(packed, 4)
    lying = np.zeros(call.input.byte_length // 4, np.uint32)
    for index in np.ndindex(3, 5):
        at = sum(i * step for i, step in zip(index, call.input.strides, strict=True))
        lying[at] = whole.x[index]
    if 0 in call.input.strides:
        whole = Operands(np.broadcast_to(lying, (3, 5)).copy(), whole.scale, whole.zero_point)
    made = run(backend, call, payload_of(call, Operands(lying, whole.scale, whole.zero_point)))
    want, memory = right(packed, whole).reshape(shape), np.frombuffer(made, np.uint8)
    found = np.zeros(call.output.byte_length, np.uint8)
    for index in np.ndindex(3, 5):
        at = sum(i * step for i, step in zip(index, call.output.strides, strict=True))
        found[at] = want[index]
    assert memory.tolist() == found.tolist()


def test_every_operand_of_16_bits_is_quantized_next_to_ties(quantizing_backend: Backend) -> None:
    """Where a quotient that is rounded twice, or not to the type of the scale, would show."""
    for source, target in itertools.product(("float16", "bfloat16"), ("int8", "uint16")):
        scales = drawn(source, [4, 1], 5)
        x = np.broadcast_to(np.arange(1 << 16, dtype=np.uint16), (4, 1 << 16)).copy()
        call = linear_call(Quantize(), (source, source, target), x.shape, [4, 1], has_point=False)
        check(quantizing_backend, call, Operands(x, scales, None))


def test_every_code_of_16_bits_is_dequantized(quantizing_backend: Backend) -> None:
    """Where a product that is rounded twice would show."""
    for source, scale, target in (
        ("int16", "float32", "float16"),
        ("uint16", "float32", "bfloat16"),
        ("uint16", "float16", "float16"),
        ("int16", "bfloat16", "float32"),
    ):
        x = np.arange(1 << 16, dtype=np.uint16).reshape(1, -1)
        call = linear_call(Dequantize(), (source, scale, target), x.shape, [1, 1])
        tenth = np.array([[0.1]]).astype(BY_NAME[scale].numpy).view(BY_NAME[scale].bits)
        check(quantizing_backend, call, Operands(x, tenth, drawn(source, [1, 1], 4)))


@pytest.mark.parametrize("source", ["int32", "float8_e4m3fn", "float8_e5m2"])
def test_products_with_zero_have_the_sign_of_both(quantizing_backend: Backend, source: str) -> None:
    """The parts of a product that no wide type has may have opposite signs."""
    x, point = drawn(source, [1, 256], 5), drawn(source, [1, 256], 6)
    for scale in (0, 0x80000000):
        call = linear_call(Dequantize(), (source, "float32", "float16"), x.shape, x.shape)
        scales = np.full(x.shape, scale, np.uint32)
        check(quantizing_backend, call, Operands(x, scales, point))


def test_parameters_take_no_memory_beside_the_payload() -> None:
    """A scale and a zero point for each element: in wider types they took 5 times as much."""
    shape = (1 << 10, 1 << 11)
    call = linear_call(Dequantize(), ("int8", "float16", "float16"), shape, shape)
    assert peak_of(call) < call.payload_bytes // 2


def test_parameters_that_are_repeated_are_copied_within_the_budget() -> None:
    """DirectML's strides of 0 repeat a scale beside zero points that are not repeated."""
    sizes = [1 << 10, 1 << 11]
    tensors = {
        "InputTensor": {"DataType": "FLOAT32", "Sizes": sizes},
        "ScaleTensor": {"DataType": "FLOAT32", "Sizes": sizes, "Strides": [0, 1]},
        "ZeroPointTensor": {"DataType": "INT8", "Sizes": sizes},
        "OutputTensor": {"DataType": "INT8", "Sizes": sizes},
    }
    document = {**DIRECTML.descriptor.example, "desc": tensors}
    call = DIRECTML.descriptor.read(document).resolve()
    copied = call.nbytes - call.payload_bytes
    assert copied == 4 << 21
    assert copied < peak_of(call) < copied + call.payload_bytes // 2


def peak_of(call: Call) -> int:
    """The most memory that NumPy takes to compute a call, beside its operands and results."""
    payload = np.zeros(call.payload_bytes, np.uint8)
    results = np.empty(call.output.byte_length, np.uint8)
    tracemalloc.start()
    try:
        NumpyBackend(1).round(call, payload, results)
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
