"""The reference's results, computed faster by NumPy or by tables. A test compares the two."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache

import numpy as np

from tensor_round.contract.dtypes import BY_NAME

from ..changes import Values
from ..reference import INTEGER_WIDTHS, WIDTHS, Bits, all_patterns, is_nan, rounded


def quick(bits: Bits, dtype: str, rounding: str) -> Bits:
    """The result of :func:`rounded`, computed faster."""
    if dtype in INTEGER_WIDTHS:
        return bits
    if WIDTHS[dtype] <= 16:
        found: Bits = np.take(_table(dtype, rounding), bits)
        return found
    with np.errstate(all="ignore"):
        values = _INSTRUCTIONS[rounding](bits.view(BY_NAME[dtype].numpy))
    return np.where(is_nan(dtype, bits), bits, values.view(bits.dtype))


@lru_cache(maxsize=32)
def _table(dtype: str, rounding: str) -> Bits:
    return rounded(all_patterns(dtype), dtype, rounding)


def _away(x: Values) -> Values:
    # With the predecessor of 1/2 the sum is never rounded up to an integer that is too large.
    less = np.nextafter(x.dtype.type(0.5), x.dtype.type(0))
    results: Values = np.trunc(x + np.copysign(less, x))
    return results


_INSTRUCTIONS: dict[str, Callable[[Values], Values]] = {
    "ties_to_even": np.rint,
    "ties_to_away": _away,
    "toward_zero": np.trunc,
    "toward_positive": np.ceil,
    "toward_negative": np.floor,
}
