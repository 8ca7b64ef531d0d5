"""Rounding of float32 and float64 with NumPy, in place, block by block, preserving every NaN.

NumPy's rounding ufuncs are exact, but they change a signalling NaN into a quiet one. So each
block is checked for NaNs first, by ``argmax``, which returns the first NaN if there is one. The
check runs at memory speed, takes a third of the time of a copy, and loads the block into the
cache. Blocks without a NaN are rounded by the fast way. The others, which are rare, are rounded
by a general way that restores the NaNs from a copy.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

from tensor_round.contract.dtypes import DType
from tensor_round.contract.rounding import Rounding

from .. import Bytes

#: Size of a block: half of a common second-level cache. Larger blocks leave the cache before they
#: are rounded; smaller ones need more calls, and threads contend for the GIL in each.
BLOCK_BYTES = 1 << 20

Floats = np.ndarray[tuple[int], np.dtype[Any]]
#: Rounds an array in place; both arguments are the array, as the ufuncs of NumPy take it.
InPlace = Callable[[Floats, Floats], object]


@dataclass(frozen=True, slots=True)
class Kernel:
    """The two ways to round a non-empty block.

    ``fast`` is correct for the blocks that ``accepts`` returns True for. ``general`` is correct
    for all values except NaNs, which it may change.
    """

    accepts: Callable[[Floats], bool]
    fast: InPlace
    general: InPlace


@cache
def kernel(dtype: DType, rounding: Rounding) -> Kernel:
    """The kernel of float32 or float64 for one rounding."""
    if rounding is Rounding.TIES_TO_AWAY:
        return Kernel(
            _has_quarter_precision(dtype), _set_last_bit_and_rint(dtype), _add_half_and_trunc
        )
    ufunc = UFUNCS[rounding]
    return Kernel(_has_no_nan, ufunc, ufunc)


def round_floats(dtype: np.dtype[Any], how: Kernel, run: Bytes) -> None:
    """Round a run of float32 or float64 elements in place."""
    values = run.view(dtype)
    step = BLOCK_BYTES // dtype.itemsize
    for start in range(0, values.size, step):
        block = values[start : start + step]
        if how.accepts(block):
            how.fast(block, block)
        else:
            _round_around_nans(block, how.general)


def _round_around_nans(values: Floats, run: InPlace) -> None:
    bits = values.view(f"<u{values.itemsize}")
    nans, kept = np.isnan(values), bits.copy()
    # A signalling NaN raises a floating-point flag, which a caller's np.seterr must not see.
    with np.errstate(all="ignore"):
        run(values, values)
    np.copyto(bits, kept, where=nans)


def _has_no_nan(values: Floats) -> bool:
    largest = values[values.argmax()]
    return bool(largest == largest)


UFUNCS: dict[Rounding, np.ufunc] = {
    Rounding.TIES_TO_EVEN: np.rint,
    Rounding.TOWARD_ZERO: np.trunc,
    Rounding.TOWARD_POSITIVE: np.ceil,
    Rounding.TOWARD_NEGATIVE: np.floor,
}


def _set_last_bit_and_rint(dtype: DType) -> InPlace:
    """Round ties to away by setting the last bit and rounding ties to even.

    If the last bit is worth a quarter or less, it is clear in ties and in integers. Setting it
    moves a tie away from zero, and moves no other value to or across a tie.
    """
    bits = dtype.bits

    def run(values: Floats, out: Floats) -> None:
        patterns = values.view(bits)
        np.bitwise_or(patterns, 1, out=patterns)
        np.rint(values, out=out)

    return run


def _has_quarter_precision(dtype: DType) -> Callable[[Floats], bool]:
    """A check that the last bit of every value is worth a quarter or less."""
    limit = dtype.numpy.type(2.0 ** (dtype.mantissa_bits - 1))

    def accepts(values: Floats) -> bool:
        # argmax and argmin return a NaN if there is one, and comparisons with NaN are False.
        return bool(values[values.argmax()] < limit and values[values.argmin()] > -limit)

    return accepts


def _add_half_and_trunc(values: Floats, out: Floats) -> None:
    """Round ties to away as trunc(x + copysign(h, x)); h is the largest float below 0.5.

    With 0.5 in place of h, 0.49999997 would become 1, and odd integers from 2^23 on would become
    the next integer. ``clip(x, -h, h)`` costs less than ``copysign``. It doubles values between
    -h and h, which then are still below 1.
    """
    half = np.nextafter(values.dtype.type(0.5), values.dtype.type(0))
    np.add(values, np.clip(values, -half, half), out=out)
    np.trunc(out, out=out)
