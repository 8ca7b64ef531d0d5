"""What conversions must give, by exact fractions alone, and operands that are hard for a target."""

from __future__ import annotations

import math
from fractions import Fraction
from functools import cache
from random import Random
from typing import Any

import numpy as np
import numpy.typing as npt

from tensor_round.contract.dtypes import DType
from tensor_round.contract.functions import Convert
from tensor_round.contract.rounding import Rounding

#: A number, or what is none: "inf" or "nan".
Value = Fraction | str
#: A pattern, or a sign and a value.
Result = int | tuple[bool, Value]
Patterns = npt.NDArray[Any]


def on_the_wire(dtype: DType, patterns: Patterns) -> npt.NDArray[np.uint8]:
    """The bytes of patterns: those of 4 bits two in a byte, the first in the low half."""
    if not dtype.is_sub_byte:
        return np.ascontiguousarray(patterns, dtype.bits).view(np.uint8).copy()
    pairs = np.append(patterns, [0] * (patterns.size & 1)).astype(np.uint8)
    return pairs[::2] | pairs[1::2] << 4


def off_the_wire(dtype: DType, memory: npt.NDArray[np.uint8], count: int) -> Patterns:
    """The patterns in bytes."""
    if not dtype.is_sub_byte:
        return memory.view(dtype.bits)[:count]
    return np.stack([memory & 0x0F, memory >> 4], axis=1).reshape(-1)[:count]


@cache
def value(dtype: DType, pattern: int) -> tuple[bool, Value]:
    """The sign and the value of a pattern, by the definitions of its format."""
    negative = bool(pattern & dtype.sign_bit)
    if not dtype.is_float:
        return negative, Fraction(pattern - (negative << dtype.width))
    magnitude = pattern & ~dtype.sign_bit
    field, fraction = divmod(magnitude, 1 << dtype.mantissa_bits)
    ones = (1 << dtype.exponent_bits) - 1
    if dtype.specials == "ieee" and field == ones:
        return negative, "nan" if fraction else "inf"
    if dtype.specials == "all_ones" and magnitude == (1 << dtype.width - dtype.is_signed) - 1:
        return negative, "nan"
    if dtype.specials == "negative_zero" and pattern == dtype.sign_bit:
        return negative, "nan"
    if field or not dtype.mantissa_bits:
        fraction += 1 << dtype.mantissa_bits
    else:
        field = 1
    number = Fraction(fraction) * Fraction(2) ** (field - dtype.exponent_bias - dtype.mantissa_bits)
    return negative, -number if negative else number


def converted(function: Convert, source: DType, target: DType, pattern: int) -> Result:
    """What the contract demands: the pattern, or the sign and the value of the only one."""
    negative, operand = value(source, pattern)
    if target.is_float:
        return _float(function, target, negative, operand)
    lowest, highest = -target.sign_bit, target.largest
    if isinstance(operand, str):
        number = {"nan": 0, "inf": lowest if negative else highest}[operand]
    else:
        number = _integer(function.rounding, operand)
        if source.is_float or function.saturates:
            number = min(max(number, lowest), highest)
    return number % (1 << target.width)


def _integer(rounding: Rounding, number: Fraction) -> int:
    below = math.floor(number)
    rest = number - below
    return {
        Rounding.TIES_TO_EVEN: round(number),
        Rounding.TIES_TO_AWAY: below + (rest > Fraction(1, 2) or (rest * 2 == 1 and number > 0)),
        Rounding.TOWARD_ZERO: math.trunc(number),
        Rounding.TOWARD_POSITIVE: math.ceil(number),
        Rounding.TOWARD_NEGATIVE: below,
    }[rounding]


def _float(function: Convert, target: DType, negative: bool, operand: Value) -> Result:
    sign = target.sign_bit if negative else 0
    nan = target.largest if target.nan is None else target.nan
    beyond = target.largest if function.saturates else nan
    if target.has_infinity and not function.saturates:
        beyond = target.exponent_mask
    is_power = not target.mantissa_bits
    if operand == "nan" or (is_power and negative and operand != 0):
        return nan | sign
    if operand == "inf":
        return beyond | sign
    assert isinstance(operand, Fraction)
    toward_zero = function.rounding in (
        Rounding.TOWARD_ZERO,
        Rounding.TOWARD_POSITIVE if negative else Rounding.TOWARD_NEGATIVE,
    )
    if is_power and operand < _power(-target.exponent_bias):
        is_raised = operand > 0 and function.rounding is Rounding.TOWARD_POSITIVE
        least = function.saturates or is_raised
        return 0 if least else nan
    _, largest = value(target, target.largest)
    assert isinstance(largest, Fraction)
    exponent = max(_exponent(operand), bool(target.mantissa_bits) - target.exponent_bias)
    place = _power(exponent - target.mantissa_bits)
    magnitude = abs(_integer(function.rounding, operand / place) * place)
    if magnitude > largest:
        return (target.largest if toward_zero else beyond) | sign
    if not magnitude and target.specials == "negative_zero":
        return 0
    return negative, -magnitude if negative else magnitude


def _power(exponent: int) -> Fraction:
    return Fraction(2) ** exponent


def _exponent(number: Fraction) -> int:
    """The exponent of the leading bit; the least of all for a zero."""
    if not number:
        return -(1 << 20)
    top = abs(number).numerator.bit_length() - number.denominator.bit_length()
    return top - (abs(number) < _power(top))


@cache
def hard_operands(source: DType, target: DType, count: int, seed: int = 754) -> Patterns:
    """Patterns at the target's numbers and midpoints, next to them, and what is special."""
    random = Random(f"{source.name} {target.name} {seed}")
    top = source.largest
    found = {0, 1, top, top - 1, *(random.randrange(1 << source.width) for _ in range(8))}
    if source.is_float:
        lead = 1 << source.mantissa_bits
        found |= {lead, lead - 1, source.exponent_mask, source.nan or 0, (source.nan or 1) - 1}
        found |= {_nearest(source, Fraction(1)), top + 1}
    for _ in range(count):
        at = random.choice([random.randrange(target.largest), target.largest - 1, 0])
        below, above = (value(target, pattern)[1] for pattern in (at, at + 1))
        assert isinstance(below, Fraction)
        assert isinstance(above, Fraction)
        for number in (below, (below + above) / 2, above + (above - below) / 2):
            pattern = _nearest(source, number)
            found |= {pattern - 1, pattern, pattern + 1}
    signs = (0, source.sign_bit) if source.is_float else (0,)
    patterns = {(pattern | sign) % (1 << source.width) for pattern in found for sign in signs}
    if not source.is_float:
        patterns |= {-pattern % (1 << source.width) for pattern in patterns}
    return np.array(sorted(patterns), source.bits)


def _nearest(dtype: DType, number: Fraction) -> int:
    """The pattern of the greatest positive number that is not above this one."""
    if not dtype.is_float:
        return min(int(number), dtype.largest)
    low, high = 0, dtype.largest
    while low < high:
        middle = (low + high + 1) // 2
        found = value(dtype, middle)[1]
        assert isinstance(found, Fraction)
        low, high = (middle, high) if found <= number else (low, middle - 1)
    return low
