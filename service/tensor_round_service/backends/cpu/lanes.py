"""bfloat16 and float16 by float32's instructions, two elements to a word.

NumPy has no vector instructions for these types, but has them for 32-bit integers and
for float32. A word holds two neighbours; each is moved into a lane of its own, where
its pattern is a float32, both lanes are rounded at once, and the results are packed
together again. Nothing is ever widened, so every step runs at the cache's speed, and
all of them take half as long as looking both elements up.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from tensor_round.dtypes import BY_NAME, DType
from tensor_round.rounding import Rounding

from .. import Bits, Bytes
from .floats import Kernel, kernel
from .tables import look_up

#: Words taken apart at a time: with their lanes they stay in a second-level cache of 1 MiB. Smaller
#: blocks cost more calls, and threads meet at the interpreter's lock in each.
BLOCK_WORDS = 64 << 10
#: A dozen calls cost more than a look-up of each element below this.
LEAST_BYTES = 64 << 10

Words = npt.NDArray[np.uint32]
#: Rounds words in place, given memory for two words each; False, and nothing done, if it cannot.
RoundWords = Callable[[Words, Words], bool]


def round_lanes(run_words: RoundWords, entries: Bits, run: Bytes) -> None:
    """Round a run of 16-bit elements in place.

    By table go short runs, a last odd element, and blocks that the kernel cannot round.
    """
    if run.size < LEAST_BYTES:
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
    """A bfloat16 is the upper half of the float32 of the same value; so is each result."""
    float32: Kernel = kernel(BY_NAME["float32"], rounding)

    def run(words: Words, lanes: Words) -> bool:
        upper, lower = lanes[: words.size], lanes[words.size :]
        np.bitwise_and(words, 0xFFFF0000, out=upper)
        np.left_shift(words, 16, out=lower)
        values = lanes.view(np.float32)
        if not float32.suits(values):
            return False
        float32.quick(values)
        np.right_shift(lower, 16, out=lower)
        np.bitwise_or(upper, lower, out=words)
        return True

    return run


def _float16(before: Callable[[Words], object] | None = None) -> RoundWords:
    """A float16's magnitude, 13 bits up, is a float32: its value times 2^-112.

    Infinity and NaNs are then numbers too, from 2^16 times 2^-112 on. Float32s from
    2^23 times 2^-112 are 2^-112 apart, so adding that rounds a magnitude to an integer,
    ties to even, and subtracting it again leaves the result. The signs never move.
    """
    grid = np.float32(2.0 ** (23 - 112))

    def run(words: Words, lanes: Words) -> bool:
        upper, lower = lanes[: words.size], lanes[words.size :]
        np.bitwise_and(words, 0x7FFF0000, out=upper)
        np.right_shift(upper, 3, out=upper)
        np.bitwise_and(words, 0x00007FFF, out=lower)
        np.left_shift(lower, 13, out=lower)
        if before is not None:
            before(lanes)
        magnitudes = lanes.view(np.float32)
        np.add(magnitudes, grid, out=magnitudes)
        np.subtract(magnitudes, grid, out=magnitudes)
        np.left_shift(upper, 3, out=upper)
        np.right_shift(lower, 13, out=lower)
        np.bitwise_or(upper, lower, out=upper)
        np.bitwise_and(words, 0x80008000, out=words)
        np.bitwise_or(words, upper, out=words)
        return True

    return run


def _nudge(lanes: Words) -> None:
    """Move every tie off, away from zero, as :mod:`.floats` does: no float16 has this bit."""
    np.bitwise_or(lanes, 1, out=lanes)


#: The types and directions that are rounded faster here than by table.
KERNELS: dict[tuple[DType, Rounding], RoundWords] = {
    **{(BY_NAME["bfloat16"], rounding): _bfloat16(rounding) for rounding in Rounding},
    # The directions that magnitudes alone cannot tell, and truncation, gain too little.
    (BY_NAME["float16"], Rounding.TIES_TO_EVEN): _float16(),
    (BY_NAME["float16"], Rounding.TIES_TO_AWAY): _float16(_nudge),
}
