"""Conversions between types, on bit patterns, in integers.

Like the reference of rounding, this module uses no floating-point arithmetic and no code of the
product. A number is a significand and the exponent of its last bit; :func:`encoded` rounds it to a
type by IEEE 754-2019, sections 4.3 and 7.4. :func:`cast` adds what its section 5.4 and ONNX's
Cast-25 say of other patterns.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from ..reference import (
    FLOAT_FORMATS,
    INTEGER_WIDTHS,
    Bits,
    Decision,
    Flags,
    bits_type,
    decision,
    is_nan,
)

Integers = npt.NDArray[np.int64]
Significands = npt.NDArray[np.uint64]

#: Rules for what specifications leave open: floats beyond an integer type and NaNs there, and
#: negative numbers in a float type without a sign.
INTEGER_RULES = ("saturate", "x86", "arm", "wrap")
UNSIGNED_RULES = ("nan", "saturate", "wrap")
#: Directions that turn overflow into the largest finite number (section 7.4), and the values of
#: ``negative`` for which they do.
_STOPS = {"toward_zero": (False, True), "toward_positive": (True,), "toward_negative": (False,)}


@dataclass(frozen=True, slots=True)
class Numbers:
    """Finite numbers: (-1)^negative * significand * 2^exponent."""

    negative: Flags
    significand: Significands
    exponent: Integers


@dataclass(frozen=True, slots=True)
class Extended:
    """Numbers, infinities, whose significands have no meaning, and NaNs."""

    numbers: Numbers
    infinite: Flags
    nan: Flags

    @property
    def is_zero(self) -> Flags:
        """Which are zeros."""
        zero: Flags = (self.numbers.significand == 0) & ~self.infinite & ~self.nan
        return zero


@dataclass(frozen=True, slots=True)
class Encoded:
    """Rounded magnitudes, as patterns that may lie beyond the type's largest.

    Those of integers are modulo 2^64. A type without zero has a pattern less: its least is 1.
    ``tie`` marks exact ties, ``near`` numbers next to one, ``exact`` numbers that the type has, and
    ``beyond`` those outside its range.
    """

    pattern: Significands
    exact: Flags
    tie: Flags
    near: Flags
    beyond: Flags


def decoded(bits: Bits, dtype: str) -> Numbers:
    """The numbers that patterns stand for; those for infinities and NaNs have no meaning."""
    wide = bits.astype(np.uint64)
    if dtype in INTEGER_WIDTHS:
        least, most = ends(dtype)
        negative, ones = wide > np.uint64(most), np.uint64(most - least)
        magnitude = np.where(negative, (np.uint64(0) - wide) & ones, wide)
        return Numbers(negative, magnitude, np.zeros(bits.shape, np.int64))
    fmt = FLOAT_FORMATS[dtype]
    p, magnitude = fmt.fraction_bits, wide & np.uint64(fmt.signless)
    field = (magnitude >> np.uint64(p)).astype(np.int64)
    fraction = magnitude & np.uint64((1 << p) - 1)
    is_normal = (field > 0) | (not fmt.has_zero)
    implicit = np.where(is_normal, np.uint64(1 << p), np.uint64(0))
    exponent = np.where(is_normal, field, 1) - fmt.bias - p
    return Numbers((wide & np.uint64(fmt.sign_bit)) > 0, fraction | implicit, exponent)


def read(bits: Bits, dtype: str) -> Extended:
    """What patterns stand for."""
    return Extended(decoded(bits, dtype), is_infinite(dtype, bits), is_nan(dtype, bits))


def encoded(numbers: Numbers, target: str, rounding: str | Decision) -> Encoded:
    """Round numbers to a type, as if it had no upper limit."""
    fmt = FLOAT_FORMATS.get(target)
    top = bit_length(numbers.significand) - 1 + numbers.exponent
    last = field = np.zeros_like(top)
    if fmt is not None:
        least = fmt.has_zero - fmt.bias
        field = np.maximum(top, least) - least
        last = field + least - fmt.fraction_bits
        if not fmt.has_zero and rounding == "ties_to_even":
            rounding = "ties_to_away"  # of two powers of two, none is even
    # A number with fewer bits than the type has is widened: then nothing is dropped.
    widened = np.clip(numbers.exponent - last, 0, 63).astype(np.uint64)
    significand = numbers.significand << widened
    shift = last - numbers.exponent + widened.astype(np.int64)
    # Numbers of fewer than 63 bits, from 63 places on, lie between 0 and half of the last one.
    places = np.clip(shift, 0, 63).astype(np.uint64)
    one = np.uint64(1)
    integer = significand >> places
    rest = significand - (integer << places)
    half = np.where(places > 0, one << (np.maximum(places, one) - one), one)
    moved = decision(rounding)(integer, rest, half, numbers.negative) & (rest > 0)
    if fmt is None:
        pattern = np.where(numbers.exponent > 63, np.uint64(0), integer + moved)
        least, most = ends(target)
        limit = np.where(numbers.negative, np.uint64(-least), np.uint64(most))
        beyond = (top > 63) | (pattern > limit)
    else:
        base = field.astype(np.uint64) << np.uint64(fmt.fraction_bits)
        pattern = np.where(integer == 0, np.uint64(0), base) + integer + moved
        beyond = pattern > np.uint64(fmt.largest + (not fmt.has_zero))
    tie = (rest == half) & (places > 0)
    near = ((rest == half - one) | (rest == half + one)) & (rest > 0)
    return Encoded(pattern, rest == 0, tie, near & ~tie, beyond)


def bit_length(numbers: Significands) -> Integers:
    """The number of bits of each number."""
    ones = numbers  # from the highest bit that is set downward
    for step in (1, 2, 4, 8, 16, 32):
        ones = ones | ones >> np.uint64(step)
    return np.bitwise_count(ones).astype(np.int64)


def is_infinite(dtype: str, bits: Bits) -> Flags:
    """Which patterns are infinities."""
    fmt = FLOAT_FORMATS.get(dtype)
    if fmt is None or not fmt.has_infinity:
        return np.zeros(bits.shape, np.bool_)
    infinite: Flags = bits & bits.dtype.type(fmt.signless) == fmt.infinity
    return infinite


def cast(
    bits: Bits,
    source: str,
    target: str,
    rounding: str | Decision,
    *,
    saturate: bool,
    rule: str = "",
) -> Bits:
    """Convert between types, rounding once in the direction.

    Beyond a float type's largest number, infinities too, is infinity, else NaN, else the largest;
    with ``saturate`` it is the largest. But by IEEE 754 a direction that does not round such a
    number away from zero gives the largest. A NaN becomes the quiet NaN of its sign, or without one
    the largest. Integers keep their low bits in a narrower type, or ``saturate``.

    In a type without zero, zero is NaN, and so is a number below the least one that is not rounded
    up; with ``saturate`` both are the least. ``rule`` is one of :data:`INTEGER_RULES`, or for this
    type one of :data:`UNSIGNED_RULES`; by default the first.
    """
    values = read(bits, source)
    if rule == "wrap" and target in FLOAT_FORMATS:
        unsigned = replace(values.numbers, negative=np.zeros_like(values.nan))
        values = replace(values, numbers=unsigned)
    if target in INTEGER_WIDTHS:
        usual = "wrap" if source in INTEGER_WIDTHS else INTEGER_RULES[0]
        return _integral(values, target, rounding, "saturate" if saturate else rule or usual)
    return written(values, target, rounding, saturate=saturate, rule=rule)


def written(
    values: Extended, target: str, rounding: str | Decision, *, saturate: bool, rule: str = ""
) -> Bits:
    """The patterns of a float type, each rounded once; see :func:`cast`."""
    numbers = values.numbers
    fmt, found = FLOAT_FORMATS[target], encoded(numbers, target, rounding)
    top = np.uint64(fmt.largest)
    no_number = top if fmt.nan is None else np.uint64(fmt.nan)
    beyond = np.uint64(fmt.infinity) if fmt.has_infinity else no_number
    if saturate:
        beyond = top
    stopped = _STOPS.get(rounding, ()) if isinstance(rounding, str) else ()
    stops = np.where(numbers.negative, True in stopped, False in stopped)
    pattern = found.pattern
    if not fmt.has_zero:
        is_zero = numbers.significand == 0
        is_less = bit_length(numbers.significand) - 1 + numbers.exponent < -fmt.bias
        is_least = saturate | (~is_zero & (rounding == "toward_positive"))
        least = np.where(is_least, np.uint64(0), no_number)
        pattern = np.where(is_zero | is_less, least, pattern - np.uint64(1))
    pattern = np.where(found.beyond, np.where(stops, top, beyond), pattern)
    pattern = np.where(values.infinite, beyond, pattern)
    if not fmt.has_zero:
        below = numbers.negative & (numbers.significand > 0)
        pattern = np.where(below, np.uint64(0) if rule == "saturate" else no_number, pattern)
    pattern = np.where(values.nan, no_number, pattern)
    has_sign = numbers.negative & ((pattern > 0) | (fmt.nans != "-0.0"))
    sign = np.where(has_sign, np.uint64(fmt.sign_bit), np.uint64(0))
    return (pattern | sign).astype(bits_type(target))


def _integral(values: Extended, target: str, rounding: str | Decision, rule: str) -> Bits:
    """Integers as a wider type has them, which keep their low bits; others by the rule.

    The instructions of x86 and ARM convert to 32 or 64 bits. Those of x86 are signed, and give the
    least integer for what does not fit.
    """
    numbers, nan, infinite = values.numbers, values.nan, values.infinite
    width, wide = INTEGER_WIDTHS[target], target
    if rule == "x86":
        wide = "int32" if width < 32 or target == "int32" else "int64"
    if rule == "arm":
        wide = target.replace(str(width), str(max(width, 32)))
    found, negative = encoded(numbers, wide, rounding), numbers.negative
    least, most = ends(wide)
    lost, instead = found.beyond, np.where(negative, np.uint64(-least), np.uint64(most))
    if rule == "x86":
        instead = np.full_like(instead, -least)
        if (
            target == "uint64"
        ):  # two conversions: numbers from 2^63 on lose it before, and get it back
            positive = ~negative & ~nan
            lost = lost & (negative | encoded(numbers, target, rounding).beyond)
            instead = np.where(positive, np.uint64(0), instead)
    elif rule == "wrap":
        lost, instead = infinite, np.zeros_like(instead)
    else:
        instead = np.where(nan, np.uint64(0), instead)
    magnitude = np.where(lost | infinite | nan, instead, found.pattern)
    low = np.where(negative, np.uint64(0) - magnitude, magnitude) & np.uint64((1 << width) - 1)
    return low.astype(bits_type(target))


def saturated(integers: Integers, target: str) -> Bits:
    """The patterns of integers, clipped to the range of the type."""
    least, most = ends(target)
    clipped = np.clip(integers, least, most)
    width = INTEGER_WIDTHS[target]
    return (clipped & ((1 << width) - 1)).astype(bits_type(target))


def ends(target: str) -> tuple[int, int]:
    """The least and the greatest value of an integer type."""
    width = INTEGER_WIDTHS[target]
    return (0, (1 << width) - 1) if target[0] == "u" else (-1 << (width - 1), (1 << width - 1) - 1)


def digits(dtype: str) -> int:
    """The significant bits of a type's numbers."""
    if dtype in INTEGER_WIDTHS:
        return ends(dtype)[1].bit_length()
    return FLOAT_FORMATS[dtype].fraction_bits + 1


def as_bits(values: Any, dtype: str) -> Bits:
    """The patterns of float64 values in another type, rounded to the nearest."""
    wide = np.asarray(values, np.float64).reshape(-1).view(np.uint64)
    return (
        wide if dtype == "float64" else cast(wide, "float64", dtype, "ties_to_even", saturate=False)
    )
