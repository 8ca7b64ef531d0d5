"""Conversions on CPUs, by NumPy and compiled: between all types, against exact fractions."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from importlib.util import find_spec

import numpy as np
import pytest

from support.cases.exact_conversions import (
    Patterns,
    converted,
    hard_operands,
    off_the_wire,
    on_the_wire,
    value,
)
from tensor_round.contract.call import Call
from tensor_round.contract.dtypes import DTYPES, DType
from tensor_round.contract.functions import Convert, Function, ReducePrecision
from tensor_round.contract.layout import Layout, packed_strides, span
from tensor_round.contract.rounding import Rounding
from tensor_round_service.backends import Bytes
from tensor_round_service.backends.cpu.backend import NumpyBackend
from tensor_round_service.backends.cpu.conversion_rule import results
from tensor_round_service.backends.cpu.conversions import BLOCK
from tensor_round_service.backends.cpu.loops import Loop, loop
from tensor_round_service.backends.proof import patterns

TYPES = {d.name: d for d in DTYPES}
FUNCTIONS = [Convert(r, saturates) for r in Rounding for saturates in (False, True)]
NARROW = [d for d in DTYPES if d.width <= 16]
#: Types whose patterns are few enough for fractions: each of 16 bits takes minutes to a target.
BYTES = [d for d in NARROW if d.width <= 8]
WIDE = [d for d in DTYPES if d.width > 16]
WIDE_FLOATS = [d for d in WIDE if d.is_float]
#: Each pair of types with one function, each function with every tenth pair.
CASES = [
    (source, target, FUNCTIONS[number % len(FUNCTIONS)])
    for number, (source, target) in enumerate(itertools.permutations(DTYPES, 2))
]
EVERY_CASE = [
    (source, target, function)
    for source, target in itertools.permutations(DTYPES, 2)
    for function in FUNCTIONS
]

Case = tuple[DType, DType, Convert]
Runner = Callable[[Function, DType, DType, Patterns], Patterns]


def by_numpy(function: Function, source: DType, target: DType, patterns: Patterns) -> Patterns:
    """The results of NumPy's loop, in a caller's strictest error state."""
    memory = np.full(target.nbytes(patterns.size), 0xAA, np.uint8)
    with np.errstate(all="raise"):
        run = loop(function, source, target).run
        run(on_the_wire(source, patterns), memory, patterns.size)
    return off_the_wire(target, memory, patterns.size)


def compiled_loop(function: Function, source: DType, target: DType) -> Loop:
    """The compiled kernel; NumPy's loop where there is none."""
    from tensor_round_service.backends.cpu.llvm import compiled_conversion
    from tensor_round_service.backends.cpu.llvm_conversions import is_supported

    make = compiled_conversion if is_supported(function, source, target) else loop
    return make(function, source, target)


def by_llvm(function: Function, source: DType, target: DType, patterns: Patterns) -> Patterns:
    """The results of the compiled kernel."""
    memory = np.full(target.nbytes(patterns.size), 0xAA, np.uint8)
    run = compiled_loop(function, source, target).run
    run(on_the_wire(source, patterns), memory, patterns.size)
    return off_the_wire(target, memory, patterns.size)


needs_llvm = pytest.mark.skipif(not find_spec("llvmlite"), reason="llvmlite is not installed")
WAYS = [
    pytest.param(by_numpy, id="numpy"),
    pytest.param(by_llvm, id="compiled", marks=needs_llvm),
]


def faults(run: Runner, function: Convert, source: DType, target: DType, count: int) -> list[str]:
    """What differs from the exact results."""
    operands = hard_operands(source, target, count)
    found = run(function, source, target, operands)
    return [
        f"{function} {source.name} {operand:#x} to {target.name}: {result:#x}"
        for operand, result in zip(operands.tolist(), found.tolist(), strict=True)
        if converted(function, source, target, operand) not in (result, value(target, result))
    ]


@pytest.mark.parametrize("number", range(10))
def test_hard_operands_of_every_pair_give_the_exact_results(number: int) -> None:
    for source, target, function in CASES[number::10]:
        assert faults(by_numpy, function, source, target, 2) == []


@needs_llvm
def test_hard_operands_give_the_exact_results_compiled() -> None:
    """A few pairs with each function."""
    for source, target, function in CASES[::17]:
        assert faults(by_llvm, function, source, target, 2) == []


@pytest.mark.sweep
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("source", DTYPES, ids=lambda dtype: dtype.name)
def test_hard_operands_give_the_exact_results_in_every_direction(
    way: Runner, source: DType
) -> None:
    for start, target, function in EVERY_CASE:
        if start is source:
            assert faults(way, function, source, target, 12) == []


