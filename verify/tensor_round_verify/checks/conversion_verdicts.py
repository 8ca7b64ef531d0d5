"""The verdict on the results of a conversion: counted by class, and explained."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from functools import partial

import numpy as np
import numpy.typing as npt

from tensor_round.contract.differences.classes import Codes
from tensor_round.contract.dtypes import BY_NAME

from ..conversions.blocks.quantization import BlockDequantization, BlockQuantization
from ..conversions.classes import ConversionClass, classes_of
from ..conversions.conversion import Cast, Dequantization, Quantization
from ..conversions.deviation import AnyHow, ConversionDeviation, deviated
from ..conversions.fitting import Combination, combinations, fitting, singles
from ..conversions.patterns import Operands
from ..explain import FEW, Explanation, Places, Rule, Search
from ..reference import FLOAT_FORMATS, Bits, Flags, differs, is_nan
from ..report import Effect, Example, IndexOf, Verdict
from .tally import Block, Tally, from_one


def verdict_on(how: AnyHow, operands: Operands, got: Bits, index: IndexOf | None = None) -> Verdict:
    """The verdict on the results of a conversion for these operands.

    ``index`` tells where in a tensor an operand is, for those that are one's elements.
    """
    want, codes = how.results(operands), classes_of(how, operands)
    wrong = differs(got, want, how.target)
    places = np.flatnonzero(wrong)
    # In one width: the types of operands and results differ.
    x, y, z = (bits[places].astype(np.uint64) for bits in (operands.bits, got, want))
    tally = Tally()
    distances = None if index else from_one(operands.bits[places], how.source)
    tally.add(Block(codes, places, x, y, z, effects(y, z, how.target), distances))

    def example(place: int, x: int, got: int, want: int) -> Example:
        by, where = given(how, operands, place), index and index(place)
        of_scale = isinstance(how, BlockQuantization) and bool(operands.zero_points[place] < 0)
        return Example(how.source, x, got, want, how.target, by, where, of_scale)

    explanation = _explained(how, operands, got, _of_each(codes, places))
    return tally.verdict((how.name, how.rounding), tuple(ConversionClass), explanation, example)


def _of_each(codes: Codes, places: Places) -> Places:
    """A few of the places, some of each class."""
    some = [
        own[:: max(1, own.size // FEW)] for own in (places[codes[places] == c] for c in range(16))
    ]
    return np.concatenate(some)


def _explained(how: AnyHow, operands: Operands, got: Bits, faults: Places) -> Explanation:
    """The simplest deviations that predict every result; ``faults`` are some wrong ones."""
    differ = partial(differs, dtype=how.target)
    has_nans = how.source in FLOAT_FORMATS  # not a format of blocks
    nan = is_nan(how.source, operands.bits) if has_nans else np.zeros(got.size, bool)

    def searched(some: Iterable[Combination], of_nans: Iterable[Combination] = ()) -> Explanation:
        asked = ((False, ((), *some)), (True, ((), *of_nans)))
        rules = [
            Rule(each, deviated(how, each).results, nans) for nans, own in asked for each in own
        ]
        found = Search(rules, differ)
        found.add(operands.at, got, nan)
        return found.explanation()

    single = singles(how)
    numbers = [some for some in single if some[0].aspect != "nans"]
    # A type, or one on the way, may change NaNs too.
    explanation = searched(
        numbers, [some for some in single if some[0].aspect in ("nans", "type", "path")]
    )
    if explanation.numbers is not None:
        return explanation
    # Of deviations that occur together each explains a fault, alone or on another path, if it can
    # be alone: subnormals of float32 are none of float64.
    faults = faults[~nan[faults]]
    some, found = operands.at(faults), got[faults]

    def explained(*by: ConversionDeviation) -> Flags:
        return ~differ(deviated(how, by).results(some), found)

    alone = [(one, explained(one)) for (one,) in numbers]
    paths = [(one, by_it) for one, by_it in alone if one.aspect == "path" and by_it.any()]
    useless = {
        one.name
        for one, by_it in alone
        if not by_it.any()
        and not any((explained(path, one) & ~by_path).any() for path, by_path in paths)
    }
    useful = [one for one in fitting(how) if one.name not in useless and one.aspect != "nans"]
    joined = searched(combinations(how, useful))
    return replace(explanation, numbers=joined.numbers)


def effects(got: Bits, want: Bits, target: str) -> npt.NDArray[np.uint8]:
    """The :class:`Effect` of each wrong result: off by one, without its sign, or another."""
    # Neighbouring floats of one sign, and neighbouring integers: their patterns differ by 1.
    by_one = np.abs(got.astype(np.int64) - want.astype(np.int64)) == 1
    sign = np.uint64(FLOAT_FORMATS[target].sign_bit if target in FLOAT_FORMATS else 0)
    lost = (want & sign > 0) & (got == want ^ sign)
    found = [Effect.SIGN_LOST, Effect.OFF_BY_ONE]
    return np.select([lost, by_one], found, Effect.OTHER).astype(np.uint8)


def given(how: AnyHow, operands: Operands, place: int) -> str:
    """By what an operand was converted, in words."""
    if isinstance(how, Cast):
        return ""
    point = operands.zero_points[place].item()
    if isinstance(how, Quantization | Dequantization):
        scale = operands.scales[place : place + 1].view(BY_NAME[how.scale_type].numpy)[0]
        return f"by scale {scale!s} and zero point {point}"
    by = "" if how.tensor_scale == 1 else f" and the tensor's {how.tensor_scale:.9g}"
    if isinstance(how, BlockDequantization):
        return f"by {how.format.scale_value(point)}{by}"
    if point < 0:
        return f"as amax{by and ' by'}{by[4:]}"
    amax = how.values(operands.scales[place : place + 1])[0]
    return f"by {how.format.scale_value(point)}{by} of amax {amax:.9g}"
