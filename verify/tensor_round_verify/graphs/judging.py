"""The verdict on a node: its results for the tensor that reached it, by its own specification."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from tensor_round.contract.differences.classes import classify
from tensor_round.contract.differences.document import index_of
from tensor_round.contract.dtypes import BY_NAME
from tensor_round.contract.errors import CannotVerify

from ..checks.conversions import SOURCES, TARGETS, differs, effects, verdict_on
from ..checks.nans import nan_bits
from ..checks.rounding import ORDER, Nans, forgiven, nans_told
from ..checks.tally import Block, Tally
from ..conversions.classes import ConversionClass, of_product
from ..conversions.conversion import Cast, Quantization
from ..conversions.patterns import Operands, Trial
from ..conversions.reference import Integers, dequantized, infinity
from ..explain import Explanation, Hypotheses
from ..reference import BLOCK, FLOATS, INTEGER_WIDTHS, WIDTHS, Bits, is_nan, rounded
from ..report import Example, Verdict
from ..report import effects as effects_of_rounding
from ..runtimes import Adapter, NotTaken, PythonFunction
from ..runtimes.command import Program
from ..runtimes.tensors import Tensor
from .graph import Casting, Node, Quantizing, Rounding

#: Wrong numbers, wrong NaNs and other elements on which models are tried first.
FEW = 1 << 12

Number = TypeVar("Number", bound=np.integer)


class NoRule(CannotVerify):
    """There is no rule for these tensors here."""


def verdict_of(node: Node, operands: Sequence[Tensor], got: Tensor, nans: Nans | None) -> Verdict:
    """The verdict on ``got``, the node's result for these operands; raises :class:`NoRule`."""
    rule, x = node.rule, operands[0]
    for tensor in (*operands, got):
        if tensor.dtype not in WIDTHS:
            raise NoRule(f"a tensor of it is of type {tensor.dtype}")
    if got.bits.size != x.bits.size:
        raise CannotVerify(f"{node.name} turned {x.bits.size} elements into {got.bits.size}")
    if isinstance(rule, Rounding):
        if got.dtype != x.dtype:
            raise NoRule(f"it turned {x.dtype} into {got.dtype}")
        return _rounded(x, got, rule.rounding, nans)
    if isinstance(rule, Casting):
        if x.dtype not in FLOATS or got.dtype != rule.target:
            raise NoRule(f"it turned {x.dtype} into {got.dtype}")
        how = Cast(x.dtype, rule.target, "ties_to_even", rule.saturate)
        where = partial(_index, x)
        return verdict_on(how, Operands.of_cast(x.bits), got.bits, where)
    if isinstance(rule, Quantizing):
        return _quantized(operands, got, rule.axis)
    return _dequantized(operands, got, rule.axis)


def alone(node: Node, operands: Sequence[Tensor], runtime: Adapter) -> tuple[Tensor, str]:
    """The result of a runtime's own operator for these operands, and what is special about it.

    A runtime without the direction rounds by its first one, which is what a port would get; so does
    a function or a program that gets no direction.
    Raises :class:`NotTaken`.
    """
    rule, x = node.rule, operands[0]
    if x.dtype not in WIDTHS:
        raise NotTaken(f"a tensor of it is of type {x.dtype}")
    if isinstance(rule, Rounding):
        rounding, note = rule.rounding, ""
        if rounding not in runtime.roundings:
            rounding = runtime.roundings[0]
            # What a caller wrote rounds in the direction that he means.
            if not isinstance(runtime, PythonFunction | Program):
                note = f"it has no {rule.rounding}, so its {rounding} was run"
        bits = runtime.kernel(x.dtype, rounding)(x.bits)
        return Tensor(x.dtype, x.shape, bits), note
    try:
        if isinstance(rule, Casting):
            how = Cast(x.dtype, rule.target, "ties_to_even", rule.saturate)
            return Tensor(rule.target, x.shape, runtime.cast(how)(x.bits)), ""
        if isinstance(rule, Quantizing):
            return _quantized_alone(operands, rule, runtime), ""
    except CannotVerify as error:
        # A function or a program that rounds may be none that converts.
        raise NotTaken(error.reason) from error
    raise NotTaken("it has no dequantize_linear here")


def _index(x: Tensor, place: int) -> tuple[int, ...]:
    return index_of(place, x.shape)


def _rounded(x: Tensor, result: Tensor, rounding: str, nans: Nans | None) -> Verdict:
    dtype, bits = x.dtype, x.bits
    want = rounded(bits, dtype, rounding)
    got = forgiven(result.bits, want, dtype, nans)
    tally = Tally()
    for start in range(0, bits.size, BLOCK):
        block = slice(start, start + BLOCK)
        codes = classify(bits[block], dtype, want[block])
        places = np.flatnonzero(got[block] != want[block])
        some = bits[block][places], got[block][places], want[block][places]
        tally.add(Block(codes, places, *some, effects_of_rounding(*some[1:], dtype)))
    # NaNs that are only told are explained too.
    seen = result.bits if nans is None else got
    explanation = _explanation(bits, seen, want, dtype, rounding)
    told = None
    if nans is None:
        explanation, told = nans_told(explanation, nan_bits(seen, want, dtype), tally)
    verdict = tally.verdict(
        (dtype, rounding),
        ORDER,
        explanation,
        lambda place, x_, y, z: Example(dtype, x_, y, z, index=_index(x, place)),
    )
    return replace(verdict, nans=told)


