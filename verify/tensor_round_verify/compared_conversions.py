"""Comparing arrays of two types: the cast or quantization that turns one into another."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
import numpy.typing as npt

from tensor_round.contract import host_memory
from tensor_round.contract.differences.classes import Codes, ElementClass
from tensor_round.contract.dtypes import BY_NAME
from tensor_round.contract.errors import InvalidArgument

from .conversions.classes import ConversionClass, classes_of
from .conversions.conversion import Cast, Dequantization, How, Quantization
from .conversions.deviation import deviated
from .conversions.fitting import Combination, singles
from .conversions.patterns import Operands
from .conversions.reference import as_bits
from .explain import Rule
from .reference import FLOATS, INTEGER_WIDTHS, ROUNDINGS, Bits, Flags, differs

Doubles = npt.NDArray[np.float64]
#: Bits of the widest integers that are quantized to.
WIDEST = 16
#: Elements from which a scale is estimated, and the scales that are tried.
SOME, SCALES = 1 << 16, 12


@dataclass(frozen=True, slots=True)
class _Candidate:
    """A conversion that may have made b, and the scale and zero point that it takes."""

    how: How
    told: str
    scale: float = 1.0
    point: int = 0

    def operands(self, bits: Bits) -> Operands:
        if isinstance(self.how, Cast):
            return Operands.of_cast(bits)
        real = self.how.source if isinstance(self.how, Quantization) else self.how.target
        scales = np.full(bits.size, as_bits(self.scale, real)[0])
        return Operands(bits, scales, np.full(bits.size, self.point, np.int64))

    def rules(self, deviations: Iterable[Combination]) -> Iterator[Rule]:
        """The conversion with each of these; numbers and NaNs may have other ones."""
        for some in deviations:
            if not some or not _is_direction(some[0].changes):
                apply = partial(self._results, deviated(self.how, some))
                yield from (Rule(some, apply, nans, self.told) for nans in (False, True))

    def _results(self, how: How, bits: Bits) -> Bits:
        return how.results(self.operands(bits))


def _is_direction(changes: Mapping[str, object]) -> bool:
    """Whether a deviation is another direction, or another saturation."""
    return changes.keys() == {"saturate"} or changes.get("rounding") in ROUNDINGS


class ConversionRules:
    """The rules of some conversions to a dtype."""

    classes: type[ElementClass] = ConversionClass

    def __init__(self, target: str, candidates: Iterable[_Candidate]) -> None:
        self._target = target
        self._candidates = {candidate.told: candidate for candidate in candidates}

    def differs(self, got: Bits, want: Bits) -> Flags:
        """Which results differ; two NaNs never do."""
        return differs(got, want, self._target)

    def right(self) -> Iterator[Rule]:
        """The conversions without deviations."""
        for each in self._candidates.values():
            yield from each.rules([()])

    def every(self) -> Iterator[Rule]:
        """The conversions, also with each deviation that is no other of them."""
        for each in self._candidates.values():
            yield from each.rules([(), *singles(each.how)])

    def classified(self, rule: Rule, bits: Bits, want: Bits) -> Codes:
        """The classes of elements."""
        found = self._of(rule)
        return classes_of(found.how, found.operands(bits))

    def described(self, rule: Rule) -> tuple[str, str | None]:
        """The conversion in words, and the direction, which a dequantization lacks."""
        found = self._of(rule)
        rounding = None if isinstance(found.how, Dequantization) else found.how.rounding
        return found.told, rounding

    def operators(self, rule: Rule) -> Sequence[str]:
        """None: the dialects' operators here round."""
        return ()

    def _of(self, rule: Rule) -> _Candidate:
        return self._candidates[str(rule.kind)]


