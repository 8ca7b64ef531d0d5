"""The reference of linear quantization, held against Python's exact fractions."""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from functools import cache
from itertools import product
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from support.cases.every import every, grouped
from support.cases.references import faked, quantized
from tensor_round_verify.conversions.linear import dequantized, expanded
from tensor_round_verify.reference import (
    FLOAT_FORMATS,
    INTEGER_WIDTHS,
    Bits,
    all_patterns,
    bits_type,
    width,
)

#: Bits of the significand, the exponent of the least number, and the largest number.
FLOATS: dict[str, tuple[int, int, float]] = {
    "float16": (11, -24, 65504.0),
    "bfloat16": (8, -133, float(ml_dtypes.finfo(ml_dtypes.bfloat16).max)),
    "float32": (24, -149, float(np.finfo(np.float32).max)),
    "float8_e4m3fn": (4, -9, 448.0),
    "float8_e5m2": (3, -16, 57344.0),
    "float8_e4m3fnuz": (4, -10, 240.0),
    "float8_e5m2fnuz": (3, -17, 57344.0),
    "float4_e2m1fn": (2, -1, 6.0),
}
SCALES = ("float32", "float16", "bfloat16", "int32", "float8_e8m0fnu")
OPERANDS = ("float32", "float16", "bfloat16", "int32")
INTEGERS = ("int8", "uint8", "int16", "uint16", "int4", "uint4", "int32", "uint32")
CODES = (*INTEGERS, "float8_e4m3fn", "float8_e5m2", "float8_e4m3fnuz", "float8_e5m2fnuz")
CODES = (*CODES, "float4_e2m1fn")
PRECISIONS = ("", "float32", "float16", "bfloat16")
TARGETS = PRECISIONS[1:]


def numpy_type(dtype: str) -> Any:
    return np.dtype(getattr(ml_dtypes, dtype, None) or dtype)


def values(bits: Bits, dtype: str) -> list[float]:
    """As floats of Python: they have every number of these types."""
    return [float(x) for x in bits.view(numpy_type(dtype))]


def parts(x: float) -> tuple[bool, Fraction | None]:
    """The sign, and the magnitude; None for an infinity."""
    negative = math.copysign(1, x) < 0
    return negative, None if math.isinf(x) else Fraction(abs(x))


def nearest(x: Fraction, unit: Fraction) -> Fraction:
    return round(x / unit) * unit  # Python rounds ties to even


def rounded(x: Fraction, dtype: str) -> Fraction | None:
    """The nearest number of a type; None beyond its largest."""
    digits, least, largest = FLOATS[dtype]
    if x == 0:
        return x
    top = x.numerator.bit_length() - x.denominator.bit_length()
    top -= Fraction(2) ** top > x
    found = nearest(x, Fraction(2) ** max(top - digits + 1, least))
    return None if found > Fraction(largest) else found


def quotient(x: float, scale: float, dtype: str) -> float | tuple[bool, Fraction]:
    """NaN, an infinity, or a sign and a magnitude; rounded to a type if there is one."""
    if math.isnan(x) or math.isnan(scale):
        return math.nan
    (negative, a), (other, b) = parts(x), parts(scale)
    negative ^= other
    if (a is None and b is None) or (a == 0 and b == 0):
        return math.nan
    if a is None or b == 0:
        return -math.inf if negative else math.inf
    exact = Fraction(0) if b is None else a / b
    found = rounded(exact, dtype) if dtype else exact
    if found is None:
        return -math.inf if negative else math.inf
    return negative, found


@cache
def pattern_of(dtype: str) -> dict[tuple[bool, float], int]:
    """The pattern of each number of a type of at most 16 bits, by sign and magnitude."""
    bits = all_patterns(dtype)
    return {
        (math.copysign(1, x) < 0, abs(x)): int(pattern)
        for pattern, x in zip(bits, values(bits, dtype), strict=True)
    }


def written(negative: bool, magnitude: Fraction | None, dtype: str, saturate: bool) -> int:
    """The pattern of a number, or of an infinity, in a float type; each rounded once."""
    fmt = FLOAT_FORMATS[dtype]
    found = None if magnitude is None else rounded(magnitude, dtype)
    if found is None:
        beyond = math.inf if fmt.has_infinity and not saturate else FLOATS[dtype][2]
        if not (fmt.has_infinity or saturate) and fmt.nan is not None:
            return fmt.nan | (0 if fmt.nans == "-0.0" else negative * fmt.sign_bit)
        value = beyond
    else:
        value = float(found)
    if dtype == "float32":
        signed = math.copysign(value, -1 if negative else 1)
        return int(np.float32(signed).view(np.uint32))
    known = pattern_of(dtype)
    return known.get((negative, value), known.get((False, value), -1))