def _explanation(bits: Bits, got: Bits, want: Bits, dtype: str, rounding: str) -> Explanation:
    """The models that predict every result on the tensor."""
    nan, wrong = is_nan(dtype, bits), got != want
    if not wrong.any():
        return Explanation((), ())
    others = np.flatnonzero(~wrong)
    # Every kind of fault is among the first, as hypotheses need it.
    some = np.concatenate(
        [
            np.flatnonzero(wrong & ~nan)[:FEW],
            np.flatnonzero(wrong & nan)[:FEW],
            others[:: max(1, others.size // FEW)],
        ]
    )
    left = Hypotheses.of(bits[some], got[some], want[some], dtype, rounding)
    for start in range(0, bits.size, BLOCK):
        block = slice(start, start + BLOCK)
        left = left.surviving(bits[block], got[block], want[block])
    return left.explanation()


def _quantized(operands: Sequence[Tensor], got: Tensor, axis: int) -> Verdict:
    x, scales, points = _scaled(operands, axis)
    if x.dtype not in SOURCES["quantize_linear"] or got.dtype not in TARGETS["quantize_linear"]:
        raise NoRule(f"no rule is known here for {x.dtype} to {got.dtype}")
    _check_scales(operands[1], x.dtype)
    how = Quantization(x.dtype, got.dtype, per_axis=operands[1].bits.size > 1)
    # A NaN has no result.
    places = np.flatnonzero(~is_nan(x.dtype, x.bits))
    numbers = Operands(x.bits, scales, points).at(places)
    return verdict_on(how, numbers, got.bits[places], lambda i: _index(x, int(places[i])))


def _dequantized(operands: Sequence[Tensor], got: Tensor, axis: int) -> Verdict:
    x, scales, points = _scaled(operands, axis)
    if x.dtype not in TARGETS["quantize_linear"] or got.dtype not in SOURCES["quantize_linear"]:
        raise NoRule(f"no rule is known here for {x.dtype} to {got.dtype}")
    _check_scales(operands[1], got.dtype)
    integers = _integers(x) - points
    want = dequantized(integers, scales, got.dtype)
    places = np.flatnonzero(differs(got.bits, want, got.dtype))
    some = [bits[places].astype(np.uint64) for bits in (x.bits, got.bits, want)]
    tally = Tally()
    codes = of_product(integers, scales, got.dtype)
    tally.add(Block(codes, places, some[0], some[1], some[2], effects(some[1], some[2])))

    def example(place: int, x_: int, y: int, z: int) -> Example:
        scale = scales[place : place + 1].view(BY_NAME[got.dtype].numpy)[0]
        given = f"by scale {scale} and zero point {points[place]}"
        where = _index(x, place)
        return Example(x.dtype, x_, y, z, to=got.dtype, given=given, index=where)

    name = f"{x.dtype} to {got.dtype}", "ties_to_even"
    explanation = Explanation(None if places.size else (), ())
    return tally.verdict(name, tuple(ConversionClass), explanation, example)


def _scaled(operands: Sequence[Tensor], axis: int) -> tuple[Tensor, Bits, Integers]:
    """The operand, and for each of its elements scale and zero point."""
    x, scale, *rest = operands
    points = _integers(rest[0]) if rest else np.zeros(scale.bits.size, np.int64)
    return x, _spread(scale.bits, x.shape, axis), _spread(points, x.shape, axis)


def _spread(values: npt.NDArray[Number], shape: tuple[int, ...], axis: int) -> npt.NDArray[Number]:
    """One value for each element: the same for all, or one for each index of the axis."""
    if values.size != 1:
        sizes = [1] * len(shape)
        if not -len(shape) <= axis < len(shape) or shape[axis] != values.size:
            raise NoRule(f"no rule is known here for {values.size} scales of {list(shape)}")
        sizes[axis] = values.size
        values = values.reshape(sizes)
    else:
        values = values.reshape(())
    return np.broadcast_to(values, shape).reshape(-1)


def _integers(tensor: Tensor) -> Integers:
    if tensor.dtype not in INTEGER_WIDTHS:
        raise NoRule(f"no rule is known here for a zero point of {tensor.dtype}")
    found: Integers = tensor.bits.view(BY_NAME[tensor.dtype].numpy).astype(np.int64)
    return found


def _check_scales(scale: Tensor, dtype: str) -> None:
    """Raise :class:`NoRule` unless the scales are positive numbers of the operand's type."""
    if scale.dtype != dtype:
        raise NoRule(f"no rule is known here for scales of {scale.dtype} beside {dtype}")
    fmt = FLOATS[dtype]
    if ((scale.bits == 0) | (scale.bits >= infinity(fmt))).any():
        raise NoRule("no rule is known here for scales that are not positive and finite")


def _quantized_alone(operands: Sequence[Tensor], rule: Quantizing, runtime: Adapter) -> Tensor:
    x, scale, *rest = operands
    points = _integers(rest[0]) if rest else np.zeros(scale.bits.size, np.int64)
    target = rest[0].dtype if rest else rule.target
    per_axis = scale.bits.size > 1
    how = Quantization(x.dtype, target, per_axis)
    # The channels one after another.
    axis = rule.axis if per_axis else 0
    elements = x.bits.reshape(x.shape or (1,))
    moved = np.moveaxis(elements, axis, 0)
    found = runtime.quantize(how)(Trial(moved.reshape(-1), scale.bits, points))
    bits = np.moveaxis(found.reshape(moved.shape), 0, axis).reshape(-1)
    return Tensor(target, x.shape, bits)
