"""Narrowing casts and linear quantization, on bit patterns, in integers.

Like the reference of rounding, this module uses no floating-point arithmetic and no code of the
product. A finite number is a significand and the exponent of its last bit; :func:`encoded` rounds
it to a format by IEEE 754-2019, sections 4.3 and 7.4. :func:`cast` adds the rules of ONNX's
Cast-25, :func:`divided` and :func:`saturated` those of QuantizeLinear-25.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from ..reference import (
    FLOATS,
    INTEGER_WIDTHS,
    Bits,
    Decision,
    Flags,
    Format,
    bits_type,
    decision,
    is_nan,
)

Integers = npt.NDArray[np.int64]
Significands = npt.NDArray[np.uint64]

#: Directions that turn overflow into the largest finite number (section 7.4), and the values of
#: ``negative`` for which they do.
_STOPS = {"toward_zero": (False, True), "toward_positive": (True,), "toward_negative": (False,)}
#: A magnitude beyond every integer type that is a target: it always saturates.
_VAST = 1 << 40


@dataclass(frozen=True, slots=True)
class Numbers:
    """Finite numbers: (-1)^negative * significand * 2^exponent."""

    negative: Flags
    significand: Significands
    exponent: Integers


@dataclass(frozen=True, slots=True)
class Encoded:
    """Rounded magnitudes, as patterns that may lie beyond the format's largest.

    ``tie`` marks exact ties, ``near`` numbers next to one, ``exact`` numbers that the format has.
    """

    pattern: Significands
    exact: Flags
    tie: Flags
    near: Flags


def decoded(bits: Bits, dtype: str) -> Numbers:
    """The numbers that patterns stand for; those for infinities and NaNs have no meaning."""
    fmt = FLOATS[dtype]
    wide = bits.astype(np.uint64)
    magnitude = wide & np.uint64(fmt.sign_bit - 1)
    field = (magnitude >> np.uint64(fmt.fraction_bits)).astype(np.int64)
    fraction = magnitude & np.uint64((1 << fmt.fraction_bits) - 1)
    implicit = np.where(field > 0, np.uint64(1 << fmt.fraction_bits), np.uint64(0))
    exponent = np.maximum(field, 1) - fmt.bias - fmt.fraction_bits
    return Numbers(wide >= np.uint64(fmt.sign_bit), fraction | implicit, exponent)


def encoded(numbers: Numbers, fmt: Format, rounding: str | Decision) -> Encoded:
    """Round numbers to a format, as if its exponents had no upper limit."""
    p, least = fmt.fraction_bits, 1 - fmt.bias
    top = bit_length(numbers.significand) - 1 + numbers.exponent
    last = np.maximum(top, least) - p
    # A number with fewer bits than the format has is widened: then nothing is dropped.
    widened = np.clip(numbers.exponent - last, 0, 62).astype(np.uint64)
    significand = numbers.significand << widened
    shift = last - numbers.exponent + widened.astype(np.int64)
    # From 62 bits on all numbers lie strictly between 0 and half of the last place.
    places = np.clip(shift, 0, 62).astype(np.uint64)
    one = np.uint64(1)
    integer = significand >> places
    rest = significand - (integer << places)
    half = np.where(places > 0, one << (np.maximum(places, one) - one), one)
    moved = decision(rounding)(integer, rest, half, numbers.negative) & (rest > 0)
    base = (np.maximum(top, least) - least).astype(np.uint64) << np.uint64(p)
    pattern = np.where(integer == 0, np.uint64(0), base) + integer + moved
    tie = (rest == half) & (places > 0)
    near = ((rest == half - one) | (rest == half + one)) & (rest > 0)
    return Encoded(pattern, rest == 0, tie, near & ~tie)


def bit_length(numbers: Significands) -> Integers:
    """The number of bits of each number."""
    length, left = np.zeros(numbers.shape, np.int64), numbers
    for step in (32, 16, 8, 4, 2, 1):
        high = left >> np.uint64(step)
        length += np.where(high > 0, step, 0)
        left = np.where(high > 0, high, left)
    return length + (left > 0)


def largest(dtype: str) -> int:
    """The pattern of the largest finite number."""
    fmt = FLOATS[dtype]
    # A format without infinity has numbers in its place, up to its one NaN.
    return infinity(fmt) - 1 if fmt.has_infinity else fmt.sign_bit - 2


def infinity(fmt: Format) -> int:
    """The pattern of infinity, in a format that has it."""
    return fmt.sign_bit - (1 << fmt.fraction_bits)


def cast(bits: Bits, source: str, target: str, rounding: str | Decision, *, saturate: bool) -> Bits:
    """ONNX's Cast-25 between floats. Every NaN becomes the same NaN, with the operand's sign.

    ``saturate`` is for 8-bit targets: infinities, and numbers beyond the largest, become the
    largest. Without it they become infinity, or NaN in E4M3FN, which has no infinity. But by
    IEEE 754 a direction that does not round such a number away from zero gives the largest.
    """
    own, fmt = FLOATS[source], FLOATS[target]
    numbers = decoded(bits, source)
    pattern = encoded(numbers, fmt, rounding).pattern
    top = np.uint64(largest(target))
    # All ones but the sign is a NaN in every format; E4M3FN has no other, and no infinity.
    nan = np.uint64(fmt.sign_bit - 1)
    beyond = np.uint64(infinity(fmt)) if fmt.has_infinity else nan
    if saturate:
        beyond = top
    magnitude = bits.astype(np.uint64) & np.uint64(own.sign_bit - 1)
    # In a format without infinity this magnitude is a number.
    infinite = (magnitude == infinity(own)) & own.has_infinity
    stopped = _STOPS.get(rounding, ()) if isinstance(rounding, str) else ()
    stops = np.isin(numbers.negative, stopped)
    pattern = np.where(pattern > top, np.where(stops, top, beyond), pattern)
    pattern = np.where(infinite, beyond, pattern)
    pattern = np.where(is_nan(source, bits), nan, pattern)
    sign = np.where(numbers.negative, np.uint64(fmt.sign_bit), np.uint64(0))
    return (pattern | sign).astype(bits_type(target))


def divided(bits: Bits, divisors: Bits, dtype: str) -> Bits:
    """Divide by positive finite divisors; round each quotient once to the type, ties to even."""
    fmt = FLOATS[dtype]
    p = fmt.fraction_bits
    x, y = _normal(decoded(bits, dtype), p), _normal(decoded(divisors, dtype), p)
    more = np.uint64(p + 3)
    shifted = x.significand << more
    quotient = shifted // y.significand
    # The last bit is 1 if there is a remainder.
    sticky = (quotient << np.uint64(1)) | (shifted % y.significand > 0)
    numbers = Numbers(x.negative, sticky, x.exponent - y.exponent - (p + 4))
    pattern = np.minimum(encoded(numbers, fmt, "ties_to_even").pattern, np.uint64(infinity(fmt)))
    magnitude = bits.astype(np.uint64) & np.uint64(fmt.sign_bit - 1)
    pattern = np.where(magnitude >= np.uint64(infinity(fmt)), magnitude, pattern)
    sign = np.where(x.negative, np.uint64(fmt.sign_bit), np.uint64(0))
    return (pattern | sign).astype(bits.dtype)


def _normal(numbers: Numbers, p: int) -> Numbers:
    """The same numbers, with p + 1 bits in each significand; that of zero stays 0."""
    missing = np.where(numbers.significand > 0, p + 1 - bit_length(numbers.significand), 0)
    significand = numbers.significand << missing.astype(np.uint64)
    return Numbers(numbers.negative, significand, numbers.exponent - missing)


def integers_of(bits: Bits, dtype: str) -> Integers:
    """The integers that patterns of integral numbers stand for; infinities become +-``_VAST``."""
    numbers = decoded(bits, dtype)
    vast = bit_length(numbers.significand) + numbers.exponent > _VAST.bit_length()
    up = np.where(vast, 0, np.clip(numbers.exponent, 0, 40)).astype(np.uint64)
    down = np.clip(-numbers.exponent, 0, 62).astype(np.uint64)
    magnitude = np.where(vast, np.uint64(_VAST), (numbers.significand >> down) << up)
    large: Integers = magnitude.astype(np.int64)
    return np.where(numbers.negative, -large, large)


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


def as_bits(values: Any, dtype: str) -> Bits:
    """The patterns of float64 values in another type, rounded to the nearest."""
    wide = np.asarray(values, np.float64).reshape(-1).view(np.uint64)
    return (
        wide if dtype == "float64" else cast(wide, "float64", dtype, "ties_to_even", saturate=False)
    )


def products(integers: Integers, scales: Bits, source: str) -> Numbers:
    """Integers of at most 17 bits times finite scales, exactly."""
    numbers = decoded(scales, source)
    significand = np.abs(integers).astype(np.uint64) * numbers.significand
    # An integer zero has no sign.
    negative = (numbers.negative ^ (integers < 0)) & (integers != 0)
    return Numbers(negative, significand, numbers.exponent)


def dequantized(integers: Integers, scales: Bits, source: str) -> Bits:
    """ONNX's DequantizeLinear-25: integers less their zero points, times scales of a float type.

    Each product is rounded once, ties to even.
    """
    fmt = FLOATS[source]
    numbers = products(integers, scales, source)
    pattern = encoded(numbers, fmt, "ties_to_even").pattern
    pattern = np.minimum(pattern, np.uint64(infinity(fmt)))
    sign = np.where(numbers.negative, np.uint64(fmt.sign_bit), np.uint64(0))
    return (pattern | sign).astype(bits_type(source))