def nan_of(dtype: str) -> int:
    fmt = FLOAT_FORMATS[dtype]
    return fmt.largest if fmt.nan is None else fmt.nan


def right_code(
    x: float, scale: float, point: float | None, dtype: str, target: str, saturate: bool
) -> int:
    found = quotient(x, scale, dtype)
    if target in INTEGER_WIDTHS:
        size = INTEGER_WIDTHS[target]
        least, most = (0, 2**size - 1) if target[0] == "u" else (-(2**size) // 2, 2**size // 2 - 1)
        if isinstance(found, float):
            integer = 0 if math.isnan(found) else 2**60 if found > 0 else -(2**60)
        else:
            integer = -round(found[1]) if found[0] else round(found[1])
        return min(max(integer + int(point or 0), least), most) % 2**size
    if (isinstance(found, float) and math.isnan(found)) or (point and math.isnan(point)):
        return nan_of(target)
    infinite = found if isinstance(found, float) else 0.0
    if point:
        if math.isinf(point) and math.isinf(infinite) and point != infinite:
            return nan_of(target)
        infinite = infinite or (point if math.isinf(point) else 0.0)
        if not infinite and isinstance(found, tuple):
            total = (-found[1] if found[0] else found[1]) + Fraction(point)
            found = total < 0, abs(total)
    if infinite:
        return written(infinite < 0, None, target, saturate)
    assert isinstance(found, tuple)
    return written(*found, target, saturate)


def right_number(x: float, scale: float, point: float | None, target: str) -> int:
    if math.isnan(x) or math.isnan(scale) or (point is not None and math.isnan(point)):
        return nan_of(target)
    if point is None:
        negative, difference = parts(x)
    elif math.isinf(x) or math.isinf(point):
        negative, difference = parts(x - point)
        if math.isnan(x - point):
            return nan_of(target)
    else:
        exact = Fraction(x) - Fraction(point)
        is_minus_zero = math.copysign(1, x) < 0 < math.copysign(1, point)
        negative, difference = exact < 0 or (exact == x == 0 and is_minus_zero), abs(exact)
    other, by = parts(scale)
    negative ^= other
    if (difference is None and by == 0) or (difference == 0 and by is None):
        return nan_of(target)
    product = None if difference is None or by is None else difference * by
    return written(negative, product, target, False)


def some(dtype: str, count: int, seed: int = 47) -> Bits:
    """Drawn patterns, half of them of numbers near 1 if the type has many, and edges."""
    rng = np.random.default_rng(seed)
    drawn = rng.integers(0, 1 << width(dtype), count, np.uint64)
    if dtype in INTEGER_WIDTHS and width(dtype) == 32:
        small = rng.integers(-300, 300, count) % 2**32
        drawn = np.where(rng.random(count) < 0.5, drawn, small.astype(np.uint64))
    elif width(dtype) > 8 and dtype in FLOAT_FORMATS:
        near = (rng.standard_normal(count) * 16.0 ** rng.integers(-2, 3, count)).astype(np.float32)
        bits = near.astype(numpy_type(dtype)).view(bits_type(dtype)).astype(np.uint64)
        drawn = np.where(rng.random(count) < 0.7, bits, drawn)
    found = drawn.astype(bits_type(dtype))
    sign = 1 << (width(dtype) - 1)
    found[:6] = [0, sign, 1, sign - 1, sign | 1, 2 * sign - 1]
    if dtype in FLOAT_FORMATS and dtype != "float8_e8m0fnu":
        found[6:9] = [FLOAT_FORMATS[dtype].infinity, FLOAT_FORMATS[dtype].largest, sign - 1]
    return rng.permutation(found)


def check_quantized(
    bits: Bits, scales: Bits, points: Bits | None, types: tuple[str, str, str], precision: str
) -> None:
    source, scale, target = types
    dtype = precision or ("" if scale in ("int32", "float8_e8m0fnu") else scale)
    zeros: Sequence[float | None] = [None] * bits.size
    if points is not None:
        zeros = values(points, target)
    for saturate in (True, False) if target in FLOAT_FORMATS else (True,):
        got = quantized(bits, scales, points, types, precision=precision, saturate=saturate)
        want = [
            right_code(x, by, zero, dtype, target, saturate)
            for x, by, zero in zip(values(bits, source), values(scales, scale), zeros, strict=True)
        ]
        compare(got, want, (bits, scales, points))


def check_dequantized(
    bits: Bits, scales: Bits, points: Bits | None, types: tuple[str, str, str]
) -> None:
    source, scale, target = types
    zeros: Sequence[float | None] = [None] * bits.size
    if points is not None:
        zeros = values(points, source)
    want = [
        right_number(x, by, zero, target)
        for x, by, zero in zip(values(bits, source), values(scales, scale), zeros, strict=True)
    ]
    compare(dequantized(bits, scales, points, types), want, (bits, scales, points))


def compare(got: Bits, want: list[int], operands: tuple[Bits | None, ...]) -> None:
    wrong = np.flatnonzero(got != np.array(want, got.dtype))
    told = [
        [hex(x[i]) if x is not None else "none" for x in (*operands, got)] + [hex(want[i])]
        for i in wrong[:3]
    ]
    assert not wrong.size, (wrong.size, told)


@pytest.mark.parametrize("turns", [1, pytest.param(len(PRECISIONS), marks=pytest.mark.sweep)])
@pytest.mark.parametrize("source", OPERANDS)
def test_drawn_operands_are_quantized_as_fractions_say(source: str, turns: int) -> None:
    """The types take the precisions in turn, with and without zero points others."""

    def check(scale: str, target: str) -> None:
        first = OPERANDS.index(source) + SCALES.index(scale) + CODES.index(target)
        for turn in range(first, first + turns):
            for seed, has_point in ((turn, True), (turn + 1, False)):
                bits, scales = some(source, 40, seed), some(scale, 40, seed + 10)
                points = some(target, 40, seed + 20) if has_point else None
                precision = PRECISIONS[seed % len(PRECISIONS)]
                check_quantized(bits, scales, points, (source, scale, target), precision)

    every(check, SCALES, CODES)


@pytest.mark.parametrize("source", ["float16", "bfloat16"])
def test_quotients_next_to_ties_are_rounded_in_the_type_of_the_scale(source: str) -> None:
    """A quotient of 100.4999 is 100.5 in float16, and then 100: rounded directly it is, too.

    But 101.4999 is 102, and not 101.
    """
    rng = np.random.default_rng(47)
    whole = rng.integers(-300, 300, 400)
    scales = (rng.random(400) * 4 + 0.01).astype(numpy_type(source))
    bits = ((whole + 0.5) * scales.astype(np.float64)).astype(numpy_type(source))
    patterns = bits.view(bits_type(source)) + rng.integers(0, 2, 400).astype(np.uint16)
    check_quantized(patterns, scales.view(bits_type(source)), None, (source, source, "int16"), "")


@grouped({source: [*product([source], (*TARGETS, "float8_e8m0fnu"), TARGETS)] for source in CODES})
def test_drawn_codes_are_dequantized_as_fractions_say(source: str, scale: str, target: str) -> None:
    bits, scales, points = some(source, 100, 1), some(scale, 100, 2), some(source, 100, 3)
    for zeros in (points, None):
        check_dequantized(bits, scales, zeros, (source, scale, target))


def test_a_block_has_one_scale_in_each_dimension() -> None:
    scales = np.arange(6, dtype=np.uint8).reshape(2, 3)
    found = expanded(scales, (3, 5), (2, 2))
    assert found.tolist() == [[0, 0, 1, 1, 2], [0, 0, 1, 1, 2], [3, 3, 4, 4, 5]]


def test_fake_quantization_is_both_ways() -> None:
    x = np.array([0.3, -7.6, 90, np.nan], np.float32).view(np.uint32)
    scales = np.full(4, 0.5, np.float32).view(np.uint32)
    found = faked(x, scales, np.full(4, 3, np.uint8), ("float32", "float32", "int8", "float32"))
    assert found.view(np.float32).tolist() == [0.5, -7.5, 62.0, 0.0]


@pytest.mark.sweep
@pytest.mark.timeout(600)
@pytest.mark.parametrize("target", ["int8", "float8_e4m3fn"])
@pytest.mark.parametrize("source", ["float16", "bfloat16"])
def test_every_operand_of_16_bits_is_quantized(source: str, target: str) -> None:
    bits = all_patterns(source)
    for number in (0.37, -3.0, 2.0**-14):
        scales = np.full(bits.shape, number).astype(numpy_type(source)).view(bits_type(source))
        check_quantized(bits, scales, None, (source, source, target), "")


@pytest.mark.sweep
@pytest.mark.timeout(600)
@pytest.mark.parametrize("target", ["float32", "float16"])
@pytest.mark.parametrize("source", ["int16", "uint16"])
def test_every_operand_of_16_bits_is_dequantized(source: str, target: str) -> None:
    bits = all_patterns(source)
    for number in (0.37, -3.0, 2.0**-14):
        scales = np.full(bits.shape, number).astype(numpy_type(target)).view(bits_type(target))
        points = np.full_like(bits, 32769)
        check_dequantized(bits, scales, points, (source, target, target))
