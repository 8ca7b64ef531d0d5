"""The reference of casts, held against Python's exact fractions."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import cache

import numpy as np
import pytest

from support.cases.every import grouped
from tensor_round_verify.conversions.patterns import cast_operands
from tensor_round_verify.conversions.reference import cast
from tensor_round_verify.reference import ROUNDINGS, Bits, all_patterns, bits_type, width


@dataclass(frozen=True)
class Float:
    """The bits of exponent and fraction, the bias, infinity and NaN as patterns, or None."""

    exponent: int
    fraction: int
    bias: int
    infinity: int | None
    nan: int | None


# By hand from the specifications, and not from the reference's table.
FLOATS = {
    "float16": Float(5, 10, 15, 0x7C00, 0x7E00),
    "bfloat16": Float(8, 7, 127, 0x7F80, 0x7FC0),
    "float32": Float(8, 23, 127, 0x7F800000, 0x7FC00000),
    "float64": Float(11, 52, 1023, 0x7FF << 52, 0xFFF << 51),
    "float8_e4m3fn": Float(4, 3, 7, None, 0x7F),
    "float8_e5m2": Float(5, 2, 15, 0x7C, 0x7E),
    "float8_e4m3fnuz": Float(4, 3, 8, None, 0x80),
    "float8_e5m2fnuz": Float(5, 2, 16, None, 0x80),
    "float8_e8m0fnu": Float(8, 0, 127, None, 0xFF),
    "float4_e2m1fn": Float(2, 1, 1, None, None),
}
E8M0, FNUZ = "float8_e8m0fnu", ("float8_e4m3fnuz", "float8_e5m2fnuz")
LARGEST = {"float8_e4m3fn": 0x7E, E8M0: 0xFE}
INTEGERS = [f"{sign}int{size}" for size in (4, 8, 16, 32, 64) for sign in ("", "u")]
TYPES = [*FLOATS, *INTEGERS]
#: Types whose patterns are few enough for fractions: each of 16 bits takes minutes to a target.
BYTES = [dtype for dtype in TYPES if width(dtype) <= 8]


def largest(dtype: str) -> int:
    form = FLOATS[dtype]
    if form.infinity is not None:
        return form.infinity - 1
    return LARGEST.get(dtype, (1 << (form.exponent + form.fraction)) - 1)


def ends(dtype: str) -> tuple[int, int]:
    size = width(dtype)
    return (0, 2**size - 1) if dtype[0] == "u" else (-(2 ** (size - 1)), 2 ** (size - 1) - 1)


@cache
def value(pattern: int, dtype: str) -> tuple[bool, Fraction | str]:
    """The sign of an operand, and its magnitude, "infinity" or "NaN"."""
    if dtype in INTEGERS:
        number = pattern - 2 ** width(dtype) if pattern > ends(dtype)[1] else pattern
        return number < 0, Fraction(abs(number))
    form = FLOATS[dtype]
    if dtype == E8M0:
        return False, "NaN" if pattern == 0xFF else Fraction(2) ** (pattern - 127)
    sign, magnitude = divmod(pattern, 2 ** (form.exponent + form.fraction))
    if dtype in FNUZ:
        is_nan = pattern == 0x80
    else:
        is_nan = magnitude > largest(dtype) and magnitude != form.infinity
    if is_nan or magnitude == form.infinity:
        return bool(sign), "NaN" if is_nan else "infinity"
    field, fraction = divmod(magnitude, 2**form.fraction)
    scaled = Fraction(fraction, 2**form.fraction) + (field > 0)
    return bool(sign), scaled * Fraction(2) ** (max(field, 1) - form.bias)


@cache
def place(x: Fraction, dtype: str) -> tuple[int, int]:
    """The last number of a type up to x, as if it had no largest, and where x is above it.

    A number is its place among those of the type from 0 on. Above it is 0 for the number itself,
    and 2 for a tie, which is between 1 and 3.
    """
    if dtype in INTEGERS:
        unit, base = Fraction(1), 0
    else:
        form = FLOATS[dtype]
        least = 1 - form.bias - (dtype == E8M0)
        top = x.numerator.bit_length() - x.denominator.bit_length() if x else least
        top -= Fraction(2) ** top > x
        exponent = max(top, least)
        unit = Fraction(2) ** (exponent - form.fraction)
        base = (exponent - least) * 2**form.fraction
    below, rest = divmod(x, unit)
    half = Fraction(1, 2)
    above = 0 if rest == 0 else 1 + (rest >= half * unit) + (rest > half * unit)
    return base + below, above


STOPS = {"toward_zero": (True, False), "toward_positive": (True,), "toward_negative": (False,)}


def goes_up(below: int, above: int, negative: bool, rounding: str, dtype: str) -> bool:
    if above == 0 or rounding in STOPS:
        return above > 0 and negative not in STOPS[rounding]
    is_odd = below % 2 == 1 or dtype == E8M0
    return above == 3 or (above == 2 and (is_odd or rounding == "ties_to_away"))


def right(pattern: int, source: str, target: str, rounding: str, saturate: bool) -> int:
    """The pattern that a cast makes of a pattern."""
    negative, x = value(pattern, source)
    if target in INTEGERS:
        return to_integer(negative, x, target, rounding, source in INTEGERS and not saturate)
    form, most = FLOATS[target], largest(target)
    nan = most if form.nan is None else form.nan
    beyond = most if saturate else nan if form.infinity is None else form.infinity
    stops = negative in STOPS.get(rounding, ())
    if isinstance(x, str):
        found = nan if x == "NaN" or (negative and target == E8M0) else beyond
    elif target == E8M0 and (negative and x > 0):
        found = nan
    elif target == E8M0 and x < Fraction(2) ** -127:
        found = 0 if saturate or (x > 0 and rounding == "toward_positive") else nan
    else:
        below, above = place(x, target)
        found = below + goes_up(below, above, negative, rounding, target) - (target == E8M0)
        if found > most:
            found = most if stops else beyond
    if target == E8M0 or (target in FNUZ and found in (0, 0x80)):
        return found
    return found | int(negative) << (width(target) - 1)


def to_integer(negative: bool, x: Fraction | str, target: str, rounding: str, wraps: bool) -> int:
    least, most = ends(target)
    if x == "NaN":
        return 0
    if isinstance(x, str):
        number = least if negative else most
    else:
        below, above = place(x, target)
        magnitude = below + goes_up(below, above, negative, rounding, target)
        number = -magnitude if negative else magnitude
    if not wraps:
        number = min(max(number, least), most)
    return number % 2 ** width(target)


def check(operands: Bits, source: str, target: str, rounding: str) -> None:
    for saturate in (False, True):
        want = [right(x, source, target, rounding, saturate) for x in operands.tolist()]
        got = cast(operands, source, target, rounding, saturate=saturate)
        wrong = np.flatnonzero(got != np.array(want, bits_type(target)))
        told = [(hex(operands[i]), hex(got[i]), hex(want[i])) for i in wrong[:3]]
        assert not wrong.size, (rounding, saturate, told)


def pairs(sources: list[str]) -> dict[str, list[tuple[str, str]]]:
    """By the source, whose operands are then known."""
    return {source: [(source, to) for to in TYPES if source != to] for source in sources}


@grouped(pairs(TYPES))
def test_some_operands_of_every_cast(source: str, target: str) -> None:
    """Of each direction others: the directions take the operands in turn."""
    operands = cast_operands(source, target)
    some = operands[:: max(1, operands.size // 150)]
    for turn, rounding in enumerate(ROUNDINGS):
        check(some[turn :: len(ROUNDINGS)], source, target, rounding)


@pytest.mark.sweep
@pytest.mark.timeout(600)
@grouped(pairs(BYTES))
def test_every_operand_of_8_bits_or_fewer(source: str, target: str) -> None:
    for rounding in ROUNDINGS:
        check(all_patterns(source), source, target, rounding)
    value.cache_clear()
    place.cache_clear()
