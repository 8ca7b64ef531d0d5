"""Comparison of a block of results with the reference, and the sum over all blocks."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np
import numpy.typing as npt

from tensor_round.contract.differences.classes import PatternClass, classify

from ..explain import Hypotheses
from ..reference import FLOATS, Bits, is_nan, rounded
from .effects import Effect, effects
from .results import ClassCount, Example, Verdict

#: Examples of each class.
EXAMPLES = 3

Counts = npt.NDArray[np.intp]

#: The required result for a NaN: the same bits; or the quiet NaN of IEEE 754 if it is signalling;
#: or any NaN.
Nans = Literal["bits", "quiet", "any"]
NANS: tuple[Nans, ...] = get_args(Nans)

#: The order of classes in reports: NaNs last, since numbers matter more to most readers.
_ORDER = sorted(PatternClass, key=lambda kind: kind <= PatternClass.QUIET_NAN)


@dataclass(frozen=True, slots=True)
class BlockVerdict:
    """The comparison of one block."""

    tried: Counts
    wrong: Counts
    first: dict[PatternClass, tuple[Example, ...]]
    effects: dict[PatternClass, Effect]
    #: Rows of a wrongly rounded operand and its result.
    pairs: Bits
    hypotheses: Hypotheses


def judge(
    bits: Bits,
    got: Bits,
    dtype: str,
    rounding: str,
    hypotheses: Hypotheses | None,
    nans: Nans = "bits",
) -> BlockVerdict:
    """Compare a block; without ``hypotheses`` it is the first of its dtype and direction."""
    want = rounded(bits, dtype, rounding)
    got = _forgiven(got, want, dtype, nans)
    codes = classify(bits, dtype, want)
    wrong = np.flatnonzero(got != want)
    if hypotheses is None:
        hypotheses = Hypotheses.of(bits, got, want, dtype, rounding)
    else:
        hypotheses = hypotheses.surviving(bits, got, want)
    wrong_codes = codes[wrong]
    counts = np.bincount(wrong_codes, minlength=len(PatternClass))
    found = effects(got[wrong], want[wrong], dtype)
    first, effect = {}, {}
    for code in np.flatnonzero(counts).tolist():
        here = np.flatnonzero(wrong_codes == code)
        effect[PatternClass(code)] = Effect(int(np.bitwise_or.reduce(found[here])))
        places = wrong[here[:EXAMPLES]]
        first[PatternClass(code)] = tuple(
            Example(dtype, int(bits[i]), int(got[i]), int(want[i])) for i in places
        )
    return BlockVerdict(
        np.bincount(codes, minlength=len(PatternClass)),
        counts,
        first,
        effect,
        np.stack([bits[wrong], got[wrong]], axis=1),
        hypotheses,
    )


def _forgiven(got: Bits, want: Bits, dtype: str, nans: Nans) -> Bits:
    """The results, with each NaN that ``nans`` allows replaced by the right one."""
    if nans == "bits" or dtype not in FLOATS:
        return got
    may_differ = is_nan(dtype, want) & is_nan(dtype, got)
    if nans == "quiet":
        may_differ &= got == want | want.dtype.type(1 << (FLOATS[dtype].fraction_bits - 1))
    return np.where(may_differ, want, got)


class Tally:
    """The sum over the blocks of one dtype and direction, which are added in order."""

    def __init__(self, dtype: str, rounding: str) -> None:
        self.dtype = dtype
        self.rounding = rounding
        self._tried: Counts = np.zeros(len(PatternClass), np.intp)
        self._wrong: Counts = np.zeros(len(PatternClass), np.intp)
        self._first: dict[PatternClass, tuple[Example, ...]] = {}
        self._effects: dict[PatternClass, Effect] = {}
        self._hypotheses: Hypotheses | None = None
        self._digest = hashlib.sha256()

    def add(self, block: BlockVerdict) -> None:
        """Count the next block."""
        self._tried += block.tried
        self._wrong += block.wrong
        for kind, found in block.first.items():
            self._first[kind] = (*self._first.get(kind, ()), *found)[:EXAMPLES]
        for kind, effect in block.effects.items():
            self._effects[kind] = self._effects.get(kind, effect) | effect
        self._digest.update(block.pairs.reshape(-1).data)
        before = self._hypotheses
        self._hypotheses = block.hypotheses if before is None else before.both(block.hypotheses)

    def verdict(self) -> Verdict:
        """The verdict on all blocks."""
        assert self._hypotheses is not None, "no block was judged"
        return Verdict(
            self.dtype,
            self.rounding,
            int(self._tried.sum()),
            int(self._wrong.sum()),
            tuple(
                ClassCount(
                    kind,
                    int(self._tried[kind]),
                    int(self._wrong[kind]),
                    self._first[kind],
                    self._effects[kind],
                )
                for kind in _ORDER
                if self._wrong[kind]
            ),
            self._hypotheses.explanation(),
            self._digest.hexdigest(),
        )
