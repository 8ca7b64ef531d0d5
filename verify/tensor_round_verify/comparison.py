"""Comparing arrays: the rule that turns one into another, or operators compared on one array."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from functools import lru_cache
from typing import Any, overload

import numpy as np

from tensor_round.contract import host_memory
from tensor_round.contract.array_forms import read_array
from tensor_round.contract.differences.classes import Codes, ElementClass, PatternClass, classify
from tensor_round.contract.differences.directions import DirectionTally, Tally
from tensor_round.contract.differences.document import (
    ClassDifference,
    Classes,
    Differences,
    Element,
    Value,
    index_of,
    table,
    which,
)
from tensor_round.contract.dtypes import BY_NAME
from tensor_round.contract.errors import InvalidArgument
from tensor_round.contract.operators.dialects.ieee754 import IEEE754Round
from tensor_round.contract.operators.registry import operators_on
from tensor_round.contract.progress import ProgressCallback, counted

from .compared_conversions import ConversionRules, conversion_rules
from .deviation import words
from .deviations import Combination, combinations, kernel_of, nan_combinations
from .explain import BLOCK, Rule, Search
from .faulty_kernels import Kernel, Values
from .reference import (
    INTEGER_WIDTHS,
    ROUNDINGS,
    WIDTHS,
    Bits,
    Flags,
    all_patterns,
    is_nan,
    rounded,
)

#: Further rules that the sentence names: there are four other directions.
NAMED = 4

#: A rule is named as the one that made b if at most one element in so many is against it.
ONE_IN = 4

Progress = bool | ProgressCallback


@dataclass(frozen=True, slots=True)
class Comparison:
    """The rule that turns ``a`` into ``b``, exactly or with the fewest differences.

    ``dtype`` and ``target`` are the dtypes of ``a`` and ``b``. If they differ, ``conversion`` is
    the cast, quantization or dequantization in words. ``rounding`` is the nearest direction, None
    for a formula or a dequantization, which have none. ``deviations`` are those in the rule,
    ``also`` equally simple rules with as many differences, ``operators`` the dialects' operators
    that round in this direction, as text. ``different`` counts the elements of ``b`` that differ
    from the rule's results, ``classes`` lists them by class. ``names`` are the names of ``a`` and
    ``b`` in the sentence.
    """

    dtype: str
    target: str
    shape: tuple[int, ...]
    elements: int
    conversion: str
    rounding: str | None
    deviations: tuple[str, ...]
    also: tuple[str, ...]
    operators: tuple[str, ...]
    different: int
    classes: Classes
    names: tuple[str, str] = ("array a", "array b")

    def named(self, a: str, b: str) -> Comparison:
        """The same, of arrays with these names, such as those of files."""
        return replace(self, names=(a, b))

    @property
    def exact(self) -> bool:
        """Whether an operator gives exactly ``b`` for ``a``."""
        return not (self.different or self.deviations)

    @property
    def explained(self) -> bool:
        """Whether the rule is right for at least three quarters of the elements."""
        return ONE_IN * self.different <= self.elements

    @property
    def rule(self) -> str:
        """The rule as text: a direction, a formula or a conversion, and deviations."""
        return words([*filter(None, [self.conversion or self.rounding]), *self.deviations])

    @property
    def sentence(self) -> str:
        """The whole result in one sentence."""
        elements = "element" if self.elements == 1 else "elements"
        count = f"{self.different:,} of {self.elements:,} {elements}"
        if not self.explained:
            wrong = round(100 * self.different / self.elements)
            told = f"no known rule; the nearest, {self.rule}, is wrong on {wrong} %: {count}"
            return told + which(self.classes)
        a, b = self.names
        made = self.conversion or f"rounded {self.rounding or f'by {self.rule}'}"
        if self.deviations and (self.conversion or self.rounding):
            made += f", with {words(self.deviations)}"
        told = f"{b} is {a} {made}"
        if self.different:
            told += f", but for {count}{which(self.classes)}"
        if not self.also:
            return told
        more = [f"{len(self.also) - NAMED:,} more"] if len(self.also) > NAMED else []
        others = words([*self.also[:NAMED], *more])
        return f"{told}; {others} would {'leave as many' if self.different else 'do the same'}"

    def __str__(self) -> str:
        lines = [self.sentence]
        if self.operators and self.explained:
            lines.append(f"operators: {', '.join(self.operators)}")
        for row in self.classes.values():
            lines += [f"  {row.name}: {row.different:,}", *(f"    {e}" for e in row.first)]
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        rows = [
            (row.name, f"{row.different:,}", str(element))
            for row in self.classes.values()
            for element in row.first
        ]
        return table((self.sentence,), ()) + (
            table(("class", "different", "element"), rows) if rows else ""
        )

    def as_data(self) -> dict[str, Any]:
        """The result as JSON values."""
        return {
            **asdict(self),
            "exact": self.exact,
            "explained": self.explained,
            "sentence": self.sentence,
        }


@overload
def compare(a: Any, b: None = None, *, progress: Progress = False) -> Differences: ...
@overload
def compare(
    a: Any,
    b: object,
    *,
    scale: float | None = None,
    zero_point: int | None = None,
    progress: Progress = False,
) -> Comparison: ...
def compare(
    a: Any,
    b: object = None,
    *,
    scale: float | None = None,
    zero_point: int | None = None,
    progress: Progress = False,
) -> Differences | Comparison:
    """The operator or deviation that turns ``a`` into ``b``.

    If ``b`` has another dtype, the cast, or the linear quantization or dequantization, that does
    so: by ``scale`` and ``zero_point``, or by those that explain it.

    With ``a`` alone: the differences of the rounding directions and dialects' operators on it.

    Arrays and ``progress`` are as for :meth:`Client.round`; ``b`` has the shape of ``a``. Elements
    are compared by their bits, masked ones included. A mapped file may be larger than memory. No
    service is needed.

    Raises :class:`InvalidDescriptor` for a dtype or rank that no operator accepts, and
    :class:`InvalidArgument` for arrays of different shape, or types that no conversion has.
    """
    first = read_array(a, "a")
    shape = first.array.shape
    IEEE754Round().prepare(first.dtype, shape)
    if b is None:
        tally = DirectionTally(first.dtype, by_instructions)
        for (bits,) in _blocks(progress, "comparing", first.array):
            tally.add(bits)
        return tally.differences(shape)
    second = read_array(b, "b")
    if second.array.shape != shape:
        raise InvalidArgument(f"b has shape {second.array.shape}, a has {shape}")
    types = first.dtype, second.dtype
    known: KnownRules
    if second.dtype != first.dtype:
        known = conversion_rules(first.array, second.array, types, scale, zero_point)
    elif scale is None and zero_point is None:
        known = RoundingRules(first.dtype, shape)
    else:
        raise InvalidArgument(f"a and b are {first.dtype}: rounding has no scale and zero point")
    return _Pair(first.array, second.array, types, known, progress).comparison()


class _Pair:
    """Two arrays of one shape."""

    def __init__(
        self,
        a: host_memory.Array,
        b: host_memory.Array,
        types: tuple[str, str],
        known: KnownRules,
        progress: Progress,
    ) -> None:
        self._arrays = a, b
        self._source, self._target = types
        self._known = known
        self._progress = progress

    def comparison(self) -> Comparison:
        """The nearest rule, and the elements that differ from its results."""
        found = self._searched(self._known.right())
        if any(found.best(of_nans=each)[0].wrong for each in (False, True)):
            found = self._searched(self._known.every())
        rules, nans = found.best(), found.best(of_nans=True)[0]
        deviations = tuple(dict.fromkeys(map(str, (*rules[0].deviations, *nans.deviations))))
        wrong = rules[0].wrong + nans.wrong
        exact = [] if deviations else rules[: 1 if wrong else None]
        tally = self._left_over(rules[0], nans) if wrong else Tally()
        conversion, rounding = self._known.described(rules[0])
        return Comparison(
            dtype=self._source,
            target=self._target,
            shape=self._arrays[0].shape,
            elements=self._arrays[0].size,
            conversion=conversion,
            rounding=rounding,
            deviations=deviations,
            also=tuple(dict.fromkeys(rule.name for rule in rules[1:])),
            operators=tuple(word for rule in exact for word in self._known.operators(rule)),
            different=tally.counts.total(),
            classes={
                kind.label: ClassDifference(
                    kind.plural(self._source),
                    tally.counts[kind],
                    tuple(self._element(*row) for row in tally.first([kind])),
                )
                for kind in self._known.classes
                if tally.counts[kind]
            },
        )

    def _searched(self, rules: Iterable[Rule]) -> Search:
        found = Search(rules, self._known.differs, exact=False)
        for bits, got in _blocks(self._progress, "comparing", *self._arrays):
            found.add(bits.__getitem__, got, is_nan(self._source, bits))
        return found

    def _left_over(self, rule: Rule, nans: Rule) -> Tally:
        """The elements that differ from the rules' results."""
        tally, seen = Tally(), 0
        for bits, got in _blocks(self._progress, "counting", *self._arrays):
            nan = is_nan(self._source, bits)
            want = np.where(nan, nans.apply(bits), rule.apply(bits))
            wrong = np.flatnonzero(self._known.differs(got, want))
            x, want = bits[wrong], want[wrong]
            codes = self._known.classified(rule, x, want)
            tally.add(codes, wrong + seen, x, got[wrong], want)
            seen += bits.size
        return tally

    def _element(self, place: int, x: int, got: int, want: int) -> Element:
        results = {"b": got, "expected": want}
        return Element(
            index_of(place, self._arrays[0].shape),
            Value.of(self._source, x),
            {name: Value.of(self._target, bits) for name, bits in results.items()},
        )


