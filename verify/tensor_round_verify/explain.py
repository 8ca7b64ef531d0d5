"""The search for the deviations that explain results, for every operator and for two arrays.

A rule applies deviations to what is right. It explains results if it predicts every one, also the
right ones. Numbers and NaNs have separate rules, since hardware treats them separately.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from .deviation import Deviation, words
from .reference import Bits, Flags

Places = npt.NDArray[np.intp]
#: Operands of some places of those that are searched.
OperandsAt = Callable[[Places | slice], Any]
#: Which results differ from others.
Differs = Callable[[Bits, Bits], Flags]

#: Operands on which rules are tried first.
FEW = 1 << 10
#: Operands to which a rule is applied at once: with all temporaries they stay in a core's cache.
BLOCK = 1 << 15
#: In an inexact search a rule stays with at most twice the best rule's wrong results plus SLACK.
SLACK = 64
#: After MANY elements only the LIKELIEST best rules with several deviations stay in it.
MANY, LIKELIEST = 1 << 18, 16


@dataclass(frozen=True, slots=True)
class Explanation:
    """The deviations that explain numbers and NaNs: empty if all are right, None if none fit."""

    numbers: tuple[Deviation, ...] | None
    nans: tuple[Deviation, ...] | None

    @property
    def complete(self) -> bool:
        """Whether every fault is explained."""
        return self.numbers is not None and self.nans is not None

    @property
    def deviations(self) -> tuple[Deviation, ...]:
        """All deviations of the explanation: of numbers, then of NaNs."""
        numbers = self.numbers or ()
        return (*numbers, *(one for one in self.nans or () if one not in numbers))

    def __str__(self) -> str:
        found = words(self.deviations)
        if self.complete:
            return f"this is {found}" if found else "nothing is wrong"
        if not found:
            return "no named deviation explains it"
        explained, left = ("NaNs", "numbers") if self.numbers is None else ("numbers", "NaNs")
        return f"for {explained} this is {found}; no named deviation explains the {left}"


@dataclass(slots=True, eq=False)
class Rule:
    """What may have made results: right but for ``deviations``, of which each is a cost.

    ``apply`` computes its results for operands. It concerns numbers, or NaNs ``of_nans``. ``kind``
    is the direction, or the conversion in words, if a search is for that too. ``wrong`` counts the
    results that it does not predict.
    """

    deviations: tuple[Deviation, ...]
    apply: Callable[[Any], Bits]
    of_nans: bool = False
    kind: str | None = None
    wrong: int = 0

    @property
    def name(self) -> str:
        """Its kind and its deviations as text."""
        return words([*filter(None, [self.kind]), *self.deviations])

    @property
    def merit(self) -> tuple[int, int]:
        """The sort key, least for the best: each further deviation must halve the wrong results."""
        return self.wrong << len(self.deviations), len(self.deviations)


class Search:
    """Tries rules on operands and results, which are added part by part.

    An exact search drops a rule at its first wrong result; its parts may be added by several
    threads. If a rule without deviations explains the first part, no other is tried: that part must
    have an operand for each fault. An inexact search counts, and drops what is far from the best.
    """

    def __init__(self, rules: Iterable[Rule], differs: Differs, *, exact: bool = True) -> None:
        self._rules = list(rules)
        self._differs = differs
        self._exact = exact
        self._seen = 0

    def add(self, at: OperandsAt, got: Bits, nan: Flags) -> None:
        """Try the rules that are left on these operands, of which some are NaNs."""
        for of_nans, concerned in ((False, ~nan), (True, nan)):
            places = np.flatnonzero(concerned)
            rules = [
                rule for rule in self._rules if rule.of_nans == of_nans and not self._out(rule)
            ]
            if not places.size or not rules:
                continue
            if self._exact:
                self._refute(rules, at, got, places)
                continue
            where = slice(None) if places.size == got.size else places
            operands, results = at(where), got[where]
            for rule in rules:
                rule.wrong += int(np.count_nonzero(self._differs(rule.apply(operands), results)))
            if not of_nans:
                self._seen += places.size
                self._drop()

    def best(self, *, of_nans: bool = False) -> list[Rule]:
        """The simplest of the nearest rules; several if they have the same results."""
        rules = [rule for rule in self._rules if rule.of_nans == of_nans and not self._out(rule)]
        least = min((rule.merit for rule in rules), default=None)
        return [rule for rule in rules if rule.merit == least]

    def explanation(self) -> Explanation:
        """The simplest explanation that is left."""
        numbers, nans = (
            next((rule.deviations for rule in self.best(of_nans=each)), None)
            for each in (False, True)
        )
        return Explanation(numbers, nans)

    def _out(self, rule: Rule) -> bool:
        return self._exact and rule.wrong > 0

    def _refute(self, rules: list[Rule], at: OperandsAt, got: Bits, places: Places) -> None:
        """Mark the rules that do not predict each of these results."""
        right = next((rule for rule in rules if not rule.deviations), None)
        tried = [places]
        if right is not None:
            wrong = np.concatenate(
                [some[self._wrong(right, at, got, some)] for some in _blocks(places)]
            )
            right.wrong += wrong.size
            rules = [rule for rule in rules if rule is not right]
            if not wrong.size:
                for rule in rules:
                    rule.wrong += 1
                return
            # A few faults, or a few of all operands, rule out most.
            tried = [few[:: max(1, few.size // FEW)] for few in (wrong, places)] + tried
        for rule in rules:
            rule.wrong += any(
                self._wrong(rule, at, got, some).any() for part in tried for some in _blocks(part)
            )

    def _wrong(self, rule: Rule, at: OperandsAt, got: Bits, places: Places) -> Flags:
        return self._differs(rule.apply(at(places)), got[places])

    def _drop(self) -> None:
        """Drop the rules of numbers that are far from the best."""
        rules = sorted((r for r in self._rules if not r.of_nans), key=lambda rule: rule.merit)
        most = 2 * min(rule.wrong for rule in rules) + SLACK
        half = self._seen // 2
        kept = [
            rule
            for rule in rules
            if rule.wrong <= most and (rule.wrong <= half or not rule.deviations)
        ]
        if self._seen >= MANY:
            simple = [rule for rule in kept if len(rule.deviations) <= 1]
            kept = simple + [rule for rule in kept if len(rule.deviations) > 1][:LIKELIEST]
        self._rules = kept + [rule for rule in self._rules if rule.of_nans]


def _blocks(places: Places) -> Iterable[Places]:
    return (places[start : start + BLOCK] for start in range(0, places.size, BLOCK))
