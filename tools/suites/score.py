"""Which named wrong rules a published suite lets pass, and which operands would find them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np
import numpy.typing as npt

from tensor_round_verify.deviations import DEVIATIONS, RoundingDeviation
from tensor_round_verify.faulty_kernels import exact
from tensor_round_verify.reference import Bits, Flags, rounded

from .published import Numbers, Suite, hard, numbers


@dataclass(frozen=True, slots=True)
class Score:
    """A suite's cases of one dtype.

    ``rules`` are the named rules that are wrong for numbers of this dtype in this direction, and
    ``passed`` those that the suite takes for right. Of these, ``unseen`` are right by its
    comparison whatever the operand. ``closing`` are patterns that find all that passed.
    """

    suite: Suite
    dtype: str
    rules: tuple[RoundingDeviation, ...]
    passed: tuple[RoundingDeviation, ...]
    unseen: tuple[RoundingDeviation, ...]
    closing: Bits

    @property
    def has_cases(self) -> bool:
        """Whether the suite has cases of this dtype."""
        return bool(self.suite.bits(self.dtype).size)


def score(suite: Suite, dtype: str) -> Score:
    """Judge every rule by the suite's own comparison."""
    answers = answers_of(dtype, suite.rounding)
    given = suite.bits(dtype)
    # What is drawn may be any number.
    right = suite.right(dtype, given)
    passed = tuple(
        rule
        for rule in answers.got
        if _agrees(
            suite, dtype, given, rule.around(exact)(given, dtype, suite.rounding), right
        ).all()
    )
    seen = {
        rule: ~_agrees(suite, dtype, answers.bits, answers.got[rule], answers.want)
        for rule in passed
    }
    unseen = tuple(rule for rule in passed if not seen[rule].any())
    shows = [
        seen[rule] if rule not in unseen else answers.got[rule] != answers.want for rule in passed
    ]
    closing = answers.bits[covering(shows)]
    closing = closing[np.argsort(numbers(closing, dtype), kind="stable")]
    return Score(suite, dtype, tuple(answers.got), passed, unseen, closing)


@dataclass(frozen=True, slots=True)
class Answers:
    """The right results for hard finite patterns, and those of each rule that gives others."""

    bits: Bits
    want: Bits
    got: dict[RoundingDeviation, Bits]


@cache
def answers_of(dtype: str, rounding: str) -> Answers:
    """The results of every named rule that is wrong for numbers; rules of NaNs are apart."""
    bits = hard(dtype)
    bits = bits[np.isfinite(numbers(bits, dtype))]
    bits = bits[_simplest_first(numbers(bits, dtype))]
    want = rounded(bits, dtype, rounding)
    found = {
        rule: rule.around(exact)(bits, dtype, rounding)
        for rule in DEVIATIONS
        if rule.aspect != "nans" and rule.fits(dtype, rounding)
    }
    wrong = {rule: got for rule, got in found.items() if not np.array_equal(got, want)}
    return Answers(bits, want, wrong)


def _simplest_first(values: Numbers) -> npt.NDArray[np.intp]:
    """Places in the order in which a reader would choose: short decimals, small and positive."""
    lengths = np.array([len(repr(abs(value))) for value in values.tolist()])
    # np.lexsort has the last key first.
    return np.lexsort((np.signbit(values), np.abs(values), lengths))


def _agrees(suite: Suite, dtype: str, bits: Bits, got: Bits, want: Bits) -> Flags:
    return suite.agrees(dtype, *(numbers(patterns, dtype) for patterns in (bits, got, want)))


def covering(shows: Sequence[Flags]) -> list[int]:
    """A few places, of which each of ``shows`` has one."""
    left, chosen = np.array(shows, np.bool_), list[int]()
    while left.size:
        chosen.append(int(np.argmax(left.sum(axis=0))))
        left = left[~left[:, chosen[-1]]]
    return chosen
