"""Rounding of 8- and 16-bit types by table look-up."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import numpy as np
import numpy.typing as npt

from tensor_round.contract.dtypes import DType
from tensor_round.contract.rounding import Rounding

from .. import Bits, Bytes

#: Patterns looked up at a time: NumPy widens the indices, which then still fit into the cache.
BLOCK = 64 << 10


def look_up(entries: Bits, run: Bytes) -> None:
    """Round a run in place, 16 bits at a time, with a table of :func:`entries_of_16_bits`."""
    patterns = run[: run.size & ~1].view("<u2")
    for start in range(0, patterns.size, BLOCK):
        block = patterns[start : start + BLOCK]
        # mode="wrap" writes into ``out`` without a temporary array. No index is out of range.
        entries.take(block, out=block, mode="wrap")
    if run.size & 1:
        # An odd last byte is the lower one of a pair.
        run[-1] = entries[run[-1]] & 0xFF


def entries_of_16_bits(dtype: DType, rounding: Rounding) -> Bits:
    """The table of a 16-bit type, or of pairs of an 8-bit type."""
    return table(dtype, rounding) if dtype.itemsize == 2 else pair_table(dtype, rounding)


@cache
def table(dtype: DType, rounding: Rounding) -> Bits:
    """The result of each bit pattern of an 8- or 16-bit float type, read-only.

    Computed in float64, which represents the values of these types and their rounded values
    exactly. The result of a NaN is the NaN itself.
    """
    patterns = np.arange(1 << dtype.width, dtype=dtype.bits)
    # Signalling NaNs raise a floating-point flag; their entries do not depend on the result.
    with np.errstate(invalid="ignore"):
        values = patterns.view(dtype.numpy).astype(np.float64)
        results = _ROUND[rounding](values).astype(dtype.numpy).view(dtype.bits)
    entries = np.where(np.isnan(values), patterns, results)
    entries.flags.writeable = False
    return entries


@cache
def pair_table(dtype: DType, rounding: Rounding) -> Bits:
    """The table of pairs of an 8-bit type, read as one 16-bit pattern."""
    single = table(dtype, rounding)
    pairs = np.arange(1 << 16, dtype="<u2").view(np.uint8)
    entries: Bits = single[pairs].view("<u2")
    entries.flags.writeable = False
    return entries


Doubles = npt.NDArray[np.float64]


def _ties_to_away(values: Doubles) -> Doubles:
    whole = np.trunc(values)
    # The difference is exact. inf - inf is NaN, which the comparison below ignores.
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