@pytest.mark.sweep
@pytest.mark.parametrize("target", DTYPES, ids=lambda dtype: dtype.name)
@pytest.mark.parametrize("source", BYTES, ids=lambda dtype: dtype.name)
def test_every_pattern_of_up_to_8_bits_gives_the_exact_result(source: DType, target: DType) -> None:
    """Exact results rise with the operands: where they are equal at two operands, then between.

    So those before and after each change of the result are tried. A result that has the operand's
    value and sign needs no trial.
    """
    if source is target:
        return
    numbers = [value(source, pattern) for pattern in range(1 << source.width)]
    order = sorted(
        (pattern for pattern, (_, number) in enumerate(numbers) if number not in ("inf", "nan")),
        key=lambda pattern: (numbers[pattern][1], not numbers[pattern][0]),
    )
    others = sorted(set(range(1 << source.width)).difference(order))
    patterns = np.array(order + others, source.bits)
    for function in FUNCTIONS:
        found = by_numpy(function, source, target, patterns)
        changes = np.flatnonzero(found[1:] != found[:-1])
        tried = {0, *changes.tolist(), *(changes + 1).tolist(), *range(len(order) - 1, len(found))}
        wrong = [
            f"{function} {patterns[at]:#x}: {found[at]:#x}"
            for at in sorted(tried.difference(unchanged(source, target, patterns, found)))
            if converted(function, source, target, int(patterns[at]))
            not in (int(found[at]), value(target, int(found[at])))
        ]
        assert wrong == []


def unchanged(source: DType, target: DType, operands: Patterns, found: Patterns) -> list[int]:
    """The places of results with the operand's value and sign, by NumPy's and ml_dtypes' casts."""
    if source.is_sub_byte or target.is_sub_byte:
        return []
    with np.errstate(invalid="ignore"):
        given = operands.view(source.numpy).astype(np.float64)
        made = found.view(target.numpy).astype(np.float64)
    same = np.isfinite(given) & (given == made) & (np.signbit(given) == np.signbit(made))
    return np.flatnonzero(same).tolist()


@pytest.mark.parametrize(
    "cases",
    [
        pytest.param(CASES, id="one direction each"),
        pytest.param(EVERY_CASE, id="every direction", marks=pytest.mark.sweep),
    ],
)
@pytest.mark.parametrize("source", WIDE, ids=lambda dtype: dtype.name)
def test_fast_ways_give_the_results_of_the_rule(source: DType, cases: list[Case]) -> None:
    """On combinations of all upper halves with lower ones, and small and random patterns."""
    random = np.random.default_rng(754)
    small = np.arange(-(1 << 14), 1 << 14).astype(source.bits)
    any_size = random.integers(0, 1 << 63, 1 << 16, dtype=np.uint64)
    any_size >>= random.integers(0, 63, any_size.size, dtype=np.uint64)
    ends = any_size.astype(source.bits)
    operands = np.concatenate([patterns(source).view(source.bits), small, ends, -ends])
    for start, target, function in cases:
        if start is source:
            found = by_numpy(function, source, target, operands)
            right = results(function, source, target, operands)
            assert np.array_equal(found, right), (function, target)


def test_reduced_precision_of_the_specification() -> None:
    """StableHLO's numbers, and those at the ends of other types."""
    cases = [
        ("float64", 5, 10, 65519.0, 65504.0),
        ("float64", 5, 10, 65520.0, np.inf),
        ("float64", 5, 10, -65520.0, -np.inf),
        ("float64", 5, 10, 2.0**-14, 2.0**-14),
        ("float64", 5, 10, -(2.0**-15), -0.0),
        ("float64", 11, 10, 2.0**-1030 * 1.0001, 2.0**-1030),
        ("float32", 8, 7, 1.00390625, 1.0),
        ("float32", 4, 23, 255.5, 255.5),
        ("float32", 4, 23, 256.0, np.inf),
        ("float16", 5, 1, 1.75, 2.0),
        ("bfloat16", 3, 7, 16.0, np.inf),
        ("bfloat16", 3, 7, 0.125, 0.0),
        ("float8_e5m2", 3, 2, 14.0, 14.0),
        ("float8_e4m3fn", 4, 1, 448.0, np.nan),
        ("float8_e4m3fnuz", 4, 1, -(2.0**-10), 0.0),
    ]
    for name, exponent_bits, mantissa_bits, operand, expected in cases:
        dtype = TYPES[name]
        function = ReducePrecision(Rounding.TIES_TO_EVEN, exponent_bits, mantissa_bits)
        given = np.array([operand]).astype(dtype.numpy).view(dtype.bits)
        right = np.array([expected]).astype(dtype.numpy).view(dtype.bits)
        assert by_numpy(function, dtype, dtype, given) == right, (name, operand)


@pytest.mark.parametrize("dtype", WIDE_FLOATS, ids=lambda dtype: dtype.name)
def test_reduced_precision_by_fast_ways_is_that_of_the_rule(dtype: DType) -> None:
    operands = patterns(dtype).view(dtype.bits)[::5]
    for bits, rounding in itertools.product([(5, 10), (4, 3), (8, 0), (1, 60), (11, 7)], Rounding):
        function = ReducePrecision(rounding, *bits)
        if not function.is_copy(dtype, dtype):
            found = by_numpy(function, dtype, dtype, operands)
            assert np.array_equal(found, results(function, dtype, dtype, operands)), function


