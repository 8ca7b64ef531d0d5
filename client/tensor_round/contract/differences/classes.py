"""The classes of patterns: the kinds of hard cases of rounding.

Every pattern has exactly one class, so counts by class add up. If several classes fit, the first
in :class:`PatternClass` applies: -0.5 is an exact tie, not a negative that rounds to zero.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Self

import numpy as np
import numpy.typing as npt

from ..dtypes import BY_NAME, DType

Bits = npt.NDArray[np.unsignedinteger]
Codes = npt.NDArray[np.uint8]

#: Patterns classified at once: temporary arrays stay in a core's cache.
BLOCK = 1 << 15


class ElementClass(IntEnum):
    """The base of enumerations of classes; each has a number and a plural."""

    _plural: str

    def __new__(cls, number: int, plural: str) -> Self:
        """A class by its number, with its plural in English."""
        kind = int.__new__(cls, number)
        kind._value_, kind._plural = number, plural
        return kind

    @property
    def label(self) -> str:
        """The name in JSON: lower case, with underscores."""
        return self.name.lower()

    def plural(self, dtype: str) -> str:
        """The plural of the class in English, for elements of a dtype."""
        return self._plural


class PatternClass(ElementClass):
    """The classes; the first that fits a pattern applies."""

    SIGNALLING_NAN = 0, "signalling NaNs"
    QUIET_NAN_WITH_PAYLOAD = 1, "quiet NaNs with payload"
    QUIET_NAN = 2, "quiet NaNs without payload"
    INFINITY = 3, "infinities"
    NEGATIVE_ZERO = 4, "-0.0"
    POSITIVE_ZERO = 5, "+0.0"
    SUBNORMAL = 6, "subnormals"
    EXACT_TIE = 7, "exact ties"
    #: A fraction whose successor in magnitude is a tie: 0.49999997, 2.4999998.
    NEXT_BELOW_A_TIE = 8, "numbers next below a tie"
    #: Odd, in the first binade that has no fractions: float32's [2^23, 2^24).
    LAST_ODD_INTEGER = 9, "odd integers from 2^{0} to 2^{1}"
    NEGATIVE_THAT_ROUNDS_TO_ZERO = 10, "other negatives that round to zero"
    OTHER_FRACTION = 11, "other fractions"
    OTHER_INTEGER = 12, "other integers"

    def plural(self, dtype: str) -> str:
        """The plural in English; that of odd integers names two exponents of the dtype."""
        if self is PatternClass.OTHER_INTEGER and not BY_NAME[dtype].is_float:
            return "integers"
        p = BY_NAME[dtype].mantissa_bits
        return self._plural.format(p, p + 1)


def classify(bits: Bits, dtype: str, want: Bits) -> Codes:
    """The :class:`PatternClass` of each pattern, as its number.

    ``bits`` are the patterns and ``want`` their correct results, both one-dimensional and of the
    same length. All patterns of integer types are ``OTHER_INTEGER``.
    """
    codes = np.full(bits.shape, PatternClass.OTHER_INTEGER, np.uint8)
    row = BY_NAME[dtype]
    if row.is_float:
        for start in range(0, bits.size, BLOCK):
            block = slice(start, start + BLOCK)
            _classify_block(bits[block], want[block], row, codes[block])
    return codes


def _classify_block(bits: Bits, want: Bits, dtype: DType, codes: Codes) -> None:
    """Fill ``codes``; classes with precedence are written last."""
    number = bits.dtype.type
    sign = bits & number(dtype.sign_bit)
    magnitude = bits ^ sign
    field = magnitude >> number(dtype.mantissa_bits)
    if field.min() == field.max():
        field = field[:1]
    zero = want & number(dtype.sign_bit - 1) == 0
    _classify_fractions(magnitude, field, dtype, codes, zero=zero, negative=sign != 0)
    if field.min() == 0:
        codes[(field == 0) & (magnitude != 0)] = PatternClass.SUBNORMAL
        codes[bits == 0] = PatternClass.POSITIVE_ZERO
        is_nan = dtype.specials == "negative_zero"
        codes[bits == dtype.sign_bit] = (
            PatternClass.QUIET_NAN if is_nan else PatternClass.NEGATIVE_ZERO
        )
    has_last_nan = dtype.specials in ("ieee", "all_ones")
    if has_last_nan and field.max() == (dtype.sign_bit - 1) >> dtype.mantissa_bits:
        _classify_specials(bits, magnitude, dtype, codes)


def _classify_fractions(
    magnitude: Bits,
    field: Bits,
    dtype: DType,
    codes: Codes,
    *,
    zero: npt.NDArray[np.bool_],
    negative: npt.NDArray[np.bool_],
) -> None:
    number = magnitude.dtype.type
    p = dtype.mantissa_bits
    # Bits behind the binary point. Below 1/4 there are no ties, nor numbers
    # next to one.
    shift = dtype.exponent_bias + p - field.astype(np.int16)
    if (shift < 0).all():
        return
    codes[(shift == 0) & (magnitude & number(1) == 1)] = PatternClass.LAST_ODD_INTEGER
    places = np.clip(shift, 1, p + 2).astype(number)
    half = number(1) << (places - number(1))
    significand = (magnitude & number((1 << p) - 1)) | number(1 << p)
    rest = np.where(shift > 0, significand & ((half << number(1)) - number(1)), number(0))
    codes[rest != 0] = PatternClass.OTHER_FRACTION
    codes[negative & zero] = PatternClass.NEGATIVE_THAT_ROUNDS_TO_ZERO
    near = shift <= p + 2
    codes[near & (rest != 0) & (rest == half - number(1))] = PatternClass.NEXT_BELOW_A_TIE
    codes[near & (rest == half)] = PatternClass.EXACT_TIE


def _classify_specials(bits: Bits, magnitude: Bits, dtype: DType, codes: Codes) -> None:
    quiet = bits.dtype.type(1 << (dtype.mantissa_bits - 1))
    if dtype.has_infinity:
        nan = magnitude > dtype.exponent_mask
        codes[magnitude == dtype.exponent_mask] = PatternClass.INFINITY
        codes[nan] = PatternClass.QUIET_NAN_WITH_PAYLOAD
        codes[nan & (magnitude & (quiet - bits.dtype.type(1)) == 0)] = PatternClass.QUIET_NAN
        codes[nan & (magnitude & quiet == 0)] = PatternClass.SIGNALLING_NAN
    else:
        # The largest pattern alone is a NaN, which is quiet.
        codes[magnitude == dtype.sign_bit - 1] = PatternClass.QUIET_NAN
