"""The loops of functions with NumPy: one line for each kind of function."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, lru_cache, partial

from tensor_round.contract.dtypes import DType
from tensor_round.contract.functions import Convert, Function, ReducePrecision, RoundToIntegral
from tensor_round.contract.rounding import Rounding

from .. import Bytes
from .conversions import chain, convert
from .floats import BLOCK_BYTES, kernel, round_floats
from .narrow_floats import KERNELS, entries_of_16_bits, look_up, round_lanes

#: Makes so many elements of the second run from those of the first.
Run = Callable[[Bytes, Bytes, int], object]


@dataclass(frozen=True, slots=True)
class Loop:
    """Applies a function to a run of whole elements, in place or into another run.

    In place, the results lie at the beginning of the operands' memory: elsewhere they share none.
    Operands of ``split_bytes`` and more are split among threads: about 200 us of work. Waking a
    sleeping core takes 40 us, and between NumPy's calls threads contend for the GIL.
    """

    run: Run
    split_bytes: int


def loop(function: Function, source: DType, target: DType) -> Loop:
    """The fastest loop with NumPy for a function that is no copy."""
    return LOOPS[type(function)](function, source, target)


def _to_integral(function: Function, dtype: DType, _target: DType) -> Loop:
    return rounder(dtype, function.rounding)


@cache
def rounder(dtype: DType, rounding: Rounding) -> Loop:
    """The fastest way to round a type to integral values."""
    if dtype.itemsize > 2:
        return _copying(partial(round_floats, dtype.numpy, kernel(dtype, rounding)), 16 << 20)
    entries = entries_of_16_bits(dtype, rounding)
    if lanes := KERNELS.get((dtype, rounding)):
        return _copying(partial(round_lanes, lanes, entries), 2 << 20)
    return _copying(partial(look_up, entries), 1 << 20)


def _copying(in_place: Callable[[Bytes], None], split_bytes: int) -> Loop:
    """Make a loop of a function that works in place, by copying block by block."""

    def run(source: Bytes, target: Bytes, _count: int) -> None:
        if source is target:
            in_place(target)
            return
        for start in range(0, target.size, BLOCK_BYTES):
            block = target[start : start + BLOCK_BYTES]
            block[:] = source[start : start + BLOCK_BYTES]
            in_place(block)

    return Loop(run, split_bytes)


# Tables of 16 bits have up to 512 KiB.
@lru_cache(maxsize=64)
def _conversion(function: Function, source: DType, target: DType) -> Loop:
    steps = chain(function, source, target)
    return Loop(partial(convert, steps, source, target), 1 << 20)


#: The makers of loops, by the kind of function.
LOOPS: dict[type[Function], Callable[[Function, DType, DType], Loop]] = {
    RoundToIntegral: _to_integral,
    Convert: _conversion,
    ReducePrecision: _conversion,
}
