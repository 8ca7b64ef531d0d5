"""Conversions with NumPy, block by block: by table, by integers, and by NumPy's casts.

A conversion is a chain of steps, each from patterns of one type to patterns of another. What they
have in common is **rounding to odd**: an inexact result becomes the neighbour whose last bit is 1.
That bit then says that something was lost, which is all that a later rounding needs to know, in
any direction, if it leaves at least two bits less (S. Boldo and G. Melquiond, "Emulation of FMA
and correctly rounded sums: proved algorithms using rounding to odd", 2008). So

* float32 becomes a narrow type by its upper 16 bits, rounded to odd, and a table of 65,536
  entries: they have 8 significant bits, and the type has at most 6;
* float64 becomes a type of at most 16 bits by float32, rounded to odd;
* 64-bit integers become narrower floats by float64, rounded to odd.

Operands of at most 16 bits are looked up. All tables are made by :mod:`.conversion_rule`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Any

import numpy as np
import numpy.typing as npt

from tensor_round.contract.dtypes import BY_NAME, DType
from tensor_round.contract.functions import Convert, Function, ReducePrecision
from tensor_round.contract.rounding import Rounding

from .. import Bits, Bytes
from .conversion_rule import (
    beyond_largest,
    ends,
    is_toward_zero,
    nan_magnitude,
    reduced_range,
    results,
)
from .floats import kernel

#: Elements of a block: with their intermediate results they fit into a second-level cache.
BLOCK = 64 << 10

FLOAT32, FLOAT64 = BY_NAME["float32"], BY_NAME["float64"]
#: The last bit of these stays correct if the last bit of a wider operand is set.
NEAREST = (Rounding.TIES_TO_EVEN, Rounding.TIES_TO_AWAY)

#: The bits of a 64-bit integer that float64 has in any case.
_UPPER_53 = ~0x7FF & (1 << 64) - 1

Truth = npt.NDArray[np.bool_]
#: Makes the second block of the first; they share no memory.
Run = Callable[[Any, Any], object]


@dataclass(frozen=True, slots=True)
class Step:
    """A step of a chain, with the types of the blocks that it reads and writes."""

    run: Run
    operand: np.dtype[Any]
    result: np.dtype[Any]


def convert(
    steps: Sequence[Step], source: DType, target: DType, operands: Bytes, out: Bytes, count: int
) -> None:
    """Convert ``count`` elements; ``out`` may be the beginning of ``operands`` if it is no longer.

    Elements of 4 bits are two in a byte. An odd last byte has zeros in its upper half.
    """
    whole = count & ~1 if _are_pairs(source, target) else count
    # Signalling NaNs and overflows raise floating-point flags, which a caller's np.seterr must
    # not see.
    with np.errstate(all="ignore"):
        _convert_blocks(steps, source, target, operands, out, whole)
    if whole < count:
        pair, result = np.zeros(source.nbytes(2), np.uint8), np.empty(target.nbytes(2), np.uint8)
        pair[: source.nbytes(1)] = operands[source.nbytes(whole) : source.nbytes(count)]
        convert(steps, source, target, pair, result, 2)
        result[0] &= 0x0F if target.is_sub_byte else 0xFF
        out[target.nbytes(whole) : target.nbytes(count)] = result[: target.nbytes(1)]


def _convert_blocks(
    steps: Sequence[Step], source: DType, target: DType, operands: Bytes, out: Bytes, count: int
) -> None:
    *before, last = steps
    made = [np.empty(min(count, BLOCK) * step.result.itemsize, np.uint8) for step in before]
    is_shared = np.may_share_memory(operands, out)
    for start in range(0, count, BLOCK):
        stop = min(start + BLOCK, count)
        block = operands[source.nbytes(start) : source.nbytes(stop)]
        if is_shared:
            block = block.copy()
        for step, memory in zip(before, made, strict=True):
            result = memory[: (stop - start) * step.result.itemsize]
            step.run(block.view(step.operand), result.view(step.result))
            block = result
        written = out[target.nbytes(start) : target.nbytes(stop)]
        last.run(block.view(last.operand), written.view(last.result))


def chain(function: Function, source: DType, target: DType) -> tuple[Step, ...]:
    """The steps from one type to another."""
    if source.width <= 16:
        return _by_table(function, source, target)
    if isinstance(function, ReducePrecision):
        return (Step(partial(_reduce, function, source), source.bits, target.bits),)
    assert isinstance(function, Convert)
    if source.is_float and target.is_float:
        return _float_to_float(function, source, target)
    if source.is_float:
        return _packed(
            target, Step(partial(_to_integer, function, source, target), source.bits, target.bits)
        )
    if target.is_float:
        return _integer_to_float(function, source, target)
    return _packed(
        target,
        Step(partial(_integer_to_integer, function, source, target), source.numpy, target.bits),
    )


# Tables


def _are_pairs(source: DType, target: DType) -> bool:
    """Whether elements are converted two at a time."""
    widths = source.width, target.width
    return max(widths) <= 8 or min(widths) < 8


def _by_table(function: Function, source: DType, target: DType) -> tuple[Step, ...]:
    entries = table(function, source, target)
    if source.width == 16:
        return _packed(target, _look_up(entries, source.bits))
    if not _are_pairs(source, target):
        return (_look_up(entries, source.bits),)
    return (_look_up(_of_pairs(entries, source, target), np.dtype(f"<u{source.nbytes(2)}")),)


@lru_cache(maxsize=128)
def table(function: Function, source: DType, target: DType) -> Bits:
    """The result of each pattern of a type of at most 16 bits."""
    return results(function, source, target, np.arange(1 << source.width, dtype=source.bits))


@lru_cache(maxsize=128)
def upper_table(function: Function, target: DType) -> Bits:
    """The result of each upper half of a float32, whose lower half is 0."""
    return results(function, FLOAT32, target, np.arange(1 << 16, dtype=np.uint32) << 16)


def _of_pairs(entries: Bits, source: DType, target: DType) -> Bits:
    pairs = np.arange(1 << (2 * source.width))
    first, second = entries[pairs & (entries.size - 1)], entries[pairs >> source.width]
    if target.is_sub_byte:
        packed: Bits = first | second << target.width
        return packed
    both = np.stack([first, second], axis=1)
    return both.view(f"<V{both.itemsize * 2}").ravel()


def _look_up(entries: Bits, operand: np.dtype[Any]) -> Step:
    def run(block: Bits, out: Bits) -> None:
        # "clip" writes into ``out`` without a temporary array. No index is out of range.
        entries.take(block, out=out, mode="clip")

    return Step(run, operand, entries.dtype)


def _packed(target: DType, *steps: Step) -> tuple[Step, ...]:
    """The steps, and one that packs elements of 4 bits."""
    return (*steps, PACK) if target.is_sub_byte else steps


def _pack(pairs: Bits, out: Bits) -> None:
    np.copyto(out, pairs | pairs >> 4, casting="unsafe")


PACK = Step(_pack, np.dtype("<u2"), np.dtype(np.uint8))


# Floats to floats


def _float_to_float(function: Convert, source: DType, target: DType) -> tuple[Step, ...]:
    if source is FLOAT64 and target is not FLOAT32:
        to_odd = Step(_float64_to_odd_float32, source.bits, FLOAT32.bits)
        return (to_odd, *_float_to_float(function, FLOAT32, target))
    if target.mantissa_bits < 6:
        index = Step(_upper_half_to_odd, source.bits, np.dtype(np.intp))
        return _packed(target, index, _look_up(upper_table(function, target), index.result))
    to_nearest = function.rounding is Rounding.TIES_TO_EVEN
    if target is FLOAT64 or (source is FLOAT32 and to_nearest and target.is_named_by_npy):
        run: Callable[..., object] = _by_cast
    elif target is FLOAT32:
        run = _float64_to_float32
    elif target.exponent_bits == source.exponent_bits:
        run = _upper_half
    else:
        run = _on_a_grid

    # By an addition they become numbers, by a set last bit NaNs; a wider type has numbers beside
    # them.
    is_marked = run is _float64_to_float32 and function.rounding is Rounding.TIES_TO_AWAY
    needs_infinities = run is _on_a_grid or function.saturates or is_marked

    def finished(block: Bits, out: Bits) -> None:
        run(function, target, block, out)
        if function.saturates and target is not FLOAT64:
            out -= (out & (target.sign_bit - 1)) == target.exponent_mask
        _put_specials(function, source, target, block, out, infinite=needs_infinities)

    return (Step(finished, source.bits, target.bits),)


def _put_specials(
    function: Convert, source: DType, target: DType, block: Bits, out: Bits, *, infinite: bool
) -> None:
    """Put the results of NaNs, and of infinities if asked for, where the block has any."""
    values = block.view(source.numpy)
    # argmax and argmin find a NaN if there is one.
    greatest = values[values.argmax()]
    if greatest == greatest and not infinite:
        return
    if greatest < np.inf and values[values.argmin()] > -np.inf:
        return
    negative = block >= source.sign_bit
    for is_special, magnitude in (
        (np.isinf(values), beyond_largest(target, function.saturates)),
        (np.isnan(values), nan_magnitude(target)),
    ):
        signs = negative.astype(target.bits) * target.sign_bit
        np.copyto(out, signs | magnitude, where=is_special)


def _upper_half_to_odd(block: Bits, out: Bits) -> None:
    """The upper halves of float32 patterns, rounded to odd, as indices."""
    words = block & 0xFFFF
    words += 0xFFFF
    words |= block
    words >>= 16
    np.copyto(out, words)


def _upper_half(function: Convert, _target: DType, block: Bits, out: Bits) -> None:
    """Round to bfloat16, the upper half of a float32: a carry is right in every field of it."""
    words = _carried(function.rounding, block, 16)
    words >>= 16
    np.copyto(out, words, casting="unsafe")


def _carried(rounding: Rounding, words: Bits, dropped: int) -> Bits:
    """Patterns whose upper bits are those of their magnitudes, rounded; the lower mean nothing."""
    half = 1 << dropped >> 1
    if rounding is Rounding.TIES_TO_EVEN:
        carried: Bits = words >> dropped
        carried &= 1
        carried += half - 1
        carried += words
        return carried
    if rounding is Rounding.TIES_TO_AWAY:
        return words + half
    if rounding is Rounding.TOWARD_ZERO:
        return words.copy()
    signs = words.view(f"<i{words.itemsize}") >> (words.itemsize * 8 - 1)
    carried = _goes_away(rounding, signs.view(words.dtype)) & ((1 << dropped) - 1)
    carried += words
    return carried


def _goes_away(rounding: Rounding, signs: Bits) -> Bits:
    """All ones where a direction goes away from zero; ``signs`` are all ones where it is below."""
    if rounding is Rounding.TOWARD_ZERO:
        return signs & 0
    return signs if rounding is Rounding.TOWARD_NEGATIVE else ~signs


def _on_a_grid(function: Convert, target: DType, block: Bits, out: Bits) -> None:
    """Round float32 by adding a power of two whose last place is the target's.

    That power, ``grid``, has the magnitude's exponent, or the target's least, and 23 less the
    target's bits of fraction more. The last bits of the sum count the magnitude in units.
    """
    fraction = FLOAT32.mantissa_bits
    dropped = fraction - target.mantissa_bits
    least = (1 + FLOAT32.exponent_bias - target.exponent_bias) << fraction
    # The greatest number below the power of two that no exponent is left for: it rounds beyond
    # the largest number, or to that, as all greater ones do.
    greatest = least + ((1 << target.exponent_bits) - 2 << fraction) - 1
    magnitudes = block & (FLOAT32.sign_bit - 1)
    # As floats, of which NumPy finds the lesser in half the time; a NaN stays one.
    values = magnitudes.view(np.float32)
    np.minimum(values, np.uint32(greatest).view(np.float32), out=values)
    if function.rounding is Rounding.TIES_TO_AWAY:
        magnitudes |= 1
    exponents = magnitudes & FLOAT32.exponent_mask
    np.maximum(
        exponents.view(np.float32),
        np.uint32(least).view(np.float32),
        out=exponents.view(np.float32),
    )
    grid = exponents + (dropped << fraction)
    sums = magnitudes.view(np.float32) + grid.view(np.float32)
    units = sums.view(np.uint32) - grid
    if function.rounding not in NEAREST:
        back = (sums - grid.view(np.float32)).view(np.uint32)
        toward_zero = is_toward_zero(function.rounding, block >= FLOAT32.sign_bit)
        units = _directed(toward_zero, units, back, magnitudes)
    exponents -= least
    exponents >>= dropped
    units += exponents
    block_signs = block >> (FLOAT32.width - target.width)
    block_signs &= target.sign_bit
    units |= block_signs
    np.copyto(out, units, casting="unsafe")


def _directed(toward_zero: Truth, nearest: Bits, back: Bits, operands: Bits) -> Bits:
    """Directed results from the nearest ones, which ``back`` has in the type of ``operands``."""
    truncated = nearest - (back > operands)
    directed: Bits = truncated + ((back != operands) & ~toward_zero)
    return directed


def _float64_to_float32(function: Convert, _target: DType, block: Bits, out: Bits) -> None:
    rounding = function.rounding
    # A tie moves away from zero, and no other operand to or across one.
    nearer = block | 1 if rounding is Rounding.TIES_TO_AWAY else block
    _cast(nearer.view(np.float64), out.view(np.float32))
    if rounding not in NEAREST:
        back = out.view(np.float32).astype(np.float64).view(np.uint64)
        toward_zero = is_toward_zero(rounding, block >= FLOAT64.sign_bit)
        out[:] = _directed(toward_zero, out, back, block)


def _float64_to_odd_float32(block: Bits, out: Bits) -> None:
    _cast(block.view(np.float64), out.view(np.float32))
    back = np.empty_like(block)
    _cast(out.view(np.float32), back.view(np.float64))
    # A NaN stays one: it is quiet, so the patterns beside it are NaNs too.
    out -= back > block
    out |= back != block


def _by_cast(_function: Convert, target: DType, block: Bits, out: Bits) -> None:
    """Convert float32 as NumPy does: to float64 exactly, to float16 by its rounding to nearest."""
    _cast(block.view(np.float32), out.view(target.numpy))


def _cast(values: npt.NDArray[Any], out: npt.NDArray[Any]) -> None:
    np.copyto(out, values, casting="unsafe")


def _reduce(function: ReducePrecision, dtype: DType, block: Bits, out: Bits) -> None:
    dropped = max(dtype.mantissa_bits - function.mantissa_bits, 0)
    magnitudes = _carried(function.rounding, block, dropped) if dropped else block.copy()
    magnitudes &= (dtype.sign_bit - 1) >> dropped << dropped
    least, most = reduced_range(function, dtype)
    is_less, is_more = magnitudes < least, magnitudes > most
    np.copyto(magnitudes, 0, where=is_less)
    np.copyto(magnitudes, dtype.exponent_mask, where=is_more & ~is_less)
    np.bitwise_or(magnitudes, block & dtype.sign_bit, out=out)
    np.copyto(out, block, where=np.isnan(block.view(dtype.numpy)))


# Integers


def _integers(dtype: DType) -> np.dtype[Any]:
    """NumPy's type of the integers, a byte for those of 4 bits."""
    return np.dtype(f"<{'i' if dtype.is_signed else 'u'}{dtype.itemsize}")


