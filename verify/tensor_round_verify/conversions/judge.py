"""Judging a conversion: comparing its results with the reference's, explaining differences."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable

import numpy as np
import numpy.typing as npt

from tensor_round.contract.differences.classes import Codes
from tensor_round.contract.dtypes import BY_NAME

from ..explain import FEW, Explanation
from ..reference import FLOATS, Bits, Flags, is_nan
from ..verifying.effects import Effect
from ..verifying.judge import EXAMPLES
from ..verifying.results import ClassCount, Example, Verdict
from .classes import ConversionClass, of_cast, of_quotient
from .conversion import Cast, How
from .deviations import combinations, deviated
from .patterns import Operands
from .reference import cast, quantized

Places = npt.NDArray[np.intp]


def judge(how: How, operands: Operands, got: Bits) -> Verdict:
    """The verdict on the results of a conversion; any NaN is right for a NaN."""
    bits = operands.bits
    if isinstance(how, Cast):
        want = cast(bits, how.source, how.target, how.rounding, saturate=how.saturate)
        codes = of_cast(bits, how.source, how.target)
    else:
        each = (bits, operands.scales, operands.zero_points, how.source, how.target)
        want, codes = quantized(*each), of_quotient(*each)
    wrong = np.flatnonzero(differs(got, want, how.target))
    pairs = np.stack([bits[wrong].astype(np.uint64), got[wrong].astype(np.uint64)], axis=1)
    return Verdict(
        how.name,
        how.rounding,
        bits.size,
        wrong.size,
        tuple(_counts(how, operands, got, want, codes, wrong)),
        explained(how, operands, got, wrong),
        hashlib.sha256(pairs.tobytes()).hexdigest(),
    )


def differs(got: Bits, want: Bits, target: str) -> Flags:
    """Which results differ; two NaNs never differ."""
    wrong: Flags = got != want
    if target in FLOATS:
        wrong &= ~(is_nan(target, got) & is_nan(target, want))
    return wrong


def explained(how: How, operands: Operands, got: Bits, wrong: Places) -> Explanation:
    """The simplest deviations that predict every result."""
    nan = is_nan(how.source, operands.bits)
    nans_wrong = bool(nan[wrong].any())
    wrong = wrong[~nan[wrong]]
    if not wrong.size:
        return Explanation((), None if nans_wrong else ())
    numbers = np.flatnonzero(~nan)
    # A few faults, or a few of all operands, rule out most combinations.
    few = [some[:: max(1, some.size // FEW)] for some in (wrong, numbers)]
    for deviations in combinations(how):
        other = deviated(how, deviations)
        if all(_predicts(other, operands.at(some), got[some]) for some in (*few, numbers)):
            return Explanation(deviations, None if nans_wrong else ())
    return Explanation(None, None if nans_wrong else ())


def _predicts(how: How, operands: Operands, got: Bits) -> bool:
    return not differs(got, how.results(operands), how.target).any()


def _counts(
    how: How,
    operands: Operands,
    got: Bits,
    want: Bits,
    codes: Codes,
    wrong: Places,
) -> Iterable[ClassCount]:
    for kind in ConversionClass:
        here = wrong[codes[wrong] == kind]
        if not here.size:
            continue
        first = tuple(
            Example(
                how.source,
                int(operands.bits[i]),
                int(got[i]),
                int(want[i]),
                to=how.target,
                given=_given(how.source, operands, int(i)),
            )
            for i in here[:EXAMPLES]
        )
        # Neighbouring floats of one sign, and neighbouring integers: their patterns differ by 1.
        by_one = np.abs(got[here].astype(np.int64) - want[here].astype(np.int64)) == 1
        effect = Effect.OFF_BY_ONE if by_one.all() else Effect.OTHER
        tried = int((codes == kind).sum())
        yield ClassCount(kind, tried, int(here.size), first, effect)


def _given(source: str, operands: Operands, place: int) -> str:
    if not operands.scales.size:
        return ""
    scale = operands.scales[place : place + 1].view(BY_NAME[source].numpy)[0]
    return f"by scale {scale} and zero point {operands.zero_points[place]}"
