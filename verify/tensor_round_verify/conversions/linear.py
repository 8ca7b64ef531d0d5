"""Linear quantization on bit patterns, in integers: ONNX's QuantizeLinear and DequantizeLinear.

Like the reference of casts, on which it builds, this module uses no floating-point arithmetic and
no code of the product. Operands, scales and zero points are patterns, one of each for an element;
:func:`expanded` repeats those of a block. A quotient or product is exact until it is rounded, once,
to the type that the specification names. IEEE 754-2019, section 6, says what infinities, zeros and
NaNs give.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from ..reference import FLOAT_FORMATS, INTEGER_WIDTHS, Bits, Flags, bits_type, is_nan
from .reference import (
    Integers,
    Numbers,
    bit_length,
    decoded,
    encoded,
    is_infinite,
    saturated,
)

#: Bits of a dividend: with one that says that something is lost, quotients have fewer than 63.
_KEPT = 60
#: A magnitude beyond every integer type: with any zero point it saturates.
_VAST = 1 << 40
#: The least number of an 8-bit float: differences are counted in it.
_UNIT = -17


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


def expanded(parameters: Bits, shape: Sequence[int], blocks: Sequence[int]) -> Bits:
    """The parameter of each element: in each dimension, of its index divided by the block's."""
    for axis, (size, block) in enumerate(zip(shape, blocks, strict=True)):
        parameters = parameters.take(np.arange(size) // block, axis)
    return parameters


def quantized(
    bits: Bits,
    scales: Bits,
    zero_points: Bits | None,
    types: tuple[str, str, str],
    *,
    precision: str = "",
    saturate: bool = True,
) -> Bits:
    """Quantize operands; ``types`` are theirs, the scales' and the results'.

    Quotients are rounded to ``precision``, by default the type of the scales; they stay exact if
    that is ``int32`` or ``float8_e8m0fnu``.
    """
    source, scale, target = types
    quotients = _quotient(_read(bits, source), _read(scales, scale))
    rounds_to = precision or scale
    if rounds_to in INTEGER_WIDTHS or not FLOAT_FORMATS[rounds_to].has_zero:
        rounds_to = ""
    else:
        quotients = _read(_written(quotients, rounds_to, saturate=False), rounds_to)
    if target in INTEGER_WIDTHS:
        points = np.zeros(bits.shape, np.int64)
        if zero_points is not None:
            points = _integers(zero_points, target)
        return saturated(_nearest_integers(quotients) + points, target)
    found = _written(quotients, target, saturate=saturate)
    if zero_points is None:
        return found
    for at in np.flatnonzero(~_read(zero_points, target).is_zero):
        one = slice(at, at + 1)
        total = _sum(
            (bits[one], source), (scales[one], scale), rounds_to, (zero_points[one], target)
        )
        found[one] = _written(total, target, saturate=saturate)
    return found


def dequantized(
    bits: Bits, scales: Bits, zero_points: Bits | None, types: tuple[str, str, str]
) -> Bits:
    """Dequantize operands; ``types`` are theirs, the scales', a float type, and the results'."""
    source, scale, target = types
    if source in INTEGER_WIDTHS:
        integers = _integers(bits, source)
        if zero_points is not None:
            integers = integers - _integers(zero_points, source)
        never = np.zeros(bits.shape, np.bool_)
        magnitude = np.abs(integers).astype(np.uint64)
        numbers = Numbers(integers < 0, magnitude, np.zeros(bits.shape, np.int64))
        difference = Extended(numbers, never, never)
    else:
        difference = _read(bits, source)
        if zero_points is not None:
            difference = _difference(difference, _read(zero_points, source))
    return _written(_product(difference, _read(scales, scale)), target, saturate=False)


def _read(bits: Bits, dtype: str) -> Extended:
    return Extended(decoded(bits, dtype), is_infinite(dtype, bits), is_nan(dtype, bits))


def _integers(bits: Bits, dtype: str) -> Integers:
    numbers = decoded(bits, dtype)
    magnitude = numbers.significand.astype(np.int64)
    return np.where(numbers.negative, -magnitude, magnitude)


def _quotient(x: Extended, y: Extended) -> Extended:
    """The exact quotients, but for a last bit that is set if there is a remainder."""
    divisor = np.where(y.numbers.significand == 0, np.uint64(1), y.numbers.significand)
    widened = np.maximum(_KEPT - bit_length(x.numbers.significand), 0)
    dividend = x.numbers.significand << widened.astype(np.uint64)
    quotient = dividend // divisor
    sticky = quotient << np.uint64(1) | (dividend % divisor > 0)
    significand = np.where(y.infinite, np.uint64(0), sticky)
    exponent = x.numbers.exponent - widened - y.numbers.exponent - 1
    negative = x.numbers.negative ^ y.numbers.negative
    nan = x.nan | y.nan | (x.infinite & y.infinite) | (x.is_zero & y.is_zero)
    infinite = (x.infinite | y.is_zero) & ~nan
    return Extended(Numbers(negative, significand, exponent), infinite, nan)


def _product(x: Extended, y: Extended) -> Extended:
    numbers = Numbers(
        x.numbers.negative ^ y.numbers.negative,
        x.numbers.significand * y.numbers.significand,
        x.numbers.exponent + y.numbers.exponent,
    )
    nan = x.nan | y.nan | (x.infinite & y.is_zero) | (x.is_zero & y.infinite)
    return Extended(numbers, (x.infinite | y.infinite) & ~nan, nan)


def _difference(x: Extended, y: Extended) -> Extended:
    """Differences of numbers of at most 8 bits, which have a common unit."""
    left, right = _units(x.numbers), _units(y.numbers)
    units = left - right
    # Of zeros alone is -0: -0 less +0.
    negative = np.where(
        units == 0,
        (x.numbers.negative & ~y.numbers.negative) & (left == 0),
        units < 0,
    )
    nan = x.nan | y.nan | (x.infinite & y.infinite & (x.numbers.negative == y.numbers.negative))
    infinite = (x.infinite | y.infinite) & ~nan
    negative = np.where(y.infinite, ~y.numbers.negative, negative)
    negative = np.where(x.infinite, x.numbers.negative, negative)
    magnitude = np.abs(units).astype(np.uint64)
    return Extended(Numbers(negative, magnitude, np.full_like(units, _UNIT)), infinite, nan)


def _units(numbers: Numbers) -> Integers:
    places = np.clip(numbers.exponent - _UNIT, 0, 40).astype(np.uint64)
    magnitude = (numbers.significand << places).astype(np.int64)
    return np.where(numbers.negative, -magnitude, magnitude)


def _nearest_integers(values: Extended) -> Integers:
    """The nearest integers, ties to even; NaN counts as 0."""
    numbers = values.numbers
    top = bit_length(numbers.significand) + numbers.exponent
    vast = values.infinite | ((top > _VAST.bit_length()) & (numbers.significand > 0))
    found = encoded(numbers, "int64", "ties_to_even").pattern
    magnitude = np.where(vast, np.uint64(_VAST), found).astype(np.int64)
    magnitude = np.where(values.nan, 0, magnitude)
    return np.where(numbers.negative, -magnitude, magnitude)


def _written(values: Extended, target: str, *, saturate: bool) -> Bits:
    """The patterns of a float type, each rounded once, ties to even.

    Every NaN is the quiet one without sign and payload; in a type without it the largest number.
    """
    fmt, numbers = FLOAT_FORMATS[target], values.numbers
    nan = np.uint64(fmt.largest if fmt.nan is None else fmt.nan)
    beyond = np.uint64(fmt.infinity) if fmt.has_infinity else nan
    if saturate:
        beyond = np.uint64(fmt.largest)
    rounded = encoded(numbers, target, "ties_to_even")
    pattern = np.where(rounded.beyond | values.infinite, beyond, rounded.pattern)
    has_sign = numbers.negative & ((pattern > 0) | (fmt.nans != "-0.0"))
    pattern = np.where(has_sign, pattern | np.uint64(fmt.sign_bit), pattern)
    return np.where(values.nan, nan, pattern).astype(bits_type(target))


def _sum(
    x: tuple[Bits, str], scale: tuple[Bits, str], rounds_to: str, point: tuple[Bits, str]
) -> Extended:
    """The quotient of one element, rounded or exact, and its zero point, by fractions."""
    quotient = _quotient(_read(*x), _read(*scale))
    if rounds_to:
        quotient = _read(_written(quotient, rounds_to, saturate=False), rounds_to)
        exact = _fraction(quotient)
    elif quotient.nan[0] or quotient.infinite[0]:
        exact = Fraction(0)
    else:
        divisor = _read(*scale)
        is_finite = not divisor.infinite[0] and not divisor.nan[0]
        exact = _fraction(_read(*x)) / _fraction(divisor) if is_finite else Fraction(0)
    added = _read(*point)
    nan = quotient.nan | added.nan
    nan = nan | (
        quotient.infinite & added.infinite & (quotient.numbers.negative != added.numbers.negative)
    )
    infinite = (quotient.infinite | added.infinite) & ~nan
    infinite_sign = np.where(quotient.infinite, quotient.numbers.negative, added.numbers.negative)
    total = exact + _fraction(added)
    negative = np.where(infinite, infinite_sign, total < 0)
    return Extended(_numbers(abs(total), negative), infinite, nan)


def _fraction(values: Extended) -> Fraction:
    if values.infinite[0] or values.nan[0]:
        return Fraction(0)
    numbers = values.numbers
    magnitude = Fraction(int(numbers.significand[0])) * Fraction(2) ** int(numbers.exponent[0])
    return -magnitude if numbers.negative[0] else magnitude


def _numbers(magnitude: Fraction, negative: Flags) -> Numbers:
    """One number with a last bit that is set if something is lost."""
    top = magnitude.numerator.bit_length() - magnitude.denominator.bit_length()
    exponent = top - _KEPT
    whole, rest = divmod(magnitude, Fraction(2) ** exponent)
    significand = np.array([int(whole) << 1 | (rest > 0)], np.uint64)
    return Numbers(negative, significand, np.array([exponent - 1]))


def faked(
    bits: Bits,
    scales: Bits,
    zero_points: Bits | None,
    types: tuple[str, str, str, str],
    *,
    precision: str = "",
    saturate: bool = True,
) -> Bits:
    """Quantize to the third type, and dequantize to the fourth."""
    source, scale, through, target = types
    codes = quantized(
        bits,
        scales,
        zero_points,
        (source, scale, through),
        precision=precision,
        saturate=saturate,
    )
    return dequantized(codes, scales, zero_points, (through, scale, target))
