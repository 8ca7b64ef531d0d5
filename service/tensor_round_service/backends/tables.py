"""Rounding as a look-up: every 8- and 16-bit type, every direction, by construction exact."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import numpy as np
import numpy.typing as npt

from tensor_round.dtypes import DType
from tensor_round.rounding import Rounding

from . import Bits, Bytes

#: Elements looked up at a time: NumPy widens the indices, and these stay in cache.
BLOCK = 64 << 10


def look_up(dtype: DType, rounding: Rounding, run: Bytes) -> None:
    """Round a run of 8- or 16-bit elements in place, 16 bits at a time."""
    entries = table(dtype, rounding)
    if dtype.itemsize == 1:
        even = run.size & ~1
        # A last odd one alone; the rest two by two.
        run[even:] = entries[run[even:]]
        run, entries = run[:even], pair_table(dtype, rounding)
    patterns = run.view("<u2")
    for start in range(0, patterns.size, BLOCK):
        block = patterns[start : start + BLOCK]
        # "wrap" looks no index up twice and writes straight into its output; none is out of range.
        np.take(entries, block, out=block, mode="wrap")


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