def _blocks(
    progress: Progress, doing: str, *arrays: host_memory.Array
) -> Iterator[tuple[Bits, ...]]:
    """Yield blocks of the arrays' elements in C order, as patterns."""
    with counted(progress, arrays[0].nbytes, doing) as done:
        for blocks in zip(*(host_memory.patterns(array, BLOCK) for array in arrays), strict=True):
            yield blocks
            done(blocks[0].nbytes)


class RoundingRules:
    """The rules of rounding an array of a dtype; all bits count, also of NaNs."""

    classes: type[ElementClass] = PatternClass

    def __init__(self, dtype: str, shape: tuple[int, ...]) -> None:
        self._dtype = dtype
        self._operators = operators_on(dtype, shape)

    def differs(self, got: Bits, want: Bits) -> Flags:
        """Which results differ."""
        wrong: Flags = got != want
        return wrong

    def right(self) -> Iterator[Rule]:
        """Every direction; NaNs stay as they are."""
        for rounding in ROUNDINGS:
            yield self._rule((), by_instructions, rounding)
        yield self._rule((), _kept, None, of_nans=True)

    def every(self) -> Iterator[Rule]:
        """Every combination of deviations in every direction; a formula has none."""
        for some in combinations(self._dtype, ""):
            if not any(one.rounds for one in some):  # that is another direction
                is_formula = any(one.aspect == "formula" for one in some)
                for rounding in (None,) if is_formula else ROUNDINGS:
                    yield self._rule(some, by_instructions, rounding)
        for some in nan_combinations(self._dtype, ""):
            yield self._rule(some, _kept, None, of_nans=True)

    def classified(self, rule: Rule, bits: Bits, want: Bits) -> Codes:
        """The classes of elements, of which the rule gives these results."""
        return classify(bits, self._dtype, want)

    def described(self, rule: Rule) -> tuple[str, str | None]:
        """No conversion, and the direction."""
        return "", rule.kind

    def operators(self, rule: Rule) -> Sequence[str]:
        """The dialects' operators with the rule's direction."""
        return self._operators[rule.kind] if rule.kind else ()

    def _rule(
        self, some: Combination, kernel: Kernel, rounding: str | None, *, of_nans: bool = False
    ) -> Rule:
        wrong, asked = kernel_of(some, kernel), rounding or ROUNDINGS[0]
        return Rule(some, lambda bits: wrong(bits, self._dtype, asked), of_nans, rounding)


