"""The value of a conversion: one rule of integers for all types, from their rows in the table.

A number is ``significand * 2^exponent``, both integers, so nothing is lost before it is rounded.
The rule is exact for every operand, 64-bit integers included, but takes some fifty calls of NumPy
for a block. It makes the tables of :mod:`.conversions`, which has faster ways for wide types.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from tensor_round.contract.dtypes import DType
from tensor_round.contract.functions import Convert, Function, ReducePrecision
from tensor_round.contract.rounding import Rounding

from .. import Bits

Words = npt.NDArray[np.uint64]
Integers = npt.NDArray[np.int64]
Truth = npt.NDArray[np.bool_]


def results(function: Function, source: DType, target: DType, patterns: Bits) -> Bits:
    """The patterns of ``target`` that a conversion makes of patterns of ``source``."""
    words = patterns.astype(np.uint64)
    made = _RULES[type(function)](function, source, target, words) & ((1 << target.width) - 1)
    bits: Bits = made.astype(target.bits)
    return bits


def least_exponent(dtype: DType) -> int:
    """The exponent of the least number that has a leading bit, as all have without a fraction."""
    return bool(dtype.mantissa_bits) - dtype.exponent_bias


def is_toward_zero(rounding: Rounding, negative: Truth) -> Truth:
    """Whether the direction is toward zero for a number of that sign."""
    return {
        Rounding.TOWARD_ZERO: np.ones_like(negative),
        Rounding.TOWARD_POSITIVE: negative,
        Rounding.TOWARD_NEGATIVE: ~negative,
    }.get(rounding, np.zeros_like(negative))


def beyond_largest(dtype: DType, saturates: bool) -> int:
    """The magnitude that stands for numbers beyond the largest."""
    if saturates:
        return dtype.largest
    return dtype.exponent_mask if dtype.has_infinity else nan_magnitude(dtype)


def nan_magnitude(dtype: DType) -> int:
    """The pattern of a NaN without its sign: the largest number's if the type has no NaN."""
    return dtype.largest if dtype.nan is None else dtype.nan


@dataclass(frozen=True, slots=True)
class _Numbers:
    """Numbers as ``significand * 2^exponent``; those of NaNs and infinities mean nothing."""

    negative: Truth
    significand: Words
    exponent: Integers
    is_nan: Truth
    is_infinite: Truth

    def highest_exponent(self) -> Integers:
        """The exponent of the leading bit; one below that of the last bit for a zero."""
        # frexp is exact for integers of up to 53 bits, and 64 without the last 11 are such.
        is_long = self.significand >= 1 << 53
        floats = np.where(is_long, self.significand >> 11, self.significand).astype(np.float64)
        lengths = np.frexp(floats)[1] + np.where(is_long, 11, 0)
        return lengths - 1 + self.exponent

    def units(self, place: Integers | int, rounding: Rounding) -> Words:
        """The magnitudes in units of ``2^place``, rounded to integers of at most 64 bits."""
        right = place - self.exponent
        raised = self.significand << _count(-right, 63)
        # Bits beyond 62 places can only make the rest inexact: one of them stands for all.
        lost = _count(right - 62, 63)
        kept = raised >> lost
        odd = kept | (kept << lost != raised)
        shift = _count(right, 62)
        units = odd >> shift
        rest = odd - (units << shift)
        goes_up = _GOES_UP[rounding](units, rest << 1, np.uint64(1) << shift, self.negative)
        rounded: Words = units + (goes_up & (rest > 0))
        return rounded


def _either(choice: Truth, first: int, second: int) -> Words:
    return np.where(choice, np.uint64(first), np.uint64(second))


def _count(shifts: Integers, most: int) -> Words:
    return np.clip(shifts, 0, most).astype(np.uint64)


#: Whether a magnitude is rounded up, from its units, twice the rest, a whole unit, and the sign.
_GOES_UP: dict[Rounding, Callable[[Words, Words, Words, Truth], Truth]] = {
    Rounding.TIES_TO_EVEN: lambda units, twice, whole, _: twice + (units & 1) > whole,
    Rounding.TIES_TO_AWAY: lambda _, twice, whole, __: twice >= whole,
    Rounding.TOWARD_ZERO: lambda _, __, ___, negative: np.zeros_like(negative),
    Rounding.TOWARD_POSITIVE: lambda _, __, ___, negative: ~negative,
    Rounding.TOWARD_NEGATIVE: lambda _, __, ___, negative: negative,
}


def _numbers(words: Words, dtype: DType) -> _Numbers:
    negative = words & dtype.sign_bit != 0
    never = np.zeros_like(negative)
    if not dtype.is_float:
        mask = np.uint64((1 << dtype.width) - 1)
        significand = np.where(negative, -words & mask, words)
        return _Numbers(negative, significand, np.zeros(words.shape, np.int64), never, never)
    magnitudes = words & ~np.uint64(dtype.sign_bit)
    fields = (magnitudes >> dtype.mantissa_bits).astype(np.int64)
    lead = fields >= bool(dtype.mantissa_bits)
    significand = magnitudes - (fields.astype(np.uint64) << dtype.mantissa_bits)
    significand |= lead.astype(np.uint64) << dtype.mantissa_bits
    exponent = np.maximum(fields - dtype.exponent_bias, least_exponent(dtype))
    is_nan, is_infinite = never, never
    if dtype.has_infinity:
        is_nan = magnitudes > dtype.exponent_mask
        is_infinite = magnitudes == dtype.exponent_mask
    elif dtype.nan is not None:
        is_nan = (words if dtype.specials == "negative_zero" else magnitudes) == dtype.nan
    return _Numbers(negative, significand, exponent - dtype.mantissa_bits, is_nan, is_infinite)


