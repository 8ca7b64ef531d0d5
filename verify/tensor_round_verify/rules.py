"""The named rules of rounding, and the search for those whose results are nearest an array."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import lru_cache

import numpy as np

from tensor_round.contract.dtypes import BY_NAME

from .changes import Kernel, Values
from .explain import Models, fitting, kernel_of, nan_models, words
from .models import FORMULAS, PATHS, ZEROS
from .reference import INTEGER_WIDTHS, ROUNDINGS, WIDTHS, Bits, all_patterns, is_nan, rounded

#: A rule stays in the search with at most twice the best rule's wrong results plus this many.
SLACK = 64
#: After MANY elements only the LIKELIEST best rules with several models stay in the search.
MANY, LIKELIEST = 1 << 18, 16


@dataclass(slots=True)
class Rule:
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


def directions() -> list[Rule]:
    """The five right rules."""
    return [Rule(rounding, (), quick) for rounding in ROUNDINGS]


def all_rules(dtype: str) -> Iterator[Rule]:
    """Every combination of a direction or formula, a change of zeros, and a path."""
    for path in fitting(PATHS, dtype, ""):
        inside = path[0].computes_in or dtype if path else dtype
        for zeros in fitting(ZEROS, inside, ""):
            around = (*zeros, *path)
            for rounding in ROUNDINGS:
                yield Rule(rounding, around, kernel_of(around, quick))
            for formula in FORMULAS:
                if formula.rounds is None and formula.fits(inside, ""):
                    models = (formula, *around)
                    yield Rule(None, models, kernel_of(models, quick))


def nan_rules(dtype: str) -> list[Rule]:
    """The rules for NaNs: kept, or changed by models."""
    return [Rule(None, models, kernel_of(models, _kept)) for models in ((), *nan_models(dtype, ""))]


class Race:
    """Tries rules on pairs of elements from two arrays, which are added block by block."""

    def __init__(self, dtype: str, rules: list[Rule], nans: list[Rule]) -> None:
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

    def best(self) -> list[Rule]:
        """The simplest of the nearest rules; several if they have the same results."""
        first = min(self._rules, key=_merit)
        return [rule for rule in self._rules if _merit(rule) == _merit(first)]

    def best_of_nans(self) -> Rule:
        """The simplest of the nearest rules for NaNs."""
        return min(self._nans, key=_merit)


def _kept(bits: Bits, _: str, __: str) -> Bits:
    return bits


def _merit(rule: Rule) -> tuple[int, int]:
    """The sort key, least for the best rule: each further model must halve the wrong results."""
    return rule.wrong << len(rule.models), len(rule.models)


def _wrong(rule: Rule, bits: Bits, got: Bits, dtype: str) -> int:
    return int(np.count_nonzero(rule.apply(bits, dtype) != got))


def quick(bits: Bits, dtype: str, rounding: str) -> Bits:
    """The result of :func:`rounded`, computed faster."""
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
