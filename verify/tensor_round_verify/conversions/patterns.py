"""Operands that are hard to convert: at every tie and every number of the target type."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

from ..patterns import samples
from ..reference import FLOAT_FORMATS, INTEGER_WIDTHS, Bits, all_patterns, bits_type, is_nan, width
from .reference import Integers, Numbers, as_bits, decoded, encoded, ends

Array = npt.NDArray[Any]

#: Random operands of a cast.
RANDOM = 1 << 14
#: Powers of two, and scales whose quotients and reciprocals are rounded; the last two are large.
SCALES = (1.0, 2.0**-7, 0.1, 1 / 3, 1 / 255, 0.0123, 7.7, 250.0)
#: Channels of the tensor whose axis is quantized.
CHANNELS = 4
#: Neighbours of a pattern that are tried beside it, on each side.
_NEIGHBOURS = 3


# A pair of types is cast in several directions.
@lru_cache(maxsize=2)
def cast_operands(source: str, target: str) -> Bits:
    """The numbers of the target type and the ties between them, with neighbours, of both signs.

    Of a wide target they are those at its edges; of a source of 16 bits or fewer all patterns.
    """
    if width(source) <= 16:
        return all_patterns(source)
    near = all_patterns(target) if width(target) <= 16 else samples(target, RANDOM)
    exact = decoded(near[~is_nan(target, near)], target)
    one, own = np.uint64(1), bits_type(source)
    ties = Numbers(exact.negative, (exact.significand << one) | one, exact.exponent - 1)
    found = np.concatenate([_in_type(numbers, source) for numbers in (exact, ties)])
    around = [found + own.type(by % (1 << width(source))) for by in (-1, 0, 1)]
    known = _sorted([*around, samples(source, RANDOM)])
    draw = np.random.default_rng(754)
    places = draw.integers(0, known.size - 1, RANDOM)
    between = draw.integers(known[places], known[places + 1], dtype=own.type)
    return _sorted([known, between])


def _sorted(parts: Sequence[Bits]) -> Bits:
    """The patterns in ascending order, each once."""
    found = np.sort(np.concatenate(parts))  # np.unique takes four times as long
    once: Bits = found[np.append(True, found[1:] != found[:-1])]
    return once


def _in_type(numbers: Numbers, dtype: str) -> Bits:
    """The nearest patterns of a type, without those beyond it."""
    found = encoded(numbers, dtype, "ties_to_even")
    pattern, negative = found.pattern[~found.beyond], numbers.negative[~found.beyond]
    if dtype in INTEGER_WIDTHS:
        return np.where(negative, np.uint64(0) - pattern, pattern).astype(bits_type(dtype))
    sign = np.where(negative, np.uint64(FLOAT_FORMATS[dtype].sign_bit), np.uint64(0))
    return (pattern | sign).astype(bits_type(dtype))


@dataclass(frozen=True, slots=True)
class Trial:
    """One tensor to quantize or dequantize, with a scale and a zero point for each channel.

    ``bits`` has the channels one after another, all of the same length. An array ``view`` has the
    same elements, its channels along ``axis``.
    """

    bits: Bits
    scales: Bits
    zero_points: Integers
    view: Array | None = None
    axis: int = 0

    def operands(self) -> Operands:
        """Every element with its scale and zero point."""
        count = self.bits.size // self.scales.size
        points = np.repeat(self.zero_points, count)
        scales = np.repeat(self.scales, count)
        return Operands(self.bits, scales, points, np.full_like(scales, self.scales[0]))


@dataclass(frozen=True, slots=True)
class Operands:
    """Elements, each with its scale and zero point; both are empty for a cast.

    ``peers`` are what a deviation takes in place of the scale: that of the tensor's first channel,
    or of a block the largest operand with its sign.
    """

    bits: Bits
    scales: Bits
    zero_points: Integers
    peers: Bits = field(default_factory=lambda: np.zeros(0, np.uint8))

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
            np.concatenate([one.peers for one in some]),
        )

    def at(self, places: npt.NDArray[np.intp] | slice) -> Operands:
        """The elements at these places."""
        if not self.scales.size:
            return Operands.of_cast(self.bits[places])
        peers = self.peers[places] if self.peers.size else self.peers
        return Operands(self.bits[places], self.scales[places], self.zero_points[places], peers)


def trials(source: str, target: str, *, per_axis: bool) -> Iterator[Trial]:
    """Tensors for each scale and zero point: quotients near the halves of the target's range."""
    least, most = ends(target)
    found = [
        Trial(_near_halves(scale, point, source, target), as_bits(scale, source), np.array([point]))
        for scale in (*SCALES, *(_extremes(source) if per_axis else ()))
        for point in (0, 3, (least + most + 1) // 2 or most)
    ]
    return _joined(found) if per_axis else iter(found)


def integer_trials(source: str, target: str, *, per_axis: bool) -> Iterator[Trial]:
    """Tensors for each scale and zero point: every integer of 8 bits, of 16 those at edges."""
    least, most = ends(source)
    draw = np.random.default_rng(754)
    some = np.arange(least, most + 1)
    if some.size > 1 << 8:
        near = [end + by for end in (least, 0, most) for by in range(-300, 301)]
        some = np.unique(np.clip([*near, *draw.choice(some, 2000)], least, most))
    bits = (some & ((1 << INTEGER_WIDTHS[source]) - 1)).astype(bits_type(source))
    found = [
        Trial(bits, as_bits(scale, target), np.array([point]))
        for scale in (*SCALES, *_extremes(target))
        for point in (0, 3, least, most)
    ]
    return _joined(found) if per_axis else iter(found)


def _extremes(dtype: str) -> tuple[float, float]:
    """A subnormal scale whose reciprocal is finite, and a huge one."""
    bias = FLOAT_FORMATS[dtype].bias
    return 1.3 * 2.0**-bias, 1.3 * 2.0 ** (bias - 7)


def _joined(found: Sequence[Trial]) -> Iterator[Trial]:
    """The same as channels of tensors, those without a zero point together."""
    for mixed in (False, True):
        own = [trial for trial in found if bool(trial.zero_points[0]) == mixed]
        for start in range(0, len(own), CHANNELS):
            some = own[start : start + CHANNELS]
            count = min(trial.bits.size for trial in some)
            bits = [trial.bits[:: max(1, trial.bits.size // count)][:count] for trial in some]
            scales = np.concatenate([trial.scales for trial in some])
            points = np.concatenate([trial.zero_points for trial in some])
            yield Trial(np.concatenate(bits), scales, points)


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
    fmt = FLOAT_FORMATS[source]
    zero, top = 0, fmt.infinity
    specials = [m | sign for m in (zero, 1, top - 1, top) for sign in (0, fmt.sign_bit)]
    found = np.concatenate([*around, np.array(specials, bits_type(source))])
    return np.unique(found[~is_nan(source, found)])