def _convert(function: Convert, source: DType, target: DType, words: Words) -> Words:
    if not (source.is_float or target.is_float):
        return _integer_to_integer(function, source, target, words)
    numbers = _numbers(words, source)
    if target.is_float:
        return _to_float(function, numbers, target)
    return _to_integer(function, numbers, target)


def _to_float(function: Convert, numbers: _Numbers, target: DType) -> Words:
    least, fraction = least_exponent(target), target.mantissa_bits
    is_zero = numbers.significand == 0
    highest = np.where(is_zero, least, numbers.highest_exponent())
    exponent = np.maximum(highest, least)
    units = numbers.units(exponent - fraction, function.rounding)
    # A leading bit counts one exponent, and units that are carried over count the next.
    fields = (exponent - least).astype(np.uint64)
    magnitudes: Words = (fields << np.uint64(fraction)) + units
    negative, is_nan = numbers.negative, numbers.is_nan
    stops = is_toward_zero(function.rounding, negative)
    if not fraction:
        # Neither zero nor sign: a power of two is one less than its exponent and leading bit.
        keeps_least = function.saturates or function.rounding is Rounding.TOWARD_POSITIVE
        is_less = (highest < least) & ~is_zero
        is_nan = (
            is_nan
            | (negative & ~is_zero)
            | (is_zero & (not function.saturates))
            | (is_less & (not keeps_least))
        )
        magnitudes = np.where(is_zero | is_less, np.uint64(0), magnitudes - np.uint64(1))
        negative = np.zeros_like(negative)
    beyond = beyond_largest(target, function.saturates)
    magnitudes = np.where(
        magnitudes > target.largest, _either(stops, target.largest, beyond), magnitudes
    )
    magnitudes = np.where(numbers.is_infinite, np.uint64(beyond), magnitudes)
    magnitudes = np.where(is_nan, np.uint64(nan_magnitude(target)), magnitudes)
    if target.specials == "negative_zero":
        negative = negative & (magnitudes != 0)
    return magnitudes | _either(negative, target.sign_bit, 0)


def _to_integer(function: Convert, numbers: _Numbers, target: DType) -> Words:
    units = numbers.units(0, function.rounding)
    is_beyond = numbers.is_infinite | (numbers.highest_exponent() >= 64)
    lowest, highest = ends(target)
    most = _either(numbers.negative, -lowest, highest)
    magnitudes = np.where(is_beyond | (units > most), most, units)
    magnitudes = np.where(numbers.is_nan, np.uint64(0), magnitudes)
    return np.where(numbers.negative, -magnitudes, magnitudes)


def _integer_to_integer(function: Convert, source: DType, target: DType, words: Words) -> Words:
    numbers = _numbers(words, source)
    if function.saturates:
        return _to_integer(function, numbers, target)
    return np.where(numbers.negative, -numbers.significand, numbers.significand)


def ends(dtype: DType) -> tuple[int, int]:
    """The least and the largest number of an integer type."""
    return -dtype.sign_bit, dtype.largest


def _reduce_precision(
    function: ReducePrecision, dtype: DType, _target: DType, words: Words
) -> Words:
    operands = _numbers(words, dtype)
    # A pattern is an integer whose order is that of the magnitudes, and so is its rounding.
    patterns = replace(
        operands,
        significand=words & ~np.uint64(dtype.sign_bit),
        exponent=np.zeros(words.shape, np.int64),
    )
    dropped = max(dtype.mantissa_bits - function.mantissa_bits, 0)
    magnitudes = patterns.units(dropped, function.rounding) << dropped
    least, most = reduced_range(function, dtype)
    beyond = beyond_largest(dtype, saturates=False)
    magnitudes = np.where(magnitudes > most, beyond, np.where(magnitudes < least, 0, magnitudes))
    negative = operands.negative
    if dtype.specials == "negative_zero":
        negative = negative & (magnitudes != 0)
    return np.where(operands.is_nan, words, magnitudes | _either(negative, dtype.sign_bit, 0))


def reduced_range(function: ReducePrecision, dtype: DType) -> tuple[int, int]:
    """The least and the largest magnitude with so many bits of exponent, as patterns.

    With as many bits as the type has, these are its own, subnormal numbers included.
    """
    if function.exponent_bits >= dtype.exponent_bits:
        return 0, dtype.largest
    highest = (1 << (function.exponent_bits - 1)) - 1
    fields = dtype.exponent_bias + 1 - highest, dtype.exponent_bias + 1 + highest
    least, above = (field << dtype.mantissa_bits for field in fields)
    return least, min(above - 1, dtype.largest)


_RULES: dict[type[Function], Callable[[Any, DType, DType, Words], Words]] = {
    Convert: _convert,
    ReducePrecision: _reduce_precision,
}