def _to_integer(function: Convert, source: DType, target: DType, block: Bits, out: Bits) -> None:
    values = block.view(source.numpy)
    lowest, highest = ends(target)
    # The least number is a power of two or 0; the largest may need more bits than the float has.
    most = source.numpy.type(highest)
    if int(most) > highest:
        most = np.nextafter(most, source.numpy.type(0))
    least, greatest = values[values.argmin()], values[values.argmax()]
    rounded = np.empty_like(values)
    kernel(source, function.rounding).general(values, rounded)
    above = None
    if not (least >= lowest and greatest <= most):  # not for a NaN either
        if most < highest:
            above = rounded > most
        np.clip(rounded, lowest, most, out=rounded)
        if greatest != greatest:
            np.copyto(rounded, 0, where=np.isnan(rounded))
    integers = out.view(_integers(target))
    _cast(rounded, integers)
    if above is not None:
        np.copyto(integers, highest, where=above)
    if target.is_sub_byte:
        out &= 0x0F


def _integer_to_integer(
    function: Convert, source: DType, target: DType, block: npt.NDArray[Any], out: Bits
) -> None:
    if function.saturates:
        lowest, highest = (sorted(both) for both in zip(ends(source), ends(target), strict=True))
        block = np.clip(block, lowest[1], highest[0])
    _cast(block, out)
    if target.is_sub_byte:
        out &= 0x0F


