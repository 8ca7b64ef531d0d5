"""Decimal numbers to the bit patterns of a float format, in one rounding.

A decimal that goes to float16 by way of float32 or float64 is rounded twice, and
where the first rounding lands exactly between two float16 values the second one
no longer knows on which side the decimal lay (1.0004882812500002 is such a one).
So each decimal is rounded to the nearest float64 first, which keeps its side of
every midpoint but those it lands on, and only there the decimal itself is asked.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal

import numpy as np
import numpy.typing as npt

from ..dtypes import DType

#: Stored fraction bits and exponent bias of float64 (IEEE 754-2019, table 3.5).
_DOUBLE_FRACTION_BITS = 52
_DOUBLE_BIAS = 1023
#: Decimals worked on at once: what NumPy needs besides stays small and in the cache.
_BLOCK = 65_536


@dataclass(frozen=True, slots=True)
class _Format:
    """A format narrower than float64: where its normal numbers begin, and its specials."""

    fraction_bits: int
    least_exponent: int
    infinity: int
    nan: int


_FORMATS = {
    "float16": _Format(10, -14, infinity=0x7C00, nan=0x7E00),
    "bfloat16": _Format(7, -126, infinity=0x7F80, nan=0x7FC0),
    "float32": _Format(23, -126, infinity=0x7F800000, nan=0x7FC00000),
    "float8_e5m2": _Format(2, -14, infinity=0x7C, nan=0x7E),
    # No infinities: what overflows becomes NaN, as in ml_dtypes (OCP OFP8 leaves the choice).
    "float8_e4m3fn": _Format(3, -6, infinity=0x7F, nan=0x7F),
}


def patterns(texts: Sequence[bytes | str], dtype: DType) -> npt.NDArray[np.unsignedinteger]:
    """The bit patterns of decimals in a float dtype: nearest, ties to even, signed zeros kept.

    Each text is a JSON number or one of NaN, Infinity and -Infinity. Overflow goes
    to infinity, or to NaN where the dtype has none (float8_e4m3fn).
    """
    bits = np.empty(len(texts), dtype.bits)
    for start in range(0, len(texts), _BLOCK):
        block = texts[start : start + _BLOCK]
        doubles = np.fromiter(map(float, block), np.float64, count=len(block))
        bits[start : start + _BLOCK] = (
            doubles.view(np.uint64)
            if dtype.name == "float64"
            else _narrowed(doubles, block, _FORMATS[dtype.name], dtype)
        )
    return bits


def _narrowed(
    doubles: npt.NDArray[np.float64], texts: Sequence[bytes | str], fmt: _Format, dtype: DType
) -> npt.NDArray[np.int64]:
    patterns = _magnitudes(doubles, texts, fmt)
    patterns[np.isnan(doubles)] = fmt.nan
    patterns |= np.signbit(doubles).astype(np.int64) << (8 * dtype.itemsize - 1)
    return patterns


def _magnitudes(
    doubles: npt.NDArray[np.float64], texts: Sequence[bytes | str], fmt: _Format
) -> npt.NDArray[np.int64]:
    """The patterns without their sign bits; what a NaN becomes here means nothing."""
    bits = doubles.view(np.int64)
    exponents = ((bits >> _DOUBLE_FRACTION_BITS) & 0x7FF) - _DOUBLE_BIAS
    implicit = 1 << _DOUBLE_FRACTION_BITS
    # Zeros and subnormals of float64 get the implicit bit too: far below half of any
    # format's least number, they drop to zero with it as without it.
    significands = (bits & (implicit - 1)) | implicit
    below = np.maximum(fmt.least_exponent - exponents, 0)
    # Two places more than a significand has leave nothing, however many more there are.
    drop = np.minimum(_DOUBLE_FRACTION_BITS - fmt.fraction_bits + below, _DOUBLE_FRACTION_BITS + 2)
    kept = significands >> drop
    rest = significands - (kept << drop)
    half = np.int64(1) << (drop - 1)
    up = (rest > half) | ((rest == half) & (kept % 2 == 1))
    for index in np.flatnonzero((rest == half) & np.isfinite(doubles)).tolist():
        side = _side(texts[index], float(doubles[index]))
        if side:
            up[index] = side > 0
    # The implicit bit, where it is kept, counts the exponent field up by one; so does a carry.
    fields = np.maximum(exponents, fmt.least_exponent) - fmt.least_exponent
    magnitudes: npt.NDArray[np.int64] = (fields << fmt.fraction_bits) + kept + up
    return np.minimum(magnitudes, fmt.infinity, out=magnitudes)


def _side(text: bytes | str, double: float) -> int:
    """Where the decimal lies from the float64 nearest to it: 1 away from zero, -1 toward it."""
    decimal = Decimal(text if isinstance(text, str) else text.decode("ascii")).copy_abs()
    nearest = Decimal(abs(double))
    return int(decimal > nearest) - int(decimal < nearest)
