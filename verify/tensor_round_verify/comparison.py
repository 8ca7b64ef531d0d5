"""Comparing arrays: the rule that turns one into another, or operators compared on one array."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field, replace
from functools import lru_cache
from typing import Any, overload

import numpy as np

from tensor_round.contract import host_memory
from tensor_round.contract.array_forms import read_array
from tensor_round.contract.differences.classes import PatternClass, classify
from tensor_round.contract.differences.directions import DirectionTally, Tally, class_difference
from tensor_round.contract.differences.document import Classes, Differences, table, which
from tensor_round.contract.dtypes import BY_NAME
from tensor_round.contract.errors import InvalidArgument
from tensor_round.contract.operators.dialects.ieee754 import IEEE754Round
from tensor_round.contract.operators.registry import operators_on
from tensor_round.contract.progress import ProgressCallback, counted

from .explain import Models, fitting, kernel_of, nan_models, words, zeros_of
from .faulty_kernels import Kernel, Values
from .models import FORMULAS, PATHS
from .reference import INTEGER_WIDTHS, ROUNDINGS, WIDTHS, Bits, all_patterns, is_nan, rounded

#: Elements compared at once: with all temporaries they stay in a core's cache.
BLOCK = 1 << 15

#: Further rules that the sentence names: there are four other directions.
NAMED = 4

#: A rule stays in the search with at most twice the best rule's wrong results plus this many.
SLACK = 64
#: After MANY elements only the LIKELIEST best rules with several models stay in the search.
MANY, LIKELIEST = 1 << 18, 16

#: A rule is named as the one that made b if at most one element in so many is against it.
ONE_IN = 4

Progress = bool | ProgressCallback


@dataclass(frozen=True, slots=True)
class Comparison:
    """The rule that rounds ``a`` to ``b``, exactly or with the fewest differences.

    ``rounding`` is the nearest direction, None for a formula without one. ``models`` are the models
    of misbehaviour in the rule, ``also`` equally simple rules with as many differences,
    ``operators`` the dialects' operators with this direction, as text. ``different`` counts the
    elements of ``b`` that differ from the rule's results, ``classes`` lists them by class.
    ``names`` are the names of ``a`` and ``b`` in the sentence.
    """

    dtype: str
    shape: tuple[int, ...]
    elements: int
    rounding: str | None
    models: tuple[str, ...]
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
        return not (self.different or self.models)

    @property
    def explained(self) -> bool:
        """Whether the rule is right for at least three quarters of the elements."""
        return ONE_IN * self.different <= self.elements

    @property
    def rule(self) -> str:
        """The rule as text: a direction or a formula, and models."""
        return words([*([self.rounding] if self.rounding else []), *self.models])

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
        how = f"by {self.rule}"
        if self.rounding:
            how = self.rounding + (f", with {words(self.models)}" if self.models else "")
        told = f"{b} is {a} rounded {how}"
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
def compare(a: Any, b: object, *, progress: Progress = False) -> Comparison: ...
def compare(a: Any, b: object = None, *, progress: Progress = False) -> Differences | Comparison:
    """The operator or model of misbehaviour that turns ``a`` into ``b``.

    With ``a`` alone: the differences of the rounding directions and dialects' operators on it.

    Arrays and ``progress`` are as for :meth:`Client.round`; ``b`` has the shape and dtype of
    ``a``. Elements are compared by their bits, masked ones included. A mapped file may be larger
    than memory. No service is needed.

    Raises :class:`InvalidDescriptor` for a dtype or rank that no operator accepts, and
    :class:`InvalidArgument` for arrays of different shape or dtype.
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
    if second.dtype != first.dtype:
        raise InvalidArgument(f"b has dtype {second.dtype}, a has {first.dtype}")
    return _Pair(first.array, second.array, first.dtype, progress).comparison()


class _Pair:
    """Two arrays of one shape and dtype."""

    def __init__(
        self, a: host_memory.Array, b: host_memory.Array, dtype: str, progress: Progress
    ) -> None:
        self._arrays = a, b
        self._dtype = dtype
        self._progress = progress

    def comparison(self) -> Comparison:
        """The nearest rule, and the elements that differ from its results."""
        right_rules = [_Rule(rounding, (), by_instructions) for rounding in ROUNDINGS]
        race = self._raced(right_rules, _nan_rules(self._dtype)[:1])
        if race.best()[0].wrong or race.best_of_nans().wrong:
            race = self._raced(list(_all_rules(self._dtype)), _nan_rules(self._dtype))
        rules, nans = race.best(), race.best_of_nans()
        models = (*rules[0].models, *nans.models)
        shape = self._arrays[0].shape
        operators = operators_on(self._dtype, shape)
        wrong = rules[0].wrong + nans.wrong
        right = [] if models else [r.rounding for r in rules[: 1 if wrong else None] if r.rounding]
        tally = self._left_over(rules[0], nans) if wrong else Tally()
        return Comparison(
            self._dtype,
            shape,
            self._arrays[0].size,
            rules[0].rounding,
            tuple(model.name for model in models),
            tuple(rule.name for rule in rules[1:]),
            tuple(word for rounding in right for word in operators[rounding]),
            tally.counts.total(),
            {
                kind.label: class_difference(
                    kind,
                    tally.counts[kind],
                    tally.first([kind]),
                    ("b", "expected"),
                    self._dtype,
                    shape,
                )
                for kind in PatternClass
                if tally.counts[kind]
            },
        )

    def _raced(self, rules: list[_Rule], nans: list[_Rule]) -> _Race:
        race = _Race(self._dtype, rules, nans)
        for bits, got in _blocks(self._progress, "comparing", *self._arrays):
            race.add(bits, got)
        return race

    def _left_over(self, rule: _Rule, nans: _Rule) -> Tally:
        """The elements that differ from the rules' results."""
        tally, seen = Tally(), 0
        for bits, got in _blocks(self._progress, "counting", *self._arrays):
            nan = is_nan(self._dtype, bits)
            want = np.where(nan, nans.apply(bits, self._dtype), rule.apply(bits, self._dtype))
            wrong = np.flatnonzero(want != got)
            x, want = bits[wrong], want[wrong]
            codes = classify(x, self._dtype, want)
            tally.add(codes, wrong + seen, x, got[wrong], want)
            seen += bits.size
        return tally


