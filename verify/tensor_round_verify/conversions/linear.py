"""Linear quantization on bit patterns, in integers: ONNX's QuantizeLinear and DequantizeLinear.

Like the reference of casts, on which it builds, this module uses no floating-point arithmetic and
no code of the product. Operands, scales and zero points are patterns, one of each for an element;
:func:`expanded` repeats those of a block. A quotient or product is exact until it is rounded, once,
to the type that the specification names. IEEE 754-2019, section 6, says what infinities, zeros and
NaNs give.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from ..reference import FLOAT_FORMATS, INTEGER_WIDTHS, Bits, Decision, Flags
from .reference import (
    Extended,
    Integers,
    Numbers,
    bit_length,
    decoded,
    encoded,
    read,
    written,
)

Integer = TypeVar("Integer", bound=np.integer)
#: Bits of a dividend and of a sum: with one that says that something is lost, a number has fewer
#: than 63.
_KEPT = 60
#: Bits that hold each difference of two numbers of 8 bits, and leave room for a factor.
_KEPT_OF_8_BITS = 36
#: A magnitude beyond every integer type: with any zero point it saturates.
_VAST = 1 << 40
#: An exponent below every number's.
_LOW = -10_000


def expanded(
    parameters: npt.NDArray[Integer], shape: Sequence[int], blocks: Sequence[int]
) -> npt.NDArray[Integer]:
    """The parameter of each element: in each dimension, of its index divided by the block's."""
    for axis, (size, block) in enumerate(zip(shape, blocks, strict=True)):
        parameters = parameters.take(np.arange(size) // block, axis)
    return parameters


def quotient_type(scale: str, precision: str) -> str:
    """The type to which quotients are rounded; empty if they stay exact."""
    has_quotients = scale in FLOAT_FORMATS and FLOAT_FORMATS[scale].has_zero
    return precision or (scale if has_quotients else "")


def divided(bits: Bits, scales: Bits, types: tuple[str, str], dtype: str) -> tuple[Bits, str]:
    """The quotients of two types, each rounded once to a float type, and that type.

    Exact ones are rounded to odd in float64: then each later rounding, to fewer bits, is right.
    """
    source, scale = types
    exact = _quotient(read(bits, source), read(scales, scale))
    kind, rounding = (dtype, "ties_to_even") if dtype else ("float64", _to_odd)
    return written(exact, kind, rounding, saturate=False), kind


def _to_odd(integer: Bits, rest: Bits, half: Bits, negative: Flags) -> Flags:
    odd: Flags = integer & integer.dtype.type(1) == 0
    return odd


def coded(
    values: Extended, zero_points: Bits, target: str, rounding: str | Decision, *, saturate: bool
) -> Bits:
    """Add zero points of a float type to quotients, then round."""
    points = read(zero_points, target)
    # A quotient of -0 keeps its sign beside a zero point of 0.
    alike = np.where(points.is_zero, values.numbers.negative, points.numbers.negative)
    signed = replace(points, numbers=replace(points.numbers, negative=alike))
    return written(_sum(values, signed, _KEPT), target, rounding, saturate=saturate)


def dequantized(
    bits: Bits, scales: Bits, zero_points: Bits | None, types: tuple[str, str, str]
) -> Bits:
    """Dequantize operands; ``types`` are theirs, the scales', a float type, and the results'."""
    source, scale, target = types
    return multiplied(difference(bits, zero_points, source), scales, (scale, target))


def difference(bits: Bits, zero_points: Bits | None, source: str) -> Extended:
    """Operands less their zero points, exactly."""
    if source in INTEGER_WIDTHS:
        less = 0 if zero_points is None else _integers(zero_points, source)
        return of_integers(_integers(bits, source) - less)
    values = read(bits, source)
    if zero_points is None:
        return values
    points = read(zero_points, source)
    negated = replace(points.numbers, negative=~points.numbers.negative)
    return _sum(values, replace(points, numbers=negated), _KEPT_OF_8_BITS)


def multiplied(values: Extended, scales: Bits, types: tuple[str, str]) -> Bits:
    """The products with scales, each rounded once; ``types`` are those of scales and results."""
    scale, target = types
    return written(product(values, read(scales, scale)), target, "ties_to_even", saturate=False)


def of_integers(integers: Integers) -> Extended:
    """Integers; their zero has no sign."""
    magnitude, never = np.abs(integers).astype(np.uint64), np.zeros(integers.shape, np.bool_)
    numbers = Numbers(integers < 0, magnitude, np.zeros(integers.shape, np.int64))
    return Extended(numbers, never, never)


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
    nan = x.nan | y.nan | (x.infinite & y.infinite) | (x.is_zero & y.is_zero)
    negative = (x.numbers.negative ^ y.numbers.negative) & ~nan
    infinite = (x.infinite | y.is_zero) & ~nan
    return Extended(Numbers(negative, significand, exponent), infinite, nan)


def product(x: Extended, y: Extended) -> Extended:
    """The exact products, of at most 63 bits."""
    nan = x.nan | y.nan | (x.infinite & y.is_zero) | (x.is_zero & y.infinite)
    numbers = Numbers(
        (x.numbers.negative ^ y.numbers.negative) & ~nan,
        x.numbers.significand * y.numbers.significand,
        x.numbers.exponent + y.numbers.exponent,
    )
    return Extended(numbers, (x.infinite | y.infinite) & ~nan, nan)


def _sum(x: Extended, y: Extended, kept: int) -> Extended:
    """Sums of ``kept`` bits, and a last one that is set if something is lost.

    The sum of -0 and -0 alone is -0.
    """
    last = np.maximum(_top(x.numbers), _top(y.numbers)) - kept
    (a, is_less), (b, is_less_too) = (_floored(each.numbers, last) for each in (x, y))
    units, lost = a + b, is_less | is_less_too
    both = x.numbers.negative & y.numbers.negative
    negative = np.where(units == 0, both, units < 0)
    magnitude = np.where(units < 0, -units - lost, units).astype(np.uint64)
    nan = x.nan | y.nan | (x.infinite & y.infinite & (x.numbers.negative != y.numbers.negative))
    negative = np.where(y.infinite, y.numbers.negative, negative)
    negative = np.where(x.infinite, x.numbers.negative, negative) & ~nan
    numbers = Numbers(negative, magnitude << np.uint64(1) | lost, last - 1)
    return Extended(numbers, (x.infinite | y.infinite) & ~nan, nan)


def _top(numbers: Numbers) -> Integers:
    """The exponents above those of the leading bits."""
    found = bit_length(numbers.significand) + numbers.exponent
    return np.where(numbers.significand > 0, found, _LOW)


def _floored(numbers: Numbers, last: Integers) -> tuple[Integers, Flags]:
    """The numbers in units of 2^last, rounded down, and where they are not exact."""
    left = np.clip(numbers.exponent - last, 0, 63).astype(np.uint64)
    right = np.clip(last - numbers.exponent, 0, 63).astype(np.uint64)
    wide = numbers.significand << left
    magnitude = wide >> right
    lost: Flags = magnitude << right != wide
    units = magnitude.astype(np.int64)
    return np.where(numbers.negative, -units - lost, units), lost


def nearest_integers(values: Extended, rounding: str | Decision = "ties_to_even") -> Integers:
    """Integers in the direction; NaN counts as 0."""
    numbers = values.numbers
    top = bit_length(numbers.significand) + numbers.exponent
    vast = values.infinite | ((top > _VAST.bit_length()) & (numbers.significand > 0))
    found = encoded(numbers, "int64", rounding).pattern
    magnitude = np.where(vast, np.uint64(_VAST), found).astype(np.int64)
    magnitude = np.where(values.nan, 0, magnitude)
    return np.where(numbers.negative, -magnitude, magnitude)
