"""The reference: roundToIntegral of IEEE 754-2019 on patterns, in integer arithmetic.

The product's results are compared with it, so it shares nothing with the product: it computes no
float, and reads none of the product's tables. A float's pattern is a sign, an exponent field E and
a fraction of p bits. Its value is

    (-1)^sign * significand * 2^-shift,    shift = bias + p - E,

where the significand is the fraction with the implicit bit above it, or for subnormals the
fraction alone, with E = 1. If shift <= 0 the value is an integer, an infinity or a NaN, and is
returned unchanged. Otherwise the significand's lowest ``shift`` bits are behind the binary point,
and are rounded by section 4.3.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

Bits = npt.NDArray[np.unsignedinteger]
Flags = npt.NDArray[np.bool_]

#: Patterns computed at once: temporary arrays stay in a core's cache.
BLOCK = 1 << 14

ROUNDINGS = ("ties_to_even", "ties_to_away", "toward_zero", "toward_positive", "toward_negative")


@dataclass(frozen=True, slots=True)
class Format:
    """A binary floating-point format: its width, its stored fraction bits, and what is no number.

    With ``nans`` "ieee" the last exponent has infinities and NaNs. Without infinities, the one NaN
    of each sign is the "last" pattern, the one NaN is the pattern of "-0.0", or there is "none". A
    format without fraction bits has powers of two alone: no zero, no subnormals, no sign.
    """

    width: int
    fraction_bits: int
    nans: Literal["ieee", "last", "-0.0", "none"] = "ieee"

    @property
    def has_infinity(self) -> bool:
        """Whether the format has infinities."""
        return self.nans == "ieee"

    @property
    def has_zero(self) -> bool:
        """Whether the format has zero, subnormals and a sign."""
        return self.fraction_bits > 0

    @property
    def signless(self) -> int:
        """The pattern of all bits but the sign."""
        return (1 << (self.width - self.has_zero)) - 1

    @property
    def sign_bit(self) -> int:
        """The pattern of the sign: of -0.0, if the format has it."""
        return 1 << (self.width - 1) if self.has_zero else 0

    @property
    def bias(self) -> int:
        """The exponent field of 1.0."""
        return ((self.signless >> self.fraction_bits) + (self.nans == "-0.0")) // 2

    @property
    def infinity(self) -> int:
        """The pattern of the last exponent alone: of infinity, if the format has it."""
        return self.signless + 1 - (1 << self.fraction_bits)

    @property
    def largest(self) -> int:
        """The pattern of the largest number."""
        return self.infinity - 1 if self.has_infinity else self.signless - (self.nans == "last")

    @property
    def nan(self) -> int | None:
        """The pattern of the quiet NaN without sign and payload; None if there is no NaN."""
        quiet = self.infinity | 1 << self.fraction_bits >> 1
        return {"ieee": quiet, "last": self.signless, "-0.0": self.sign_bit}.get(self.nans)


# IEEE 754-2019 table 3.5; bfloat16; OCP 8-bit floating point and microscaling, version 1.0, where
# E4M3 has no infinity and 0x7F alone is its NaN: both are "shift <= 0" like any IEEE special;
# Graphcore's and AMD's formats with one zero and one NaN.
FLOAT_FORMATS: dict[str, Format] = {
    "float16": Format(16, 10),
    "bfloat16": Format(16, 7),
    "float32": Format(32, 23),
    "float64": Format(64, 52),
    "float8_e4m3fn": Format(8, 3, "last"),
    "float8_e5m2": Format(8, 2),
    "float8_e4m3fnuz": Format(8, 3, "-0.0"),
    "float8_e5m2fnuz": Format(8, 2, "-0.0"),
    "float8_e8m0fnu": Format(8, 0, "last"),
    "float4_e2m1fn": Format(4, 1, "none"),
    # Never an operand: others are mistaken for it.
    "float8_e4m3": Format(8, 3),
}
#: The formats that are rounded to integral values.
FLOATS = {
    name: fmt for name, fmt in FLOAT_FORMATS.items() if fmt.has_zero and name != "float8_e4m3"
}
INTEGER_WIDTHS: dict[str, int] = {
    f"{sign}int{width}": width for width in (8, 16, 32, 64, 4) for sign in ("", "u")
}
WIDTHS: dict[str, int] = {
    **{name: fmt.width for name, fmt in FLOATS.items()},
    **INTEGER_WIDTHS,
}


def width(dtype: str) -> int:
    """The bits of a pattern."""
    return FLOAT_FORMATS[dtype].width if dtype in FLOAT_FORMATS else INTEGER_WIDTHS[dtype]


def bits_type(dtype: str) -> np.dtype[np.unsignedinteger]:
    """The little-endian unsigned type that holds patterns of ``dtype``."""
    return np.dtype(f"<u{max(8, width(dtype)) // 8}")


def all_patterns(dtype: str) -> Bits:
    """Every bit pattern of a type of at most 16 bits, ascending."""
    return np.arange(1 << width(dtype), dtype=bits_type(dtype))


def is_nan(dtype: str, bits: Bits) -> Flags:
    """Which patterns are NaNs; integer dtypes have none."""
    if dtype in INTEGER_WIDTHS:
        return np.zeros(bits.shape, np.bool_)
    fmt = FLOAT_FORMATS[dtype]
    if fmt.nans == "-0.0":
        only: Flags = bits == fmt.nan
        return only
    beyond = fmt.infinity if fmt.has_infinity else fmt.largest
    nans: Flags = (bits & bits.dtype.type(fmt.signless)) > beyond
    return nans


def differs(got: Bits, want: Bits, dtype: str) -> Flags:
    """Which results differ; two NaNs never do: a vector and its tail may return different ones."""
    wrong: Flags = got != want
    if dtype in FLOAT_FORMATS:
        wrong &= ~(is_nan(dtype, got) & is_nan(dtype, want))
    return wrong


def rounded(bits: Bits, dtype: str, rounding: str | Decision) -> Bits:
    """The patterns rounded to integral values; those of integer dtypes are returned unchanged."""
    if dtype in INTEGER_WIDTHS:
        return bits.copy()
    patterns = np.ascontiguousarray(bits, bits_type(dtype)).reshape(-1)
    results = np.empty_like(patterns)
    for start in range(0, patterns.size, BLOCK):
        block = slice(start, start + BLOCK)
        results[block] = rounded_block(patterns[block], dtype, rounding)
    return results.reshape(bits.shape)


def rounded_block(patterns: Bits, dtype: str, rounding: str | Decision) -> Bits:
    """:func:`rounded` for a one-dimensional block of a float type, which temporaries multiply.

    ``make prove`` runs it on symbols.
    """
    fmt, decide = FLOAT_FORMATS[dtype], decision(rounding)
    number = patterns.dtype.type
    sign = patterns & number(fmt.sign_bit)
    magnitude = patterns ^ sign
    field = magnitude >> number(fmt.fraction_bits)
    if field.min() == field.max():
        # Neighbouring patterns mostly have one exponent: compute with it alone.
        field = field[:1]
    results: Bits = sign | _rounded_magnitude(magnitude, field, sign != 0, fmt, decide)
    if fmt.nans == "-0.0":  # there is one zero
        results = np.where((results == fmt.sign_bit) & (magnitude != 0), number(0), results)
    return results


def _rounded_magnitude(
    magnitude: Bits, field: Bits, negative: Flags, fmt: Format, decide: Decision
) -> Bits:
    number = magnitude.dtype.type
    p, one = fmt.fraction_bits, number(1)
    shift = fmt.bias + p - np.maximum(field.astype(np.int16), 1)
    if (shift <= 0).all():
        return magnitude
    significand = magnitude & number((1 << p) - 1)
    significand |= np.where(field > 0, number(1 << p), number(0))
    # A significand has p + 1 bits, so for shifts of p + 2 and more every value is between 0 and
    # 1/2, and rounds alike. Shifts below 1 need no rounding.
    places = np.clip(shift, 1, p + 2).astype(number)
    integer = significand >> places
    rest = significand - (integer << places)
    integer += decide(integer, rest, one << (places - one), negative)
    # Under the old exponent, a carry out of the integer increments the exponent field, which is
    # then right. Values below 1 become 0 or 1.
    below_one = integer * number(fmt.bias << p)
    base = (np.maximum(field, one) - one) << number(p)
    moved = np.where(shift > p, below_one, base + (integer << places))
    return np.where(shift <= 0, magnitude, moved)


#: (integer, rest, half, negative) -> where the magnitude is rounded up; elsewhere it is truncated.
Decision = Callable[[Bits, Bits, Bits, Flags], Flags]

DECISIONS: dict[str, Decision] = {
    "ties_to_even": lambda integer, rest, half, _: (
        (rest + (integer & integer.dtype.type(1))) > half
    ),
    "ties_to_away": lambda _, rest, half, __: rest >= half,
    "toward_zero": lambda _, rest, half, negative: np.zeros_like(negative),
    "toward_positive": lambda _, rest, half, negative: (rest > 0) & ~negative,
    "toward_negative": lambda _, rest, half, negative: (rest > 0) & negative,
}


def decision(rounding: str | Decision) -> Decision:
    """The decision of a direction, or of a rule that IEEE 754 lacks."""
    return DECISIONS[rounding] if isinstance(rounding, str) else rounding