#: The rules that may have made one array of another, whose dtypes they suit.
KnownRules = RoundingRules | ConversionRules


def _kept(bits: Bits, dtype: str, rounding: str) -> Bits:
    return bits


def by_instructions(bits: Bits, dtype: str, rounding: str) -> Bits:
    """The result of :func:`rounded`, by tables and the processor's instructions."""
    if dtype in INTEGER_WIDTHS:
        return bits
    if WIDTHS[dtype] <= 16:
        found: Bits = np.take(_table(dtype, rounding), bits)
        return found
    with np.errstate(all="ignore"):
        values = _INSTRUCTIONS[rounding](bits.view(BY_NAME[dtype].numpy))
    return np.where(is_nan(dtype, bits), bits, values.view(bits.dtype))


@lru_cache(maxsize=32)
def _table(dtype: str, rounding: str) -> Bits:
    return rounded(all_patterns(dtype), dtype, rounding)


def _away(x: Values) -> Values:
    # With the predecessor of 1/2 the sum is never rounded up to an integer that is too large.
    less = np.nextafter(x.dtype.type(0.5), x.dtype.type(0))
    results: Values = np.trunc(x + np.copysign(less, x))
    return results


_INSTRUCTIONS: dict[str, Callable[[Values], Values]] = {
    "ties_to_even": np.rint,
    "ties_to_away": _away,
    "toward_zero": np.trunc,
    "toward_positive": np.ceil,
    "toward_negative": np.floor,
}
