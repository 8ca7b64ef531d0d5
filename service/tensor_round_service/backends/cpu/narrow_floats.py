"""Rounding of types of up to 16 bits with NumPy: by table, or long runs by float32 instructions.

NumPy has vector instructions for 32-bit integers and float32, but none for bfloat16 and float16.
A 32-bit word has two neighbouring elements. Each is moved into a 32-bit lane in which its pattern
is a float32. Both lanes are rounded at once, and the results are packed into a word again. This
takes half the time of a table look-up.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import numpy as np
import numpy.typing as npt

from tensor_round.contract.dtypes import BY_NAME, DType
from tensor_round.contract.rounding import Rounding

from .. import Bits, Bytes
from .floats import UFUNCS, Kernel, kernel

#: Patterns looked up at a time: NumPy widens the indices, which then still fit into the cache.
BLOCK_PATTERNS = 64 << 10
#: Words in a block: with their lanes they fit into a second-level cache of 1 MiB. Smaller blocks
#: need more calls, and threads contend for the GIL in each.
BLOCK_WORDS = 64 << 10
#: Below this size the dozen calls take longer than table look-ups.
MIN_BYTES = 64 << 10

Doubles = npt.NDArray[np.float64]
Words = npt.NDArray[np.uint32]
#: Rounds words in place, with scratch memory of twice their size. Returns False, and leaves the
#: words unchanged, if it cannot round them.
RoundWords = Callable[[Words, Words], bool]


def look_up(entries: Bits, run: Bytes) -> None:
    """Round a run in place, 16 bits at a time, with a table of :func:`entries_of_16_bits`."""
    patterns = run[: run.size & ~1].view("<u2")
    for start in range(0, patterns.size, BLOCK_PATTERNS):
        block = patterns[start : start + BLOCK_PATTERNS]
        # mode="wrap" writes into ``out`` without a temporary array. No index is out of range.
        entries.take(block, out=block, mode="wrap")
    if run.size & 1:
        # An odd last byte is the lower one of a pair.
        run[-1] = entries[run[-1]] & 0xFF


def entries_of_16_bits(dtype: DType, rounding: Rounding) -> Bits:
    """The table of a 16-bit type, or of the pairs or fours of a narrower one."""
    return table(dtype, rounding) if dtype.width == 16 else pair_table(dtype, rounding)


@cache
def table(dtype: DType, rounding: Rounding) -> Bits:
    """The result of each bit pattern of a float type of up to 16 bits, read-only.

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
    """The table of two bytes of a narrower type, read as one 16-bit pattern."""
    single = table(dtype, rounding)
    if dtype.is_sub_byte:
        single = (single[:, None] << np.uint8(dtype.width) | single).reshape(-1)
    pairs = np.arange(1 << 16, dtype="<u2").view(np.uint8)
    entries: Bits = single[pairs].view("<u2")
    entries.flags.writeable = False
    return entries


def _ties_to_away(values: Doubles) -> Doubles:
    whole = np.trunc(values)
    # The difference is exact. inf - inf is NaN, which the comparison below ignores.
    remainder = np.abs(values - whole)
    away: Doubles = np.where(remainder >= 0.5, whole + np.copysign(1.0, values), whole)
    return away


_ROUND: dict[Rounding, Callable[[Doubles], Doubles]] = {
    **UFUNCS,
    Rounding.TIES_TO_AWAY: _ties_to_away,
}


def round_lanes(run_words: RoundWords, entries: Bits, run: Bytes) -> None:
    """Round a run of 16-bit elements in place.

    Short runs, an odd last element, and blocks that ``run_words`` cannot round are rounded with
    the table ``entries``.
    """
    if run.size < MIN_BYTES:
        look_up(entries, run)
        return
    paired = run.size & ~3
    words = run[:paired].view("<u4")
    scratch = np.empty(2 * min(words.size, BLOCK_WORDS), np.uint32)
    for start in range(0, words.size, BLOCK_WORDS):
        block = words[start : start + BLOCK_WORDS]
        if not run_words(block, scratch[: 2 * block.size]):
            look_up(entries, block.view(np.uint8))
    look_up(entries, run[paired:])


def _bfloat16(rounding: Rounding) -> RoundWords:
    """Round as float32: a bfloat16's pattern is the upper half of the same value's in float32."""
    float32: Kernel = kernel(BY_NAME["float32"], rounding)

    def run(words: Words, lanes: Words) -> bool:
        upper, lower = lanes[: words.size], lanes[words.size :]
        np.bitwise_and(words, 0xFFFF0000, out=upper)
        np.left_shift(words, 16, out=lower)
        values = lanes.view(np.float32)
        if not float32.accepts(values):
            return False
        float32.fast(values, values)
        np.right_shift(lower, 16, out=lower)
        np.bitwise_or(upper, lower, out=words)
        return True

    return run


def _float16(before: Callable[[Words], object] | None = None) -> RoundWords:
    """Round to nearest by adding and subtracting a power of two; ``before`` changes the lanes.

    The magnitude of a float16, shifted left by 13 bits, is a float32 of the same value times
    ``unit`` = 2^-112. Infinity and NaNs become numbers, which are integers times ``unit``.
    float32 values of 2^23 ``unit`` are one ``unit`` apart, so adding that constant rounds a
    magnitude to an integer, ties to even. The signs stay in the words.
    """
    float16, float32 = BY_NAME["float16"], BY_NAME["float32"]
    shift = float32.mantissa_bits - float16.mantissa_bits
    unit = 2.0 ** (float16.exponent_bias - float32.exponent_bias)
    grid = np.float32(unit * 2.0**float32.mantissa_bits)
    magnitude, low_magnitude = 0x7FFF0000, 0x00007FFF

    def run(words: Words, lanes: Words) -> bool:
        upper, lower = lanes[: words.size], lanes[words.size :]
        np.bitwise_and(words, magnitude, out=upper)
        np.right_shift(upper, 16 - shift, out=upper)
        np.bitwise_and(words, low_magnitude, out=lower)
        np.left_shift(lower, shift, out=lower)
        if before is not None:
            before(lanes)
        magnitudes = lanes.view(np.float32)
        np.add(magnitudes, grid, out=magnitudes)
        np.subtract(magnitudes, grid, out=magnitudes)
        np.left_shift(upper, 16 - shift, out=upper)
        np.right_shift(lower, shift, out=lower)
        np.bitwise_or(upper, lower, out=upper)
        np.bitwise_and(words, 0x80008000, out=words)
        np.bitwise_or(words, upper, out=words)
        return True

    return run


def _set_last_bit(lanes: Words) -> None:
    """Move ties away from zero as :mod:`.floats` does; no float16 uses the last bit of a lane."""
    np.bitwise_or(lanes, 1, out=lanes)


#: The types and roundings that are faster here than by table.
KERNELS: dict[tuple[DType, Rounding], RoundWords] = {
    **{(BY_NAME["bfloat16"], rounding): _bfloat16(rounding) for rounding in Rounding},
    # toward_zero gains too little; the other directions need the sign.
    (BY_NAME["float16"], Rounding.TIES_TO_EVEN): _float16(),
    (BY_NAME["float16"], Rounding.TIES_TO_AWAY): _float16(_set_last_bit),
}
