"""Comparing arrays of two types: the cast or quantization that turns one into another."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from tensor_round.contract import host_memory
from tensor_round.contract.differences.document import FIRST, index_of
from tensor_round.contract.dtypes import BY_NAME
from tensor_round.contract.errors import InvalidArgument

from .conversions.conversion import Cast, Dequantization, How, Quantization
from .conversions.deviation import AnyHow, deviated
from .conversions.deviations import singles
from .conversions.patterns import Operands
from .conversions.reference import as_bits
from .deviation import words
from .explain import BLOCK, Rule, Search
from .reference import FLOATS, INTEGER_WIDTHS, ROUNDINGS, Bits, differs, is_nan
from .report import Example

Doubles = npt.NDArray[np.float64]
#: A rule is named as the one that made b if at most one element in so many is against it.
ONE_IN = 4
#: Bits of the widest integers that are quantized to.
WIDEST = 16
#: Further conversions that the sentence names.
NAMED = 2
#: Elements from which a scale is estimated, and the scales that are tried.
SOME, SCALES = 1 << 16, 12


@dataclass(frozen=True, slots=True)
class Converted:
    """The conversion that turns ``a`` into ``b``, exactly or with the fewest differences.

    ``conversion`` is that in words, ``deviations`` are those in it, ``also`` equally simple ones.
    ``different`` counts the elements that it does not explain; ``first`` are some of them.
    """

    source: str
    target: str
    shape: tuple[int, ...]
    elements: int
    conversion: str
    deviations: tuple[str, ...]
    also: tuple[str, ...]
    different: int
    first: tuple[Example, ...]
    names: tuple[str, str] = ("array a", "array b")

    def named(self, a: str, b: str) -> Converted:
        """The same, of arrays with these names, such as those of files."""
        return replace(self, names=(a, b))

    @property
    def exact(self) -> bool:
        """Whether a right conversion gives exactly ``b`` for ``a``."""
        return not (self.different or self.deviations)

    @property
    def explained(self) -> bool:
        """Whether the conversion is right for at least three quarters of the elements."""
        return ONE_IN * self.different <= self.elements

    @property
    def sentence(self) -> str:
        """The whole result in one sentence."""
        (a, b), count = self.names, f"{self.different:,} of {self.elements:,} elements"
        told = self.conversion
        if self.deviations:
            told += f", with {words(self.deviations)}"
        if not self.explained:
            return f"no known conversion turns {a} into {b}; the nearest, {told}, leaves {count}"
        told = f"{b} is {a} {told}"
        if self.different:
            told += f", but for {count}; first {self.first[0]}"
        if self.also:
            told += (
                f"; {words(self.also)} would {'leave as many' if self.different else 'do the same'}"
            )
        return told

    def __str__(self) -> str:
        return "\n".join([self.sentence, *(f"  {example}" for example in self.first[1:])])

    def as_data(self) -> dict[str, Any]:
        """The result as JSON values."""
        more = {"exact": self.exact, "explained": self.explained, "sentence": self.sentence}
        return {**asdict(self), "first": [one.as_data() for one in self.first], **more}


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

    def rules(self, *, deviate: bool) -> Iterator[Rule]:
        """What is right, and each deviation that is no other candidate."""
        for some in ((), *(singles(self.how) if deviate else ())):
            other: AnyHow = deviated(self.how, some)
            if not some or not _is_direction(some[0].changes):
                apply = partial(self._results, other)
                yield from (Rule(some, apply, nans, self.told) for nans in (False, True))

    def _results(self, how: AnyHow, bits: Bits) -> Bits:
        return how.results(self.operands(bits))


def _is_direction(changes: Any) -> bool:
    """Whether a deviation is another direction, or another saturation."""
    return changes.keys() == {"saturate"} or changes.get("rounding") in ROUNDINGS


def compare_converted(
    a: host_memory.Array,
    b: host_memory.Array,
    types: tuple[str, str],
    scale: float | None,
    zero_point: int | None,
) -> Converted:
    """The conversion of ``a`` to ``b``, whose dtypes these are; raises :class:`InvalidArgument`."""
    source, target = types
    integers = [dtype for dtype in types if dtype in INTEGER_WIDTHS]
    if len(integers) == 2 or any(INTEGER_WIDTHS[dtype] > WIDEST for dtype in integers):
        raise InvalidArgument(f"b has dtype {target}, a has {source}")
    if not integers and not (scale is None and zero_point is None):
        raise InvalidArgument(f"{source} is cast to {target}, without scale and zero point")
    if not integers:
        candidates = list(_casts(source, target))
    else:
        candidates = list(_linear(a, b, source, target, scale, zero_point))

    def searched(*, deviate: bool) -> Search:
        rules = [rule for each in candidates for rule in each.rules(deviate=deviate)]
        found = Search(rules, partial(differs, dtype=target), exact=False)
        for bits, got in _blocks(a, b):
            found.add(bits.__getitem__, got, is_nan(source, bits))
        return found

    found = searched(deviate=False)
    if any(found.best(of_nans=each)[0].wrong for each in (False, True)):
        found = searched(deviate=True)
    best, nans = found.best(), found.best(of_nans=True)[0]
    different, first, seen = 0, list[Example](), 0
    for bits, got in _blocks(a, b):
        want = np.where(is_nan(source, bits), nans.apply(bits), best[0].apply(bits))
        wrong = np.flatnonzero(differs(got, want, target))
        different += wrong.size
        for i in wrong[: FIRST - len(first)].tolist():
            x, y, z = int(bits[i]), int(got[i]), int(want[i])
            first.append(Example(source, x, y, z, target, index=index_of(seen + i, a.shape)))
        seen += bits.size
    deviations = [*best[0].deviations, *(nans.deviations if nans.wrong == 0 else ())]
    return Converted(
        source,
        target,
        a.shape,
        a.size,
        str(best[0].rounding),
        tuple(dict.fromkeys(map(str, deviations))),
        tuple(dict.fromkeys(rule.name for rule in best[1:])),
        different,
        tuple(first),
    )


def _blocks(a: host_memory.Array, b: host_memory.Array) -> Iterator[tuple[Bits, Bits]]:
    yield from zip(host_memory.patterns(a, BLOCK), host_memory.patterns(b, BLOCK), strict=True)


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