def _integer_to_float(function: Convert, source: DType, target: DType) -> tuple[Step, ...]:
    is_exact = source.width < FLOAT64.mantissa_bits
    to_nearest = function.rounding is Rounding.TIES_TO_EVEN
    if (to_nearest and target in (FLOAT32, FLOAT64)) or (is_exact and target is FLOAT64):
        return (Step(_cast, source.numpy, target.numpy),)
    if target is FLOAT64:
        return (Step(partial(_integer_to_float64, function, source), source.bits, target.bits),)
    to_float64 = (
        Step(_cast, source.numpy, FLOAT64.numpy)
        if is_exact
        else Step(partial(_to_odd_float64, source), source.bits, FLOAT64.numpy)
    )
    return (to_float64, *_float_to_float(function, FLOAT64, target))


def _integer_to_float64(function: Convert, source: DType, block: Bits, out: Bits) -> None:
    """Round 64-bit integers to the 53 bits that float64 has, which then has them exactly."""
    # All ones where the operand is negative.
    signs = block & 0
    if source.is_signed:
        signs = (block.view(np.int64) >> 63).view(np.uint64)
    magnitudes = (block ^ signs) - signs
    # Without its last bits no integer is carried into the next exponent, and its half is signed:
    # NumPy converts signed integers ten times as fast.
    halves = (magnitudes & _UPPER_53) >> 1
    floats = np.empty_like(halves).view(np.float64)
    _cast(halves.view(np.int64), floats)
    least = FLOAT64.exponent_bias + FLOAT64.mantissa_bits - 1
    dropped = np.maximum(floats.view(np.uint64) >> FLOAT64.mantissa_bits, least) - least
    whole = np.uint64(1) << dropped
    if function.rounding is Rounding.TIES_TO_AWAY:
        rounded = magnitudes + (whole >> 1)
    else:
        rounded = magnitudes + ((whole - 1) & _goes_away(function.rounding, signs))
    is_carried = rounded < magnitudes  # to 2^64
    rounded &= ~(whole - 1)
    # The sign of 2^63 as a signed integer is wrong until it is replaced.
    _cast(rounded.view(source.numpy), floats)
    np.copyto(floats, 2.0**64, where=is_carried)
    np.bitwise_or(floats.view(np.uint64) & (FLOAT64.sign_bit - 1), signs << 63, out=out)


def _to_odd_float64(source: DType, block: Bits, out: npt.NDArray[np.float64]) -> None:
    """64-bit integers with 11 bits less from 2^53 on, rounded to odd: float64 has them exactly."""
    odd = block & 0x7FF
    odd += 0x7FF
    odd |= block
    odd &= _UPPER_53
    least = 1 << 53 if source.is_signed else 0
    np.copyto(odd, block, where=block + least < (1 << 53) + least)
    _cast(odd.view(source.numpy), out)
