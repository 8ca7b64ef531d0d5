"""Verifying conversions: the list of them, and the comparison of a runtime's results for each."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Literal

import numpy as np
import numpy.typing as npt

from tensor_round.contract.differences.classes import Codes
from tensor_round.contract.dtypes import BY_NAME
from tensor_round.contract.errors import CannotVerify

from ..conversions.blocks.deviations import SOURCES_OF_LAYOUTS
from ..conversions.blocks.formats import FORMATS
from ..conversions.blocks.operands import (
    LAYOUTS,
    block_operands,
    coded_blocks,
    decoded_operands,
    quantized_operands,
)
from ..conversions.blocks.quantization import (
    Array,
    BlockDequantization,
    BlockHow,
    BlockQuantization,
    Blocks,
)
from ..conversions.classes import ConversionClass, classes_of
from ..conversions.conversion import Cast, Dequantization, Quantization
from ..conversions.deviation import AnyHow, deviated
from ..conversions.deviations import Combination, combinations, fitting, singles
from ..conversions.patterns import Operands, cast_operands, trials
from ..deviation import NO_REPORT, Deviation
from ..explain import FEW, Explanation, Places, Rule, Search
from ..reference import FLOATS, ROUNDINGS, Bits, differs, is_nan
from ..report import CallFault, Effect, Example, IndexOf, Verdict
from ..runtimes.runtime import (
    Casts,
    DequantizesBlocks,
    NotTaken,
    QuantizeBlocks,
    Quantizes,
    QuantizesBlocks,
    Runtime,
)
from .tally import Block, Tally

ConversionOperator = Literal["cast", "quantize_linear", "block_quantize", "block_dequantize"]

#: The operator of each kind of conversion.
OPERATORS: dict[type[AnyHow], ConversionOperator] = {
    Cast: "cast",
    Quantization: "quantize_linear",
    BlockQuantization: "block_quantize",
    BlockDequantization: "block_dequantize",
}
#: The types that each operator converts from, and those that it converts to.
_NARROW = ("float32", "float16", "bfloat16")
SOURCES = {
    "cast": ("float32", "float64"),
    "quantize_linear": _NARROW,
    "block_quantize": _NARROW,
    "block_dequantize": tuple(FORMATS),
}
TARGETS = {
    "cast": ("float16", "bfloat16", "float8_e4m3fn", "float8_e5m2"),
    "quantize_linear": ("int8", "uint8", "int16", "uint16"),
    "block_quantize": tuple(FORMATS),
    "block_dequantize": _NARROW,
}
#: A scale of the tensor that is no power of two, for NVFP4.
TENSOR_SCALE = float(np.float32(0.0123))

_STOCHASTIC = "the same array gives other results in another call: rounding is stochastic"


def conversions(
    operator: ConversionOperator,
    dtypes: Sequence[str],
    roundings: Sequence[str],
    scale: str | None = None,
) -> list[AnyHow]:
    """The conversions to verify.

    ``dtypes`` names types of operands, types of results, or both; ``scale`` is the rule of the
    scales of blocks, by default each format's own. Raises :class:`CannotVerify`.
    """
    sources, targets, named = SOURCES[operator], TARGETS[operator], set(dtypes)
    asked = [
        how
        for source in sources
        if source in named or not named & set(sources)
        for target in targets
        if target in named or not named & set(targets)
        for how in _between(source, target, operator, scale)
        if not roundings or how.rounding in roundings
    ]
    if not asked or named - {*sources, *targets}:
        raise CannotVerify(f"{operator} supports only {', '.join((*sources, *targets))}")
    return asked


def _between(source: str, target: str, operator: str, scale: str | None) -> Iterator[AnyHow]:
    if operator == "block_quantize":
        rules = FORMATS[target].rules
        rule = scale if scale in rules else rules[0]  # NVFP4 has one
        for tensor_scale in (1.0, TENSOR_SCALE)[: 1 + FORMATS[target].is_nv]:
            yield BlockQuantization(source, target, rule, tensor_scale)
        return
    if operator == "block_dequantize":
        for tensor_scale in (1.0, TENSOR_SCALE)[: 1 + FORMATS[source].is_nv]:
            yield BlockDequantization(source, target, tensor_scale=tensor_scale)
        return
    if operator == "quantize_linear":
        yield from (Quantization(source, target, per_axis) for per_axis in (False, True))
        return
    for saturate in (False, True)[: 1 + (FLOATS[target].width == 8)]:
        yield from (Cast(source, target, rounding, saturate) for rounding in ROUNDINGS)


def conversion_verdict(runtime: Runtime, how: AnyHow, done: Callable[[int], None]) -> Verdict:
    """The verdict on a conversion by a runtime; raises :class:`NotTaken`.

    ``done`` is called with 1 at the end.
    """
    verdict = _verdict(runtime, how)
    done(1)
    return verdict


@np.errstate(all="ignore")  # what deviations compute may overflow
def _verdict(runtime: Runtime, how: AnyHow) -> Verdict:
    if isinstance(how, BlockQuantization) and isinstance(runtime, QuantizesBlocks):
        return _block_verdict(runtime.block_quantize(how), how)
    if isinstance(how, BlockDequantization) and isinstance(runtime, DequantizesBlocks):
        blocks = coded_blocks(how.format)
        decoded = runtime.block_dequantize(how)(blocks)
        return _laid_out(how, blocks, lambda some: (decoded_operands(how.format, some), decoded))
    if isinstance(how, Cast) and isinstance(runtime, Casts):
        bits = cast_operands(how.source, how.target)
        return verdict_on(how, Operands.of_cast(bits), runtime.cast(how)(bits))
    if isinstance(how, Quantization) and isinstance(runtime, Quantizes):
        convert = runtime.quantize(how)
        tensors = list(trials(how.source, how.target, per_axis=how.per_axis))
        got = np.concatenate([convert(trial) for trial in tensors])
        return verdict_on(how, Operands.joined([trial.operands() for trial in tensors]), got)
    raise NotTaken(f"it has no {OPERATORS[type(how)]} here")


def _block_verdict(quantize: QuantizeBlocks, how: BlockQuantization) -> Verdict:
    x = block_operands(how)
    found = quantize(x)
    verdict = _laid_out(how, found, lambda some: quantized_operands(how, x, some))
    if not all(map(np.array_equal, found, quantize(x))):
        return replace(verdict, calls=(CallFault(_STOCHASTIC),))
    others = list(_of_other_arrays(quantize, x))
    return replace(
        verdict,
        calls=tuple(other for other in others if isinstance(other, CallFault)),
        refused=tuple(other for other in others if isinstance(other, str)),
        specials=tuple(_of_specials(how, quantize, x)),
    )


def _laid_out(
    how: BlockHow, blocks: Blocks, judged: Callable[[Blocks], tuple[Operands, Bits]]
) -> Verdict:
    """The verdict on blocks; if they lie wrongly, they are explained as they should lie."""
    verdict = verdict_on(how, *judged(blocks))
    if verdict.explanation.complete:
        return verdict
    for name, mended in LAYOUTS.items():
        if name != "nibbles swapped" or how.format.bits == 4:
            other = verdict_on(how, *judged(mended(blocks)))
            if other.wrong < verdict.wrong and other.explanation.numbers is not None:
                found_in = SOURCES_OF_LAYOUTS.get(name, NO_REPORT)
                layout = Deviation(name, "layout", name, found_in)
                found = (layout, *other.explanation.numbers)
                return replace(verdict, explanation=Explanation(found, ()))
    return verdict


def _of_other_arrays(quantize: QuantizeBlocks, x: Array) -> Iterator[CallFault | str]:
    """Errors on arrays that are not rows of whole blocks, and their refusals in words."""
    rows = x[:12]
    part = rows[:, :-3]
    padded = np.concatenate([part, np.zeros((12, 3), x.dtype)], axis=1)
    for array, whole in ((rows.reshape(-1), rows), (rows.reshape(3, 4, -1), rows), (part, padded)):
        try:
            scales, codes = quantize(array)
        except CannotVerify as error:
            yield f"an array of shape {array.shape}: {error.reason}"
            continue
        right = quantize(whole)
        same = right[1][:, : array.shape[-1]].reshape(codes.shape)
        if (scales.reshape(-1) != right[0].reshape(-1)).any() or (codes != same).any():
            yield CallFault(f"an array of shape {array.shape} has other results than its rows")


def _of_specials(how: BlockQuantization, quantize: QuantizeBlocks, x: Array) -> Iterator[str]:
    """The scale of a block with a NaN, and of one with infinity, of which there is no rule."""
    for special in (np.nan, np.inf):
        block = x[:1].copy()
        block[0, 1] = special
        try:
            scale = how.format.scale_value(int(quantize(block)[0][0, 0]))
            yield f"{how.target}: the scale of a block with {special} is {scale}"
        except CannotVerify as error:
            yield f"{how.target}: a block with {special} is refused: {error.reason}"


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
    tally.add(Block(codes, places, x, y, z, effects(y, z)))

    def example(place: int, x: int, got: int, want: int) -> Example:
        given, where = _given(how, operands, place), index and index(place)
        of_scale = isinstance(how, BlockQuantization) and bool(operands.zero_points[place] < 0)
        return Example(how.source, x, got, want, how.target, given, where, of_scale)

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
    nan = is_nan(how.source, operands.bits) if how.source in FLOATS else np.zeros(got.size, bool)

    def searched(some: Iterable[Combination]) -> Search:
        rules = [Rule(each, deviated(how, each).results, _of_nans(each)) for each in ((), *some)]
        found = Search([*rules, Rule((), how.results, of_nans=True)], differ)
        found.add(operands.at, got, nan)
        return found

    explanation = searched(singles(how)).explanation()
    if explanation.numbers is not None:
        return explanation
    # Of deviations that occur together each explains a fault, if it can be alone.
    faults = faults[~nan[faults]]
    some, found = operands.at(faults), got[faults]
    useless = {
        one.name
        for (one,) in singles(how)
        if differ(deviated(how, [one]).results(some), found).all()
    }
    useful = [one for one in fitting(how) if one.name not in useless and one.aspect != "nans"]
    numbers = searched(combinations(how, useful)).explanation().numbers
    return replace(explanation, numbers=numbers)


def _of_nans(some: Combination) -> bool:
    return any(one.aspect == "nans" for one in some)


def effects(got: Bits, want: Bits) -> npt.NDArray[np.uint8]:
    """The :class:`Effect` of each wrong result, off by one or another."""
    # Neighbouring floats of one sign, and neighbouring integers: their patterns differ by 1.
    by_one = np.abs(got.astype(np.int64) - want.astype(np.int64)) == 1
    return np.where(by_one, Effect.OFF_BY_ONE, Effect.OTHER).astype(np.uint8)


def _given(how: AnyHow, operands: Operands, place: int) -> str:
    if not operands.scales.size:
        return ""
    point = int(operands.zero_points[place])
    if isinstance(how, Cast | Quantization | Dequantization):
        kind = how.target if isinstance(how, Dequantization) else how.source
        scale = operands.scales[place : place + 1].view(BY_NAME[kind].numpy)[0]
        return f"by scale {scale} and zero point {point}"
    by = "" if how.tensor_scale == 1 else f" and the tensor's {how.tensor_scale:.9g}"
    if isinstance(how, BlockDequantization):
        return f"by {how.format.scale_value(point)}{by}"
    if point < 0:
        return f"as amax{by and ' by'}{by[4:]}"
    amax = how.values(operands.scales[place : place + 1])[0]
    return f"by {how.format.scale_value(point)}{by} of amax {amax:.9g}"
