"""Rounding of bfloat16 and float16 with NumPy's float32 instructions, two elements a word.

NumPy has vector instructions for 32-bit integers and float32, but none for these types. A 32-bit
word has two neighbouring elements. Each is moved into a 32-bit lane in which its pattern is a
float32. Both lanes are rounded at once, and the results are packed into a word again. This takes
half the time of a table look-up.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from tensor_round.contract.dtypes import BY_NAME, DType
from tensor_round.contract.rounding import Rounding

from .. import Bits, Bytes
from .floats import Kernel, kernel
from .tables import look_up

#: Words in a block: with their lanes they fit into a second-level cache of 1 MiB. Smaller blocks
#: need more calls, and threads contend for the GIL in each.
BLOCK_WORDS = 64 << 10
#: Below this size the dozen calls take longer than table look-ups.
MIN_BYTES = 64 << 10

Words = npt.NDArray[np.uint32]
#: Rounds words in place, with scratch memory of twice their size. Returns False, and leaves the
#: words unchanged, if it cannot round them.
RoundWords = Callable[[Words, Words], bool]


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
