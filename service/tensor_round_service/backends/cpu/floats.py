"""float32 and float64, in place, block by block, with every NaN's bits kept.

NumPy's rounding ufuncs are exact, but they quiet a signalling NaN, and its bits are
gone when the results lie where it lay. So a block is looked at before it is touched:
``argmax`` takes the first NaN for the largest element. It reads as fast as memory
gives, a third of the cost of a spare copy, and what it has read the rounding finds in
the cache. Blocks that pass are rounded the quick way; the others, which are few, by a
thorough way that puts the NaNs back from a copy.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

from tensor_round.dtypes import DType
from tensor_round.rounding import Rounding

from .. import Bytes

#: Bytes looked at and then rounded: half of a common second-level cache. Longer blocks leave it
#: before they are rounded; shorter ones cost more calls, and threads meet in each of them.
BLOCK_BYTES = 1 << 20

Floats = np.ndarray[tuple[int], np.dtype[Any]]
#: Rounds an array in place.
InPlace = Callable[[Floats], object]


@dataclass(frozen=True, slots=True)
class Kernel:
    """The two ways to round in one direction.

    ``suits`` says of an array, not an empty one, whether ``quick`` may round it;
    ``thorough`` rounds any, but quiets signalling NaNs.
    """

    suits: Callable[[Floats], bool]
    quick: InPlace
    thorough: InPlace


@cache
def kernel(dtype: DType, rounding: Rounding) -> Kernel:
    """The kernel of one direction, for float32 or float64."""
    if rounding is Rounding.TIES_TO_AWAY:
        return Kernel(_has_fractions_to_spare(dtype), _nudge_and_rint(dtype), _add_half_and_trunc)
    run = _in_place(_UFUNCS[rounding])
    return Kernel(_has_no_nan, run, run)


def round_floats(dtype: np.dtype[Any], how: Kernel, run: Bytes) -> None:
    """Round a run of float32 or float64 elements in place."""
    values = run.view(dtype)
    step = BLOCK_BYTES // dtype.itemsize
    for start in range(0, values.size, step):
        block = values[start : start + step]
        if how.suits(block):
            how.quick(block)
        else:
            _round_around_nans(block, how.thorough)


def _round_around_nans(values: Floats, run: InPlace) -> None:
    bits = values.view(f"<u{values.itemsize}")
    nans, kept = np.isnan(values), bits.copy()
    # A signalling NaN rings here, and a caller's own np.seterr must not hear it.
    with np.errstate(all="ignore"):
        run(values)
    np.copyto(bits, kept, where=nans)


def _has_no_nan(values: Floats) -> bool:
    largest = values[values.argmax()]
    return bool(largest == largest)


_UFUNCS: dict[Rounding, np.ufunc] = {
    Rounding.TIES_TO_EVEN: np.rint,
    Rounding.TOWARD_ZERO: np.trunc,
    Rounding.TOWARD_POSITIVE: np.ceil,
    Rounding.TOWARD_NEGATIVE: np.floor,
}


def _in_place(ufunc: np.ufunc) -> InPlace:
    def run(values: Floats) -> None:
        ufunc(values, out=values)

    return run


# Ties to away has no ufunc.


def _nudge_and_rint(dtype: DType) -> InPlace:
    """Set the last bit, then round ties to even: no tie is left.

    Where the last bit is worth a quarter or less, ties and integers have it clear.
    Setting it moves a tie off, away from zero, and moves nothing else onto or over one.
    """
    bits = dtype.bits

    def run(values: Floats) -> None:
        patterns = values.view(bits)
        np.bitwise_or(patterns, 1, out=patterns)
        np.rint(values, out=values)

    return run


def _has_fractions_to_spare(dtype: DType) -> Callable[[Floats], bool]:
    """Whether every last bit is worth a quarter or less: magnitudes below 2^22, or 2^51."""
    limit = dtype.numpy.type(2.0 ** (dtype.mantissa_bits - 1))

    def suits(values: Floats) -> bool:
        # A NaN is the largest and the smallest at once, and below nothing.
        return bool(values[values.argmax()] < limit and values[values.argmin()] > -limit)

    return suits


def _add_half_and_trunc(values: Floats) -> None:
    """trunc(x + h with x's sign), where h is the float below 0.5, since 0.5 itself carries too far.

    With 0.5, 0.49999997 would reach 1 and odd integers from 2^23 on the next one. Clipping
    gives h its sign, for less than ``copysign``; what lies between -h and h is doubled
    instead, which stays below 1 just the same.
    """
    half = np.nextafter(values.dtype.type(0.5), values.dtype.type(0))
    np.add(values, np.clip(values, -half, half), out=values)
    np.trunc(values, out=values)
