"""Operands that are hard to convert: at every tie and every number of the target type."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ..patterns import edges, random_patterns
from ..reference import FLOATS, Bits, bits_type, is_nan
from .reference import Integers, Numbers, as_bits, decoded, encoded, ends, infinity, largest

#: Random operands of a cast.
RANDOM = 1 << 14
#: Powers of two, and scales whose quotients and reciprocals are rounded; the last two are large.
SCALES = (1.0, 2.0**-7, 0.1, 1 / 3, 1 / 255, 0.0123, 7.7, 250.0)
#: Channels of the tensor whose axis is quantized.
CHANNELS = 4
#: Neighbours of a pattern that are tried beside it, on each side.
_NEIGHBOURS = 3


def cast_operands(source: str, target: str) -> Bits:
    """The numbers of the target type and the ties between them, with neighbours, of both signs."""
    fmt, own = FLOATS[target], FLOATS[source]
    exact = decoded(np.arange(largest(target) + 1).astype(bits_type(target)), target)
    one = np.uint64(1)
    ties = Numbers(exact.negative, (exact.significand << one) | one, exact.exponent - 1)
    numbers = [encoded(found, own, "ties_to_even").pattern for found in (exact, ties)]
    # The pattern below that of zero is a NaN.
    around = [part for found in numbers for part in (found, found + one, found[found > 0] - one)]
    # The last two binades, coarsely: numbers far beyond the target's largest.
    last = np.arange(infinity(own) - (2 << own.fraction_bits), infinity(own), infinity(own) >> 16)
    draw = np.random.default_rng(754)
    between = draw.choice(numbers[0], RANDOM)
    between += draw.integers(0, 1 << own.fraction_bits - fmt.fraction_bits, RANDOM, np.uint64)
    near = np.concatenate([*around, last.astype(np.uint64), between])
    signed = np.concatenate([near, near | np.uint64(own.sign_bit)]).astype(bits_type(source))
    return np.unique(np.concatenate([signed, edges(source), random_patterns(source, RANDOM, 754)]))


@dataclass(frozen=True, slots=True)
class Trial:
    """One tensor to quantize, with a scale and a zero point for each of its channels.

    ``bits`` has the channels one after another, all of the same length.
    """

    bits: Bits
    scales: Bits
    zero_points: Integers

    def operands(self) -> Operands:
        """Every element with its scale and zero point."""
        count = self.bits.size // self.scales.size
        points = np.repeat(self.zero_points, count)
        return Operands(self.bits, np.repeat(self.scales, count), points)


@dataclass(frozen=True, slots=True)
class Operands:
    """Elements, each with its scale and zero point; both are empty for a cast."""

    bits: Bits
    scales: Bits
    zero_points: Integers

    @classmethod
    def of_cast(cls, bits: Bits) -> Operands:
        """The operands of a cast, which have no scales and zero points."""
        return cls(bits, bits[:0], np.zeros(0, np.int64))

    @classmethod
    def joined(cls, some: Sequence[Operands]) -> Operands:
        """The elements of several operands, one after another."""
        return cls(
            np.concatenate([one.bits for one in some]),
            np.concatenate([one.scales for one in some]),
            np.concatenate([one.zero_points for one in some]),
        )

    def at(self, places: npt.NDArray[np.intp] | slice) -> Operands:
        """The elements at these places."""
        if not self.scales.size:
            return Operands.of_cast(self.bits[places])
        return Operands(self.bits[places], self.scales[places], self.zero_points[places])


def trials(source: str, target: str, *, per_axis: bool) -> Iterator[Trial]:
    """Tensors for each scale and zero point: quotients near the halves of the target's range."""
    least, most = ends(target)
    points = (0, 3, (least + most + 1) // 2 or most)
    found = [
        Trial(_near_halves(scale, point, source, target), as_bits(scale, source), np.array([point]))
        for scale in SCALES
        for point in points
    ]
    if not per_axis:
        yield from found
        return
    for start in range(0, len(found), CHANNELS):
        some = found[start : start + CHANNELS]
        count = min(trial.bits.size for trial in some)
        bits = np.concatenate(
            [trial.bits[:: max(1, trial.bits.size // count)][:count] for trial in some]
        )
        scales = np.concatenate([trial.scales for trial in some])
        yield Trial(bits, scales, np.concatenate([trial.zero_points for trial in some]))


def _near_halves(scale: float, point: int, source: str, target: str) -> Bits:
    least, most = ends(target)
    first, last = least - point - 3, most - point + 3
    steps: list[int] = list(range(first, last + 1))
    if len(steps) > 600:
        draw = random.Random(754)
        steps = [*range(first, first + 50), *range(-50, 50), *range(last - 50, last + 1)]
        steps += [draw.randrange(first, last) for _ in range(400)]
    halves = [by for step in steps for by in (step * scale, (step + 0.5) * scale)]
    near = as_bits(halves, source)
    around = [near + near.dtype.type(by) for by in range(_NEIGHBOURS + 1)]
    around += [near[near > _NEIGHBOURS] - near.dtype.type(by) for by in range(1, _NEIGHBOURS + 1)]
    fmt = FLOATS[source]
    zero, top = 0, infinity(fmt)
    specials = [m | sign for m in (zero, 1, top - 1, top) for sign in (0, fmt.sign_bit)]
    found = np.concatenate([*around, np.array(specials, bits_type(source))])
    return np.unique(found[~is_nan(source, found)])
