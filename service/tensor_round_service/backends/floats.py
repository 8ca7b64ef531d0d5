"""float32 and float64, block by block, with every NaN's bits kept.

NumPy's rounding ufuncs are exact but quiet a signalling NaN. They also raise the
FPU's invalid flag when they do, and for nothing else: not for quiet NaNs, whose
bits they keep, nor for infinities. So a block is rounded from its place into
scratch memory, and only where the flag was raised are the NaNs put back. That
costs nothing on clean data. :func:`flags_tell` proves the premise on this
machine; where it failed, every block is searched for NaNs.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np

from tensor_round.dtypes import BY_NAME, DType
from tensor_round.rounding import Rounding

from . import Bits

#: Bytes rounded at a time: source and scratch block fit the second-level cache together.
BLOCK_BYTES = 256 << 10

Floats = np.ndarray[tuple[int], np.dtype[Any]]
#: Rounds the first array into the second, which shares nothing with it.
Kernel = Callable[[Floats, Floats], object]


class Alarm:
    """Remembers that the invalid flag was raised; the ``call`` of ``np.errstate``."""

    rung = False

    def __call__(self, _error: str, _flag: int) -> None:
        """Ring, as NumPy asks of it once an operation raised the flag."""
        self.rung = True


def kernel(dtype: DType, rounding: Rounding) -> Kernel:
    """The NumPy operations of one direction, for float32 or float64."""
    if rounding is Rounding.TIES_TO_AWAY:
        return _ties_to_away(dtype)
    return _UFUNCS[rounding]


_UFUNCS: dict[Rounding, Kernel] = {
    Rounding.TIES_TO_EVEN: np.rint,
    Rounding.TOWARD_ZERO: np.trunc,
    Rounding.TOWARD_POSITIVE: np.ceil,
    Rounding.TOWARD_NEGATIVE: np.floor,
}


def _ties_to_away(dtype: DType) -> Kernel:
    """trunc(x + copysign(pred(0.5), x)); the predecessor of 0.5, since 0.5 itself carries too far.

    With 0.5, 0.49999997 would reach 1 and odd integers from 2^23 on the next one.
    The sign is copied by integer operations: NumPy's copysign is several times slower.
    """
    bits = dtype.bits
    sign = np.array(1 << (8 * dtype.itemsize - 1), bits)[()]
    below_half = np.nextafter(dtype.numpy.type(0.5), dtype.numpy.type(0)).view(bits)

    def run(source: Floats, target: Floats) -> None:
        target_bits = target.view(bits)
        np.bitwise_and(source.view(bits), sign, out=target_bits)
        np.bitwise_or(target_bits, below_half, out=target_bits)
        np.add(source, target, out=target)
        np.trunc(target, out=target)

    return run


def round_floats(
    source: Floats, target: Floats | None, run: Kernel, *, suspicious: bool = False
) -> None:
    """Round ``source`` into ``target``, which shares nothing with it, or in place where None.

    ``suspicious`` searches every block for NaNs instead of trusting the flag.
    """
    block = BLOCK_BYTES // source.itemsize
    scratch = np.empty(min(block, source.size) if target is None else 0, source.dtype)
    alarm = Alarm()
    # Nothing else can happen here, and a caller's own np.seterr must not reach in.
    with np.errstate(all="ignore", invalid="call", call=alarm):
        for start in range(0, source.size, block):
            values = source[start : start + block]
            result = scratch[: values.size] if target is None else target[start : start + block]
            run(values, result)
            if alarm.rung or suspicious:
                alarm.rung = False
                _restore_nans(values, result)
            if target is None:
                values[:] = result


def _restore_nans(values: Floats, result: Floats) -> None:
    bits = f"<u{values.itemsize}"
    np.copyto(result.view(bits), values.view(bits), where=np.isnan(values))


@cache
def flags_tell() -> bool:
    """Whether this machine raises the flag for signalling NaNs alone and keeps quiet ones."""
    return all(
        _flag_tells(BY_NAME[name], rounding)
        for name in ("float32", "float64")
        for rounding in Rounding
    )


def _flag_tells(dtype: DType, rounding: Rounding) -> bool:
    infinity = ((1 << (8 * dtype.itemsize - 1)) - 1) >> dtype.mantissa_bits << dtype.mantissa_bits
    signalling, quiet = infinity | 5, infinity | 1 << (dtype.mantissa_bits - 1) | 5
    # 37 elements: several vector registers and a scalar tail, the lone NaN once at each place.
    places = np.eye(37, dtype=dtype.bits)
    quiet_ones = places * dtype.bits.type(quiet)
    return all(
        _watched(dtype, rounding, row)[0] for row in places * dtype.bits.type(signalling)
    ) and all(
        not rung and np.array_equal(row, result)
        for row in quiet_ones
        for rung, result in [_watched(dtype, rounding, row)]
    )


def _watched(dtype: DType, rounding: Rounding, patterns: Bits) -> tuple[bool, Bits]:
    """Whether rounding these patterns raises the flag, and their results."""
    alarm = Alarm()
    result = np.empty_like(patterns)
    with np.errstate(all="ignore", invalid="call", call=alarm):
        kernel(dtype, rounding)(patterns.view(dtype.numpy), result.view(dtype.numpy))
    return alarm.rung, result