def conversion_rules(
    a: host_memory.Array,
    b: host_memory.Array,
    types: tuple[str, str],
    scale: float | None,
    zero_point: int | None,
) -> ConversionRules:
    """The conversions that may turn ``a`` into ``b``, whose dtypes these are.

    Raises :class:`InvalidArgument`.
    """
    source, target = types
    integers = [dtype for dtype in types if dtype in INTEGER_WIDTHS]
    if len(integers) == 2 or any(INTEGER_WIDTHS[dtype] > WIDEST for dtype in integers):
        raise InvalidArgument(f"b has dtype {target}, a has {source}")
    if not integers and not (scale is None and zero_point is None):
        raise InvalidArgument(f"{source} is cast to {target}, without scale and zero point")
    if not integers:
        return ConversionRules(target, _casts(source, target))
    return ConversionRules(target, _linear(a, b, source, target, scale, zero_point))


def _casts(source: str, target: str) -> Iterator[_Candidate]:
    for saturate in (False, True)[: 1 + (FLOATS[target].width == 8)]:
        for rounding in ROUNDINGS:
            how = Cast(source, target, rounding, saturate)
            more = ", saturated" if saturate else ""
            yield _Candidate(how, f"cast to {target} {rounding}{more}")


def _linear(
    a: host_memory.Array,
    b: host_memory.Array,
    source: str,
    target: str,
    scale: float | None,
    zero_point: int | None,
) -> Iterator[_Candidate]:
    """Quantization, or the way back, by the given scale, or those that may be its."""
    quantizes = target in INTEGER_WIDTHS
    x, n = (_some(each) for each in ((a, b) if quantizes else (b, a)))
    # At the ends, also of a narrower range, there are numbers beyond.
    inside = np.isfinite(x) & (n > n.min(initial=0)) & (n < n.max(initial=0))
    x, n = x[inside], n[inside]
    points = [zero_point] if zero_point is not None else _points(x, n)
    own = BY_NAME[source if quantizes else target].numpy
    for point in points:
        scales = [scale] if scale is not None else _scales(x, n - point, exact=not quantizes)
        for by in dict.fromkeys(own.type(each) for each in scales):
            told = f"by scale {by!s} and zero point {point}"
            if quantizes:
                for rounding in ROUNDINGS:
                    how = Quantization(source, target, rounding=rounding)
                    named = f"quantized to {target} {rounding} {told}"
                    yield _Candidate(how, named, float(by), point)
            else:
                back = Dequantization(source, target)
                yield _Candidate(back, f"dequantized to {target} {told}", float(by), point)


def _points(x: Doubles, n: Doubles) -> list[int]:
    """Zero points: the integer of the number nearest to zero, and that of the nearest line."""
    if x.size < 2 or np.ptp(x) == 0:
        return [0]
    _, intercept = np.polyfit(x, n, 1)
    return list(dict.fromkeys([int(n[np.argmin(np.abs(x))]), round(float(intercept)), 0]))


def _some(array: host_memory.Array) -> Doubles:
    flat = np.asarray(array).reshape(-1)
    with np.errstate(all="ignore"):
        return flat[:: max(1, flat.size // SOME)].astype(np.float64)


def _scales(x: Doubles, n: Doubles, *, exact: bool) -> list[float]:
    """Scales by which most of these numbers become these integers, the simplest first."""
    far = np.abs(n) >= (1 if exact else 2)
    ratios = np.abs(x[far] / n[far])
    if not ratios.size or not ratios.any():
        return [1.0]
    if exact:
        # The products are rounded: that of the largest integer least.
        largest = ratios[np.argmax(np.abs(n[far]))]
        return [float(np.median(ratios)), float(largest)]
    # Each element has its interval; a few may be wrong.
    low = float(np.quantile(np.abs(x[far]) / (np.abs(n[far]) + 0.5), 0.99))
    high = float(np.quantile(np.abs(x[far]) / (np.abs(n[far]) - 0.5), 0.01))
    middle = (low + high) / 2
    found = [2.0 ** round(np.log2(middle)), *(float(f"{middle:.{k}g}") for k in range(1, 9))]
    found += [middle, *(float(np.abs(x).max()) / k for k in (127, 128, 255))]
    margin = max(high - low, middle / 512)
    near = [s for s in dict.fromkeys(found) if low - margin <= s <= high + margin]
    return near[:SCALES] or [middle]
