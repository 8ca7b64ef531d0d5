"""roundToIntegral from IEEE 754-2019 alone, on bit patterns, in integers.

What the product's answers are held against, so it shares nothing with the
product: no float is ever computed, no table of the product's is read. A float's
pattern is a sign, an exponent field E and a fraction of p bits, and stands for

    (-1)^sign * significand * 2^-shift,    shift = bias + p - E,

where the significand is the fraction with the implicit bit above it, or the bare
fraction at the exponent of E = 1 (subnormals). If shift <= 0 the value is an
integer (or infinite, or NaN) and stays as it is. Else the significand's lowest
``shift`` bits lie behind the binary point, and section 4.3 says what becomes of
them.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Bits = npt.NDArray[np.unsignedinteger]
Flags = npt.NDArray[np.bool_]

ROUNDINGS = ("ties_to_even", "ties_to_away", "toward_zero", "toward_positive", "toward_negative")


@dataclass(frozen=True, slots=True)
class Format:
    """A binary floating-point format: its width and its stored fraction bits."""

    width: int
    fraction_bits: int

    @property
    def bias(self) -> int:
        """What the exponent field of 1.0 holds."""
        return (1 << (self.width - self.fraction_bits - 2)) - 1

    @property
    def sign_bit(self) -> int:
        """The pattern of -0.0."""
        return 1 << (self.width - 1)


# IEEE 754-2019 table 3.5; bfloat16; OCP 8-bit floating point, where E4M3 has no
# infinity and 0x7F alone is its NaN: both are "shift <= 0" like any IEEE special.
FLOATS: dict[str, Format] = {
    "float16": Format(16, 10),
    "bfloat16": Format(16, 7),
    "float32": Format(32, 23),
    "float64": Format(64, 52),
    "float8_e4m3fn": Format(8, 3),
    "float8_e5m2": Format(8, 2),
}
INTEGER_WIDTHS: dict[str, int] = {
    f"{sign}int{width}": width for width in (8, 16, 32, 64) for sign in ("", "u")
}
WIDTHS: dict[str, int] = {
    **{name: fmt.width for name, fmt in FLOATS.items()},
    **INTEGER_WIDTHS,
}


def bits_type(dtype: str) -> np.dtype[np.unsignedinteger]:
    """The little-endian unsigned type that holds patterns of ``dtype``."""
    return np.dtype(f"<u{WIDTHS[dtype] // 8}")


def all_patterns(dtype: str) -> Bits:
    """Every bit pattern of an 8- or 16-bit type, ascending."""
    return np.arange(1 << WIDTHS[dtype], dtype=bits_type(dtype))


def is_nan(dtype: str, bits: Bits) -> Flags:
    """Which patterns are NaNs; none of an integer type is."""
    if dtype in INTEGER_WIDTHS:
        return np.zeros(bits.shape, np.bool_)
    fmt = FLOATS[dtype]
    infinity = fmt.sign_bit - (1 << fmt.fraction_bits)
    # E4M3 has numbers where others have infinity and NaNs, up to its one NaN.
    last_number = 0x7E if dtype == "float8_e4m3fn" else infinity
    nans: Flags = (bits & bits.dtype.type(fmt.sign_bit - 1)) > last_number
    return nans


def rounded(bits: Bits, dtype: str, rounding: str) -> Bits:
    """The patterns of ``bits`` rounded to integral values; integer types come back as they are."""
    if dtype in INTEGER_WIDTHS:
        return bits.copy()
    fmt = FLOATS[dtype]
    pattern = bits.astype(np.uint64)
    negative = pattern >= fmt.sign_bit
    magnitude = pattern & np.uint64(fmt.sign_bit - 1)
    result = np.where(negative, np.uint64(fmt.sign_bit), np.uint64(0)) | _rounded_magnitude(
        magnitude, negative, fmt, rounding
    )
    return result.astype(bits_type(dtype))


def _rounded_magnitude(
    magnitude: Bits, negative: Flags, fmt: Format, rounding: str
) -> npt.NDArray[np.uint64]:
    p = fmt.fraction_bits
    field = (magnitude >> np.uint64(p)).astype(np.int64)
    exponent = np.maximum(field, 1)
    implicit = np.where(field > 0, np.uint64(1 << p), np.uint64(0))
    significand = (magnitude & np.uint64((1 << p) - 1)) | implicit
    shift = fmt.bias + p - exponent
    # A significand has p + 1 bits, so from p + 2 on every value lies strictly between
    # 0 and 1/2, where the distance makes no difference; below 1 there is nothing to do.
    places = np.clip(shift, 1, p + 2).astype(np.uint64)
    integer = significand >> places
    rest = significand - (integer << places)
    half = np.uint64(1) << (places - np.uint64(1))
    integer += _increments(integer, rest, half, negative, rounding)
    # Putting the integer back under the old exponent lets a carry run into the exponent
    # field, which is then the right one; values below 1 can only become 0 or 1.
    below_one = np.where(integer == 1, np.uint64(fmt.bias << p), np.uint64(0))
    base = (exponent.astype(np.uint64) - np.uint64(1)) << np.uint64(p)
    moved = np.where(shift > p, below_one, base + (integer << places))
    return np.where(shift <= 0, magnitude, moved)


def _increments(
    integer: Bits, rest: Bits, half: Bits, negative: Flags, rounding: str
) -> npt.NDArray[np.uint64]:
    """1 where the magnitude goes to the next integer, 0 where what lies behind the point drops."""
    decisions: dict[str, Flags] = {
        "ties_to_even": (rest > half) | ((rest == half) & (integer % 2 == 1)),
        "ties_to_away": rest >= half,
        "toward_zero": np.zeros_like(negative),
        "toward_positive": (rest > 0) & ~negative,
        "toward_negative": (rest > 0) & negative,
    }
    return decisions[rounding].astype(np.uint64)
