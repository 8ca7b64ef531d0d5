"""JSON numbers as text to elements: floats rounded once, integers exactly or not at all.

A decimal that is converted to float64 and then to float16 is rounded twice. The result is wrong
where the first rounding produces a tie of the second: 1.0004882812500002 rounds to a float64
exactly between two float16 values, though the decimal is above their midpoint. So only such ties
are decided by the decimal itself; all other decimals are rounded from their nearest float64.
"""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from typing import Any

import numpy as np
import numpy.typing as npt

from tensor_round.contract.dtypes import BY_NAME, DType

_DOUBLE_FRACTION_BITS = BY_NAME["float64"].mantissa_bits
_DOUBLE_BIAS = BY_NAME["float64"].exponent_bias
#: Numbers converted at once: NumPy's temporary arrays stay in the cache, and other threads can run
#: in between.
_BLOCK = 65_536
#: The most characters of a 64-bit integer: JSON has no leading zeros.
_MAX_LENGTH = len(str(-(2**63)))


def patterns(texts: Sequence[bytes | str], dtype: DType) -> npt.NDArray[np.unsignedinteger]:
    """The patterns of decimals in a float dtype, rounded to nearest, ties to even.

    Each text is a JSON number or one of NaN, Infinity and -Infinity. Zeros keep their sign.
    Overflow gives infinity, or NaN in float8_e4m3fn, which has no infinity.
    """
    bits = np.empty(len(texts), dtype.bits)
    for start in range(0, len(texts), _BLOCK):
        block = texts[start : start + _BLOCK]
        doubles = np.fromiter(map(float, block), np.float64, count=len(block))
        bits[start : start + _BLOCK] = (
            doubles.view(np.uint64) if dtype.name == "float64" else _narrowed(doubles, block, dtype)
        )
    return bits


def _narrowed(
    doubles: npt.NDArray[np.float64], texts: Sequence[bytes | str], dtype: DType
) -> npt.NDArray[np.int64]:
    patterns = _magnitudes(doubles, texts, dtype)
    patterns[np.isnan(doubles)] = _nan(dtype)
    patterns |= np.signbit(doubles).astype(np.int64) << (dtype.width - 1)
    return patterns


def _nan(dtype: DType) -> int:
    """The pattern of the quiet NaN without payload; the only NaN of a type without infinities."""
    quiet = 1 << (dtype.mantissa_bits - 1)
    return dtype.exponent_mask | (quiet if dtype.has_infinity else (1 << dtype.mantissa_bits) - 1)


def _overflow(dtype: DType) -> int:
    """The pattern that overflow gives: infinity, or NaN where there is none, as in ml_dtypes."""
    return dtype.exponent_mask if dtype.has_infinity else _nan(dtype)


def _magnitudes(
    doubles: npt.NDArray[np.float64], texts: Sequence[bytes | str], dtype: DType
) -> npt.NDArray[np.int64]:
    """The patterns without their sign bits; those of NaNs are undefined."""
    bits = doubles.view(np.int64)
    fraction_bits, least_exponent = dtype.mantissa_bits, 1 - dtype.exponent_bias
    exponents = ((bits >> _DOUBLE_FRACTION_BITS) & 0x7FF) - _DOUBLE_BIAS
    implicit = 1 << _DOUBLE_FRACTION_BITS
    # Zeros and subnormals of float64 get the implicit bit too. They are far below half of any
    # format's least number, so they still become zero.
    significands = (bits & (implicit - 1)) | implicit
    below = np.maximum(least_exponent - exponents, 0)
    # A shift by two bits more than a significand has leaves nothing, as any larger shift would.
    drop = np.minimum(_DOUBLE_FRACTION_BITS - fraction_bits + below, _DOUBLE_FRACTION_BITS + 2)
    kept = significands >> drop
    rest = significands - (kept << drop)
    half = np.int64(1) << (drop - 1)
    up = (rest > half) | ((rest == half) & (kept % 2 == 1))
    for index in np.flatnonzero((rest == half) & np.isfinite(doubles)).tolist():
        side = _side(texts[index], float(doubles[index]))
        if side:
            up[index] = side > 0
    # The implicit bit, if kept, increments the exponent field; so does a carry.
    fields = np.maximum(exponents, least_exponent) - least_exponent
    magnitudes: npt.NDArray[np.int64] = (fields << fraction_bits) + kept + up
    return np.minimum(magnitudes, _overflow(dtype), out=magnitudes)


def _side(text: bytes | str, double: float) -> int:
    """Compare a decimal's magnitude with its nearest float64's: 1 above, -1 below, 0 equal."""
    decimal = Decimal(text if isinstance(text, str) else text.decode("ascii")).copy_abs()
    nearest = Decimal(abs(double))
    return int(decimal > nearest) - int(decimal < nearest)


def limits(dtype: DType) -> tuple[int, int]:
    """The least and the greatest value of an integer dtype."""
    info = np.iinfo(dtype.numpy)
    return int(info.min), int(info.max)


def leading(texts: Sequence[bytes], dtype: DType) -> npt.NDArray[Any]:
    """The values of JSON numbers, up to the first that is no integer of the dtype.

    If the result is shorter than ``texts``, its length is the index of the wrong number, and its
    values are undefined. ``1`` is an integer; ``1.0`` and ``1e0`` are not.
    """
    values = np.empty(len(texts), dtype.numpy)
    for start in range(0, len(texts), _BLOCK):
        block = texts[start : start + _BLOCK]
        integers = _integers(block, dtype)
        if integers is None:
            wrong = next(i for i, text in enumerate(block) if _integers([text], dtype) is None)
            return values[: start + wrong]
        values[start : start + _BLOCK] = integers
    return values


def _integers(texts: Sequence[bytes], dtype: DType) -> list[int] | None:
    # The length comes first: Python parses long integers slowly, and refuses very long ones.
    if max(map(len, texts)) > _MAX_LENGTH:
        return None
    try:
        values = list(map(int, texts))
    except ValueError:  # a fraction, an exponent, a token
        return None
    low, high = limits(dtype)
    return values if low <= min(values) and max(values) <= high else None