def _blocks(
    progress: Progress, doing: str, *arrays: host_memory.Array
) -> Iterator[tuple[Bits, ...]]:
    """Yield blocks of the arrays' elements in C order, as patterns."""
    with counted(progress, arrays[0].nbytes, doing) as done:
        for blocks in zip(*(host_memory.patterns(array, BLOCK) for array in arrays), strict=True):
            yield blocks
            done(blocks[0].nbytes)


@dataclass(slots=True)
class _Rule:
    """A direction (None for a formula without one), and models of misbehaviour.

    ``wrong`` counts the elements for which it gives another result.
    """

    rounding: str | None
    models: Models
    kernel: Kernel = field(repr=False)
    wrong: int = 0

    @property
    def name(self) -> str:
        """Direction and models as text."""
        return words([*([self.rounding] if self.rounding else []), *map(str, self.models)])

    def apply(self, bits: Bits, dtype: str) -> Bits:
        """Round patterns by the rule."""
        return self.kernel(bits, dtype, self.rounding or ROUNDINGS[0])


def _all_rules(dtype: str) -> Iterator[_Rule]:
    """Every combination of a direction or formula, a change of zeros, and a path."""
    for path in fitting(PATHS, dtype, ""):
        inside = path[0].computes_in or dtype if path else dtype
        for zeros in zeros_of(path, inside, ""):
            around = (*zeros, *path)
            for rounding in ROUNDINGS:
                yield _Rule(rounding, around, kernel_of(around, by_instructions))
            for formula in FORMULAS:
                if formula.rounds is None and formula.fits(inside, ""):
                    models = (formula, *around)
                    yield _Rule(None, models, kernel_of(models, by_instructions))


def _nan_rules(dtype: str) -> list[_Rule]:
    """The rules for NaNs: kept, or changed by models."""
    return [
        _Rule(None, models, kernel_of(models, _kept)) for models in ((), *nan_models(dtype, ""))
    ]


class _Race:
    """Tries rules on pairs of elements from two arrays, which are added block by block."""

    def __init__(self, dtype: str, rules: list[_Rule], nans: list[_Rule]) -> None:
        self._dtype = dtype
        self._rules = rules
        self._nans = nans
        self._seen = 0

    def add(self, bits: Bits, got: Bits) -> None:
        """Count the next elements, and drop rules that are far from the best."""
        nan = is_nan(self._dtype, bits)
        if nan.any():
            for rule in self._nans:
                rule.wrong += _wrong(rule, bits[nan], got[nan], self._dtype)
            bits, got = bits[~nan], got[~nan]
        for rule in self._rules:
            rule.wrong += _wrong(rule, bits, got, self._dtype)
        self._seen += bits.size
        self._rules.sort(key=_merit)
        most = 2 * min(rule.wrong for rule in self._rules) + SLACK
        half = self._seen // 2
        kept = [r for r in self._rules if r.wrong <= most and (r.wrong <= half or not r.models)]
        if self._seen >= MANY:
            simple = [rule for rule in kept if len(rule.models) <= 1]
            kept = simple + [rule for rule in kept if len(rule.models) > 1][:LIKELIEST]
        self._rules = kept

    def best(self) -> list[_Rule]:
        """The simplest of the nearest rules; several if they have the same results."""
        first = min(self._rules, key=_merit)
        return [rule for rule in self._rules if _merit(rule) == _merit(first)]

    def best_of_nans(self) -> _Rule:
        """The simplest of the nearest rules for NaNs."""
        return min(self._nans, key=_merit)


def _kept(bits: Bits, _: str, __: str) -> Bits:
    return bits


def _merit(rule: _Rule) -> tuple[int, int]:
    """The sort key, least for the best rule: each further model must halve the wrong results."""
    return rule.wrong << len(rule.models), len(rule.models)


def _wrong(rule: _Rule, bits: Bits, got: Bits, dtype: str) -> int:
    return int(np.count_nonzero(rule.apply(bits, dtype) != got))


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
