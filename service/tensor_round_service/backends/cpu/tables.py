"""Rounding as a look-up: every 8- and 16-bit type, every direction, by construction exact."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import numpy as np
import numpy.typing as npt

from tensor_round.dtypes import DType
from tensor_round.rounding import Rounding

from .. import Bits, Bytes

#: Patterns looked up at a time: NumPy widens the indices, and these stay in cache.
BLOCK = 64 << 10


def look_up(entries: Bits, run: Bytes) -> None:
    """Round a run of elements in place, 16 bits at a time, by :func:`entries_of_16_bits`."""
    patterns = run[: run.size & ~1].view("<u2")
    for start in range(0, patterns.size, BLOCK):
        block = patterns[start : start + BLOCK]
        # "wrap" looks no index up twice and writes straight into its output; none is out of range.
        entries.take(block, out=block, mode="wrap")
    if run.size & 1:
        # A last odd byte, as the lower one of two.
        run[-1] = entries[run[-1]] & 0xFF


def entries_of_16_bits(dtype: DType, rounding: Rounding) -> Bits:
    """The table of a 16-bit type, or of an 8-bit type for two neighbours at once."""
    return table(dtype, rounding) if dtype.itemsize == 2 else pair_table(dtype, rounding)


@cache
def table(dtype: DType, rounding: Rounding) -> Bits:
    """The result's bits for each bit pattern of an 8- or 16-bit float type, read-only.

    Made in float64, which holds every value of these types, and each of their
    roundings, exactly. A NaN's entry is the NaN itself.
    """
    patterns = np.arange(1 << (8 * dtype.itemsize), dtype=dtype.bits)
    # Signalling NaNs ring at every step here; their entries are their patterns all the same.
    with np.errstate(invalid="ignore"):
        values = patterns.view(dtype.numpy).astype(np.float64)
        results = _ROUND[rounding](values).astype(dtype.numpy).view(dtype.bits)
    entries = np.where(np.isnan(values), patterns, results)
    entries.flags.writeable = False
    return entries


@cache
def pair_table(dtype: DType, rounding: Rounding) -> Bits:
    """The table of an 8-bit type for two neighbours at once, read as one 16-bit pattern."""
    single = table(dtype, rounding)
    pairs = np.arange(1 << 16, dtype="<u2").view(np.uint8)
    entries: Bits = single[pairs].view("<u2")
    entries.flags.writeable = False
    return entries


Doubles = npt.NDArray[np.float64]


def _ties_to_away(values: Doubles) -> Doubles:
    whole = np.trunc(values)
    # Exact: the remainder of a float is a float. (inf - inf is NaN, and no remainder.)
    remainder = np.abs(values - whole)
    away: Doubles = np.where(remainder >= 0.5, whole + np.copysign(1.0, values), whole)
    return away


_ROUND: dict[Rounding, Callable[[Doubles], Doubles]] = {
    Rounding.TIES_TO_EVEN: np.rint,
    Rounding.TIES_TO_AWAY: _ties_to_away,
    Rounding.TOWARD_ZERO: np.trunc,
    Rounding.TOWARD_POSITIVE: np.ceil,
    Rounding.TOWARD_NEGATIVE: np.floor,
}
