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
from .reference import (
    Numbers,
    as_bits,
    decoded,
    encoded,
    ends,
    is_infinite,
)

Array = npt.NDArray[Any]
Doubles = npt.NDArray[np.float64]

#: Random operands of a cast.
RANDOM = 1 << 14
#: Powers of two, and scales whose quotients and reciprocals are rounded; the last two are large.
SCALES = (1.0, 2.0**-7, 0.1, 1 / 3, 1 / 255, 0.0123, 7.7, 250.0)
#: Scales of types without fractions: 2^24 + 1 is none of float32's numbers.
_OTHER_SCALES = {
    "int32": (1.0, 3.0, 7.0, 255.0, 1000.0, 2.0**24 + 1),
    "float8_e8m0fnu": (1.0, 2.0**-7, 0.125, 8.0, 256.0),
}
#: Scales by which integers that no float32 has are near ties.
_LARGE = {"float16": 60000.0, "float8_e8m0fnu": 2.0**23, "int32": 2.0**23 + 1}
_LARGE_OF_FLOATS = 255.0 * 2**16
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

    ``bits`` has the channels one after another, all of the same length. An array ``view`` has
    some of the elements, its channels along ``axis``, or in blocks there of ``block_size``.
    """

    bits: Bits
    scales: Bits
    zero_points: Array
    view: Array | None = None
    axis: int = 0
    block_size: int = 0

    def operands(self) -> Operands:
        """Every element with its scale and zero point."""
        count = self.bits.size // self.scales.size
        points = np.repeat(self.zero_points, count)
        scales = np.repeat(self.scales, count)
        return Operands(self.bits, scales, points, np.full_like(scales, self.scales[0]))


@dataclass(frozen=True, slots=True)
class Operands:
    """Elements, each with its scale and zero point; both are empty for a cast.

    Zero points are integers, or beside codes of a float type float64. ``peers`` are what a
    deviation takes in place of the scale: that of the tensor's first channel, or of a block the
    largest operand with its sign.
    """

    bits: Bits
    scales: Bits
    zero_points: Array
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


def trials(source: str, target: str, real: str, *, per_axis: bool) -> Iterator[Trial]:
    """Tensors for each scale, of type ``real``, and zero point.

    The quotients are near the numbers of the target's range, and the ties between them.
    """
    has_extremes = per_axis or real == "float8_e8m0fnu"
    found = [
        Trial(
            _near_ties(scale, point, source, target, real), as_bits(scale, real), np.array([point])
        )
        for scale in (*_scales(real, source), *(_extremes(real) if has_extremes else ()))
        for point in _some_points(target)[:3]
    ]
    return _joined(found) if per_axis else iter(found)


def code_trials(source: str, real: str, *, per_axis: bool) -> Iterator[Trial]:
    """Tensors for each scale and zero point: every pattern of 8 bits, of more those at edges."""
    if width(source) <= 8:
        bits = all_patterns(source)
    else:
        least, most = ends(source)
        draw = np.random.default_rng(754)
        edges = (least, 0, most, 1 << 24) if width(source) > 16 else (least, 0, most)
        near = [end + by for end in edges for by in range(-300, 301)]
        drawn = draw.integers(least, most, 2000, np.int64, endpoint=True)
        some = np.unique(np.clip([*near, *drawn], least, most))
        bits = (some & ((1 << width(source)) - 1)).astype(bits_type(source))
    found = [
        Trial(bits, as_bits(scale, real), np.array([point]))
        for scale in (*_scales(real), *_extremes(real))
        for point in _some_points(source)[::-1]
    ]
    return _joined(found) if per_axis else iter(found)


def _some_points(dtype: str) -> tuple[int, ...]:
    """Zero points: those of quantization, and the ends of an integer type."""
    if dtype in FLOAT_FORMATS:
        return 0, 3
    least, most = ends(dtype)
    return 0, 3, (least + most + 1) // 2 or most, least, most


def _scales(dtype: str, source: str = "") -> tuple[float, ...]:
    """The scales of a type, and for integers of 32 bits a large one."""
    usual = _OTHER_SCALES.get(dtype, SCALES)
    return (*usual, _LARGE.get(dtype, _LARGE_OF_FLOATS)) if source == "int32" else usual


def _extremes(dtype: str) -> tuple[float, ...]:
    """A subnormal scale whose reciprocal is finite, and a huge one."""
    fmt = FLOAT_FORMATS.get(dtype)
    if fmt is None:
        return ()
    factor = 1.3 if fmt.has_zero else 1.0
    return factor * 2.0**-fmt.bias, factor * 2.0 ** (fmt.bias - 7)


def _joined(found: Sequence[Trial]) -> Iterator[Trial]:
    """The same as channels of tensors, those without a zero point together."""
    for mixed in (False, True):
        own = [trial for trial in found if bool(trial.zero_points[0]) == mixed]
        for start in range(0, len(own), CHANNELS):
            some = own[start : start + CHANNELS]
            some += some[: len(some) % 2]  # a row has two blocks
            count = min(trial.bits.size for trial in some)
            bits = [trial.bits[:: max(1, trial.bits.size // count)][:count] for trial in some]
            scales = np.concatenate([trial.scales for trial in some])
            points = np.concatenate([trial.zero_points for trial in some])
            yield Trial(np.concatenate(bits), scales, points)


def _near_ties(scale: float, point: int, source: str, target: str, real: str) -> Bits:
    numbers = _numbers(target) if target in FLOAT_FORMATS else _halves(point, *ends(target))
    near = as_bits((numbers - point) * scale, source)
    around = [near + near.dtype.type(by) for by in range(_NEIGHBOURS + 1)]
    around += [near[near > _NEIGHBOURS] - near.dtype.type(by) for by in range(1, _NEIGHBOURS + 1)]
    zero, sign = 0, 1 << (width(source) - 1)
    top = FLOAT_FORMATS[source].infinity if source in FLOAT_FORMATS else sign - 1
    specials = [m | s for m in (zero, 1, top - 1, top, top + 1) for s in (0, sign)]
    found = np.unique(np.concatenate([*around, np.array(specials, bits_type(source))]))
    nan = is_nan(source, found)
    return np.append(found[~nan], found[nan][:1]) if has_nan(target) else found[~nan]


def has_nan(dtype: str) -> bool:
    """Whether a NaN stays one in the type; for others there is no rule."""
    return dtype in FLOAT_FORMATS and FLOAT_FORMATS[dtype].nan is not None


def _numbers(target: str) -> Doubles:
    """The numbers of a float type, the ties between them, and some beyond."""
    bits = all_patterns(target)
    exact = decoded(bits[~is_nan(target, bits) & ~is_infinite(target, bits)], target)
    magnitude = np.ldexp(exact.significand.astype(np.float64), exact.exponent)
    finite = np.unique(np.where(exact.negative, -magnitude, magnitude))
    ties = (finite[1:] + finite[:-1]) / 2
    largest = finite[-1]
    beyond = largest + (finite[-1] - finite[-2]) * np.array([0.5, 1, 4])
    found: Doubles = np.concatenate([finite, ties, beyond, -beyond])
    return found


def _halves(point: int, least: int, most: int) -> Doubles:
    """The integers of a range and halves between them, some of a large one, and some beyond."""
    first, last = least - 3, most + 3
    steps: list[int] = list(range(first, last + 1))
    if len(steps) > 600:
        draw = random.Random(754)
        steps = [*range(first, first + 50), *range(point - 50, point + 50)]
        steps += range(last - 50, last + 1)
        steps += [draw.randrange(first - point, last - point) + point for _ in range(400)]
    return np.array([by for step in steps for by in (step, step + 0.5)])