def layout(dtype: DType, shape: Sequence[int], strides: Sequence[int] | None) -> Layout:
    """A layout of any type, whose elements are packed without strides."""
    steps = packed_strides(shape) if strides is None or dtype.is_sub_byte else tuple(strides)
    return Layout(dtype, tuple(shape), steps, dtype.nbytes(span(shape, steps)))


def answer(backend: NumpyBackend, call: Call, source: Bytes, *, in_place: bool) -> Bytes:
    """The bytes of a call's output, from stale memory."""
    given = source.copy()
    target = given if given.size == call.output.byte_length else given[: call.output.byte_length]
    if not in_place:
        target = np.full(call.output.byte_length, 0xAA, np.uint8)
    backend.round(call, given, target)
    return target


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize(
    ("source", "target"),
    [
        ("float32", "float8_e4m3fn"),
        ("float32", "bfloat16"),
        ("float32", "int32"),
        ("float32", "uint4"),
        ("float32", "float64"),
        ("float64", "float16"),
        ("float16", "float8_e5m2"),
        ("float16", "float4_e2m1fn"),
        ("float8_e5m2", "float8_e4m3fnuz"),
        ("float8_e5m2", "int4"),
        ("float4_e2m1fn", "int4"),
        ("uint4", "float8_e4m3fn"),
        ("int4", "int64"),
        ("int64", "int16"),
    ],
)
def test_any_count_is_converted_in_place_and_apart_by_all_threads(
    source: str, target: str, threads: int
) -> None:
    """Odd counts of 4 bits leave zeros in the last byte; so do the ends of blocks and threads."""
    row, to = TYPES[source], TYPES[target]
    function = Convert.between(row, to)
    backend = NumpyBackend(threads)
    split = loop(function, row, to).split_bytes * 8 // row.width
    random = np.random.default_rng(754)
    for count in (0, 1, 2, 3, BLOCK - 1, BLOCK + 1, split + BLOCK + 1):
        operands = off_the_wire(row, random.integers(0, 256, row.nbytes(count), np.uint8), count)
        expected = on_the_wire(to, results(function, row, to, operands))
        call = Call(
            function, layout(row, [count], None), layout(to, [count], None), row.nbytes(count)
        )
        for in_place in {False, call.is_in_place}:
            found = answer(backend, call, on_the_wire(row, operands), in_place=in_place)
            assert found.tobytes() == expected.tobytes(), (count, in_place)
    backend.close()


@pytest.mark.parametrize(
    ("shape", "strides_in", "strides_out"),
    [
        ((), None, None),
        ((3, 0), None, None),
        ((7, 5, 3), (1, 7, 35), None),
        ((7, 5, 3), None, (20, 4, 1)),
        ((7, 5, 3), (0, 1, 5), (15, 3, 1)),
        ((7, 5, 3), (1, 7, 35), (1, 7, 35)),
        ((37501, 7), (1, 37501), None),
    ],
)
def test_strided_elements_are_converted_into_their_places(
    shape: tuple[int, ...], strides_in: Sequence[int] | None, strides_out: Sequence[int] | None
) -> None:
    backend = NumpyBackend(threads=1)
    random = np.random.default_rng(754)
    pairs = [
        ("float32", "float8_e4m3fn"),
        ("int4", "float32"),
        ("bfloat16", "uint4"),
        ("int8", "int64"),
    ]
    for source, target in pairs:
        row, to = TYPES[source], TYPES[target]
        given, wanted = layout(row, shape, strides_in), layout(to, shape, strides_out)
        function = Convert.between(row, to)
        memory = random.integers(0, 256, given.byte_length, np.uint8)
        expected = np.zeros(span(shape, wanted.strides), to.bits)
        elements = off_the_wire(row, memory, span(shape, given.strides))[places(given)]
        expected[places(wanted)] = results(function, row, to, elements)
        found = answer(backend, Call(function, given, wanted, memory.size), memory, in_place=False)
        assert found.tobytes() == on_the_wire(to, expected).tobytes(), (source, target)
    backend.close()


def places(layout: Layout) -> Patterns:
    """The places of a layout's elements, in C order."""
    found = np.zeros(layout.shape, np.int64)
    for axis, stride in enumerate(layout.strides):
        along = [-1 if at == axis else 1 for at in range(found.ndim)]
        found += stride * np.arange(layout.shape[axis]).reshape(along)
    return found.reshape(-1)


@pytest.mark.parametrize("compiles", [False, pytest.param(True, marks=needs_llvm)])
def test_an_odd_count_of_4_bits_leaves_zeros_in_the_last_byte(compiles: bool) -> None:
    """Even if a pattern of zeros stands for a number, or the operands' last byte has more bits."""
    function = Convert(Rounding.TOWARD_POSITIVE)
    for name, given, expected in (
        ("float8_e8m0fnu", [127, 127, 127], [0x22, 0x02]),
        ("int4", [0x11, 0xF1], [0x22, 0x02]),
    ):
        types = TYPES[name], TYPES["float4_e2m1fn"]
        run = (compiled_loop if compiles else loop)(function, *types).run
        memory = np.full(2, 0xAA, np.uint8)
        run(np.array(given, np.uint8), memory, 3)
        assert memory.tolist() == expected, name
