"""Verifying conversions: the list of them, and the comparison of a runtime's results for each."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Literal

import numpy as np

from tensor_round.contract.dtypes import BY_NAME
from tensor_round.contract.errors import CannotVerify

from ..conversions.blocks.formats import FORMATS, RULES
from ..conversions.blocks.quantization import BlockDequantization, BlockQuantization
from ..conversions.conversion import Cast, Dequantization, FakeQuantization, Linear, Quantization
from ..conversions.deviation import AnyHow
from ..conversions.patterns import Operands, cast_operands
from ..conversions.reference import decoded, encoded, is_infinite
from ..patterns import samples
from ..reference import FLOAT_FORMATS, INTEGER_WIDTHS, ROUNDINGS, Bits, differs, is_nan
from ..report import Verdict
from ..runtimes.runtime import RoundBits, Runtime
from .array_forms import Effort, Subject
from .block_conversions import block_dequantize_verdict, block_quantize_verdict
from .conversion_verdicts import verdict_on
from .linear import linear_verdict
from .repeatability import Tried

ConversionOperator = Literal[
    "cast",
    "quantize_linear",
    "dequantize_linear",
    "fake_quantize",
    "block_quantize",
    "block_dequantize",
]

#: The types that each operator converts from, and those that it converts to or through.
_NARROW = ("float32", "float16", "bfloat16")
_TYPES = tuple(BY_NAME)
_INTEGERS = ("int8", "uint8", "int16", "uint16", "int4", "uint4")
_EIGHT_BITS = ("float8_e4m3fn", "float8_e4m3fnuz", "float8_e5m2", "float8_e5m2fnuz")
_CODES = (*_INTEGERS, *_EIGHT_BITS, "float4_e2m1fn")
SOURCES = {
    "cast": _TYPES,
    "quantize_linear": (*_NARROW, "int32"),
    "dequantize_linear": (*_CODES, "int32"),
    "fake_quantize": (*_NARROW, "int32"),
    "block_quantize": _NARROW,
    "block_dequantize": tuple(FORMATS),
}
TARGETS = {
    "cast": _TYPES,
    "quantize_linear": _CODES,
    "dequantize_linear": _NARROW,
    "fake_quantize": _CODES,
    "block_quantize": tuple(FORMATS),
    "block_dequantize": _NARROW,
}
_BACK_SCALES = (*_NARROW, "float8_e8m0fnu")
#: The types of scales, and of blocks their rules.
SCALES: dict[str, tuple[str, ...]] = {
    "quantize_linear": (*_BACK_SCALES, "int32"),
    "dequantize_linear": _BACK_SCALES,
    "fake_quantize": _BACK_SCALES,
    "block_quantize": RULES,
}
#: Per tensor, per axis and in blocks.
_LAYOUTS = ((False, False), (True, False), (False, True))
#: The codes with which other precisions than the scale's are verified, unless both are named.
_OF_PRECISIONS = "int8"
#: A scale of the tensor that is no power of two, for NVFP4.
TENSOR_SCALE = float(np.float32(0.0123))


def conversions(
    operator: ConversionOperator,
    dtypes: Sequence[str],
    roundings: Sequence[str],
    scale: str | None = None,
    rule: str = "",
    *,
    mixes_types: bool = False,
) -> list[AnyHow]:
    """The conversions to verify.

    Two ``dtypes`` are those of operands and results; others name types of operands, of results, or
    both. ``scale`` is the rule of the scales of blocks, by default each format's own, or of linear
    quantization their type; with ``mixes_types`` that is any in turn by default. ``rule`` is that
    of casts for which specifications have none. Raises :class:`CannotVerify`.
    """
    sources, targets, named = SOURCES[operator], TARGETS[operator], set(dtypes)
    pairs = [(x, y) for x in sources for y in targets if x != y]
    is_named = len(dtypes) == 2 and tuple(dtypes) in pairs
    if is_named:
        pairs = [(dtypes[0], dtypes[1])]
    elif operator == "cast":
        count = min(len(dtypes), 2)  # one is a source or a target; of more, any two
        pairs = [pair for pair in pairs if len(named & set(pair)) == count]
    else:
        pairs = [
            (x, y)
            for x, y in pairs
            if x in named or not named & set(sources)
            if y in named or not named & set(targets)
        ]
    linear = partial(_linear, scale=scale or "", is_named=is_named, mixes_types=mixes_types)
    asked = [
        how
        for source, target in pairs
        for how in (
            linear(operator, source, target)
            if operator in _MAKERS
            else _between(source, target, operator, scale, rule)
        )
        if not roundings or how.rounding in roundings
    ]
    if not asked or named - {*sources, *targets}:
        known = dict.fromkeys((*sources, *targets))
        told = f"; from {dtypes[0]} to {dtypes[1]} there is none" if len(dtypes) == 2 else ""
        raise CannotVerify(f"{operator} supports only {', '.join(known)}{told}")
    return asked


def _between(
    source: str, target: str, operator: str, scale: str | None, rule: str
) -> Iterator[AnyHow]:
    if operator == "block_quantize":
        rules = FORMATS[target].rules
        rule = scale if scale in rules else rules[0]  # NVFP4 has one
        for tensor_scale in (1.0, TENSOR_SCALE)[: 1 + FORMATS[target].is_nv]:
            yield BlockQuantization(source, target, rule, tensor_scale)
    elif operator == "block_dequantize":
        for tensor_scale in (1.0, TENSOR_SCALE)[: 1 + FORMATS[source].is_nv]:
            yield BlockDequantization(source, target, tensor_scale=tensor_scale)
    else:
        for how in casts(source, target):
            yield replace(how, rule=rule) if rule in how.rules else how


def _faked(
    source: str, through: str, per_axis: bool = False, blocked: bool = False, scale: str = ""
) -> FakeQuantization:
    target = source if source in FLOAT_FORMATS else "float32"
    return FakeQuantization(source, target, per_axis, blocked, scale, through=through)


_MAKERS: dict[str, Callable[..., Linear]] = {
    "quantize_linear": Quantization,
    "dequantize_linear": Dequantization,
    "fake_quantize": _faked,
}


def _linear(
    operator: ConversionOperator,
    source: str,
    target: str,
    *,
    scale: str,
    is_named: bool,
    mixes_types: bool,
) -> Iterator[Linear]:
    """In every layout by scales of one type; by others, and other precisions, per tensor alone."""
    make = partial(_MAKERS[operator], source, target)
    own = make().scale_type
    named = "" if scale == own else scale
    for layout in _LAYOUTS:
        yield make(*layout, scale=named)
    if operator == "quantize_linear" and target.startswith("float8"):
        yield make(scale=named, saturate=False)
    others = [each for each in SCALES[operator] if each != own and mixes_types and not scale]
    for other in others:
        yield make(scale=other)
    is_precise = operator == "quantize_linear" and (is_named or target == _OF_PRECISIONS)
    if is_precise and (scale or mixes_types):
        for by in (named, *others):
            for precision in _NARROW:
                if precision != (by or own):
                    yield make(scale=by, precision=precision)


def casts(source: str, target: str) -> Iterator[Cast]:
    """The casts between two types: where something is lost, in each direction.

    Those that saturate are to narrow floats, and from integers to narrower ones.
    """
    bits = samples(source)
    infinite, number = is_infinite(source, bits), ~is_nan(source, bits)
    found = encoded(decoded(bits[number & ~infinite], source), target, ROUNDINGS[0])
    is_beyond = bool(found.beyond.any())
    fmt = FLOAT_FORMATS.get(target)
    to_narrow = fmt is not None and fmt.width <= 8 and fmt.nan is not None
    saturates = to_narrow or (is_beyond and {source, target} <= INTEGER_WIDTHS.keys())
    rounds = not found.exact.all() or (is_beyond and target in FLOAT_FORMATS)
    for saturate in (False, True)[: 1 + saturates]:
        for rounding in ROUNDINGS if rounds else ROUNDINGS[:1]:
            yield Cast(source, target, rounding, saturate)


def conversion_verdict(
    runtime: Runtime, how: AnyHow, effort: Effort, done: Callable[[int], None]
) -> Verdict:
    """The verdict on a conversion by a runtime; raises :class:`NotSupported`.

    ``done`` is called with 1 at the end.
    """
    verdict = _verdict(runtime, how, effort)
    done(1)
    return verdict


@np.errstate(all="ignore")  # what deviations compute may overflow
def _verdict(runtime: Runtime, how: AnyHow, effort: Effort) -> Verdict:
    if isinstance(how, Cast):
        return _cast_verdict(runtime.cast(how), how, effort)
    if isinstance(how, BlockQuantization):
        return block_quantize_verdict(runtime, runtime.block_quantize(how), how, effort)
    if isinstance(how, BlockDequantization):
        return block_dequantize_verdict(runtime, runtime.block_dequantize(how), how, effort)
    return linear_verdict(runtime, runtime.linear(how), how, effort)


def _cast_verdict(cast: RoundBits, how: Cast, effort: Effort) -> Verdict:
    operands = Operands.of_cast(cast_operands(how.source, how.target))
    differ = partial(differs, dtype=how.target)
    if how.rules and not how.rule:
        how = by_rule(how, operands, cast(operands.bits))
    tried = Tried.of(cast, operands.bits, how.results(operands), differ)
    subject = Subject.of(cast.arrays, how.source, how.target)
    calls = subject.findings(cast, tried, effort)
    return replace(calls.added_to(verdict_on(how, operands, tried.got)), rule=how.rule)


def by_rule(how: Cast, operands: Operands, got: Bits) -> Cast:
    """The cast by the rule that most results follow; by none if all rules have the same results."""
    right = {rule: replace(how, rule=rule).results(operands) for rule in how.rules}
    first = right[how.rules[0]]
    if not any(differs(other, first, how.target).any() for other in right.values()):
        return how
    wrong = {rule: differs(got, want, how.target).sum() for rule, want in right.items()}
    return replace(how, rule=min(wrong, key=wrong.__getitem__))
