"""Verifying conversions: the list of them, and the comparison of a runtime's results for each."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Literal

import numpy as np
import numpy.typing as npt

from tensor_round.contract.dtypes import BY_NAME
from tensor_round.contract.errors import CannotVerify

from ..conversions.classes import ConversionClass, of_cast, of_quotient
from ..conversions.conversion import Cast, How, Quantization
from ..conversions.deviations import combinations, deviated
from ..conversions.patterns import Operands, cast_operands, trials
from ..conversions.reference import cast, quantized
from ..explain import FEW, Explanation
from ..reference import FLOATS, ROUNDINGS, Bits, Flags, is_nan
from ..runtimes.runtime import Adapter
from .results import Effect, Example, Verdict
from .tally import Block, Tally

ConversionOperator = Literal["cast", "quantize_linear"]
#: From the place of an operand to its index in a tensor.
IndexOf = Callable[[int], tuple[int, ...]]

#: The types that each operator converts from, and those that it converts to.
SOURCES = {"cast": ("float32", "float64"), "quantize_linear": ("float32", "float16", "bfloat16")}
TARGETS = {
    "cast": ("float16", "bfloat16", "float8_e4m3fn", "float8_e5m2"),
    "quantize_linear": ("int8", "uint8", "int16", "uint16"),
}


def conversions(
    operator: ConversionOperator, dtypes: Sequence[str], roundings: Sequence[str]
) -> list[How]:
    """The conversions to verify.

    ``dtypes`` names types of operands, types of results, or both. Raises :class:`CannotVerify`.
    """
    sources, targets, named = SOURCES[operator], TARGETS[operator], set(dtypes)
    asked = [
        how
        for source in sources
        if source in named or not named & set(sources)
        for target in targets
        if target in named or not named & set(targets)
        for how in _between(source, target, operator)
        if not roundings or how.rounding in roundings
    ]
    if not asked or named - {*sources, *targets}:
        raise CannotVerify(f"{operator} is verified of {', '.join((*sources, *targets))} alone")
    return asked


def _between(source: str, target: str, operator: str) -> Iterator[How]:
    if operator == "quantize_linear":
        yield from (Quantization(source, target, per_axis) for per_axis in (False, True))
        return
    for saturate in (False, True)[: 1 + (FLOATS[target].width == 8)]:
        yield from (Cast(source, target, rounding, saturate) for rounding in ROUNDINGS)


def conversion_verdict(runtime: Adapter, how: How, done: Callable[[int], None]) -> Verdict:
    """The verdict on a conversion by a runtime; raises :class:`NotTaken`.

    ``done`` is called with 1 at the end.
    """
    if isinstance(how, Cast):
        converted = runtime.cast(how)
        bits = cast_operands(how.source, how.target)
        operands, got = Operands.of_cast(bits), converted(bits)
    else:
        convert = runtime.quantize(how)
        tensors = list(trials(how.source, how.target, per_axis=how.per_axis))
        got = np.concatenate([convert(trial) for trial in tensors])
        operands = Operands.joined([trial.operands() for trial in tensors])
    verdict = verdict_on(how, operands, got)
    done(1)
    return verdict


def verdict_on(how: How, operands: Operands, got: Bits, index: IndexOf | None = None) -> Verdict:
    """The verdict on the results of a conversion for these operands.

    ``index`` tells where in a tensor an operand is, for those that are one's elements.
    """
    if isinstance(how, Cast):
        bits = operands.bits
        want = cast(bits, how.source, how.target, how.rounding, saturate=how.saturate)
        codes = of_cast(bits, how.source, how.target)
    else:
        each = (operands.bits, operands.scales, operands.zero_points, how.source, how.target)
        want, codes = quantized(*each), of_quotient(*each)
    wrong = differs(got, want, how.target)
    places = np.flatnonzero(wrong)
    # In one width: the types of operands and results differ.
    x, y, z = (bits[places].astype(np.uint64) for bits in (operands.bits, got, want))
    tally = Tally()
    tally.add(Block(codes, places, x, y, z, effects(y, z)))

    def example(place: int, x: int, got: int, want: int) -> Example:
        given = _given(how.source, operands, place)
        where = None if index is None else index(place)
        return Example(how.source, x, got, want, to=how.target, given=given, index=where)

    explanation = _explained(how, operands, got, wrong)
    return tally.verdict((how.name, how.rounding), tuple(ConversionClass), explanation, example)


def differs(got: Bits, want: Bits, target: str) -> Flags:
    """Which results differ; two NaNs never differ: any NaN is right for a NaN."""
    wrong: Flags = got != want
    if target in FLOATS:
        wrong &= ~(is_nan(target, got) & is_nan(target, want))
    return wrong


def _explained(how: How, operands: Operands, got: Bits, wrong: Flags) -> Explanation:
    """The simplest deviations that predict every result."""
    nan = is_nan(how.source, operands.bits)
    nans = None if (wrong & nan).any() else ()
    places = np.flatnonzero(wrong & ~nan)
    if not places.size:
        return Explanation((), nans)
    numbers = np.flatnonzero(~nan)
    # A few faults, or a few of all operands, rule out most combinations.
    few = [some[:: max(1, some.size // FEW)] for some in (places, numbers)]
    for deviations in combinations(how):
        other = deviated(how, deviations)
        if not any(
            differs(got[some], other.results(operands.at(some)), how.target).any()
            for some in (*few, numbers)
        ):
            return Explanation(deviations, nans)
    return Explanation(None, nans)


def effects(got: Bits, want: Bits) -> npt.NDArray[np.uint8]:
    """The :class:`Effect` of each wrong result, off by one or another."""
    # Neighbouring floats of one sign, and neighbouring integers: their patterns differ by 1.
    by_one = np.abs(got.astype(np.int64) - want.astype(np.int64)) == 1
    return np.where(by_one, Effect.OFF_BY_ONE, Effect.OTHER).astype(np.uint8)


def _given(source: str, operands: Operands, place: int) -> str:
    if not operands.scales.size:
        return ""
    scale = operands.scales[place : place + 1].view(BY_NAME[source].numpy)[0]
    return f"by scale {scale} and zero point {operands.zero_points[place]}"
