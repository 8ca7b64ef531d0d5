"""The verdict on a node: its results for the tensor that reached it, by its own specification."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from tensor_round.contract.differences.document import index_of
from tensor_round.contract.dtypes import BY_NAME
from tensor_round.contract.errors import CannotVerify

from ..checks.conversion_verdicts import verdict_on
from ..checks.conversions import SOURCES, TARGETS, by_rule
from ..checks.rounding import Nans, tensor_verdict
from ..conversions.conversion import Cast, Dequantization, How, Quantization
from ..conversions.patterns import Operands, Trial, has_nan
from ..conversions.reference import Integers
from ..reference import FLOATS, INTEGER_WIDTHS, WIDTHS, Bits, is_nan, rounded
from ..report import Verdict
from ..runtimes import NotSupported, PythonFunction, Runtime
from ..runtimes.command import Program
from ..runtimes.model_tensors import Tensor
from ..runtimes.runtime import Casts, Dequantizes, QuantizeBits, Quantizes, Rounds
from .graph import Casting, Dequantizing, Moving, Node, Quantizing, Rounding, Rule

Number = TypeVar("Number", bound=np.integer)


class NoRule(CannotVerify):
    """There is no rule for these tensors here."""


def verdict_of(node: Node, operands: Sequence[Tensor], got: Tensor, nans: Nans | None) -> Verdict:
    """The verdict on ``got``, the node's result for these operands; raises :class:`NoRule`."""
    rule, x = node.rule, operands[0]
    for tensor in (*operands, got):
        if tensor.dtype not in WIDTHS:
            raise NoRule(f"one of its tensors has type {tensor.dtype}")
    if got.bits.size != x.bits.size:
        raise CannotVerify(f"{node.name} turned {x.bits.size} elements into {got.bits.size}")
    if isinstance(rule, Rounding):
        if got.dtype != x.dtype:
            raise NoRule(f"it turned {x.dtype} into {got.dtype}")
        pair = x.dtype, rule.rounding
        return tensor_verdict(x.bits, got.bits, pair, nans, partial(_index, x))
    how, given = _conversion(node, operands, got.dtype)
    if isinstance(how, Quantization) and not has_nan(how.codes):
        # A NaN has no result.
        places = np.flatnonzero(~is_nan(x.dtype, x.bits))
        some = got.bits[places]
        return verdict_on(how, given.at(places), some, lambda i: _index(x, int(places[i])))
    if isinstance(how, Cast) and how.rules:
        how = by_rule(how, given, got.bits)
        found = verdict_on(how, given, got.bits, partial(_index, x))
        return replace(found, rule=how.rule)
    return verdict_on(how, given, got.bits, partial(_index, x))


def result_of(node: Node, operands: Sequence[Tensor], shape: tuple[int, ...]) -> Tensor:
    """The right result of a node with a rule, of this shape; raises :class:`NoRule`."""
    rule, x = node.rule, operands[0]
    for tensor in operands:
        if tensor.dtype not in WIDTHS:
            raise NoRule(f"one of its tensors has type {tensor.dtype}")
    if isinstance(rule, Moving):
        moved = x.bits
        if rule.order is not None:
            moved = x.bits.reshape(x.shape).transpose(rule.order or None).reshape(-1)
        return Tensor(x.dtype, shape, moved)
    if isinstance(rule, Rounding):
        return Tensor(x.dtype, x.shape, rounded(x.bits, x.dtype, rule.rounding))
    assert rule is not None
    target = _target(rule, operands)
    how, given = _conversion(node, operands, target)
    return Tensor(target, x.shape, how.results(given))


def alone(node: Node, operands: Sequence[Tensor], runtime: Runtime) -> tuple[Tensor, str]:
    """The result of a runtime's own operator for these operands, and what is special about it.

    A runtime without the direction rounds by its first one, which is what a port would get; so does
    a function or a program that gets no direction.
    Raises :class:`NotSupported`.
    """
    rule, x = node.rule, operands[0]
    if x.dtype not in WIDTHS:
        raise NotSupported(f"one of its tensors has type {x.dtype}")
    if isinstance(rule, Rounding):
        if not isinstance(runtime, Rounds):
            raise NotSupported("it has no round here")
        rounding, note = rule.rounding, ""
        if rounding not in runtime.roundings:
            rounding = runtime.roundings[0]
            # What a caller wrote rounds in the direction that he means.
            if not isinstance(runtime, PythonFunction | Program):
                note = f"it has no {rule.rounding}, so its {rounding} was run"
        bits = runtime.kernel(x.dtype, rounding)(x.bits)
        return Tensor(x.dtype, x.shape, bits), note
    try:
        if isinstance(rule, Casting) and isinstance(runtime, Casts):
            return Tensor(rule.target, x.shape, runtime.cast(_cast(x.dtype, rule))(x.bits)), ""
        if isinstance(rule, Quantizing) and isinstance(runtime, Quantizes):
            how = Quantization(x.dtype, _target(rule, operands), operands[1].bits.size > 1)
            return _scaled_alone(operands, rule.axis, how, runtime.quantize(how)), ""
        if isinstance(rule, Dequantizing) and isinstance(runtime, Dequantizes):
            back = Dequantization(x.dtype, _target(rule, operands), operands[1].bits.size > 1)
            return _scaled_alone(operands, rule.axis, back, runtime.dequantize(back)), ""
    except CannotVerify as error:
        # A function or a program that rounds may be none that converts.
        raise NotSupported(error.reason) from error
    operators = {Casting: "cast", Quantizing: "quantize_linear"}
    raise NotSupported(f"it has no {operators.get(type(rule), 'dequantize_linear')} here")


def _cast(source: str, rule: Casting) -> Cast:
    """To integers toward zero, else ties to even."""
    how = Cast(source, rule.target, "ties_to_even", rule.saturate)
    return replace(how, rounding=how.usual)


def _index(x: Tensor, place: int) -> tuple[int, ...]:
    return index_of(place, x.shape)


def _conversion(node: Node, operands: Sequence[Tensor], target: str) -> tuple[How, Operands]:
    """The node as a conversion to ``target``, and its operands; raises :class:`NoRule`."""
    rule, x = node.rule, operands[0]
    if isinstance(rule, Casting):
        if target != rule.target:
            raise NoRule(f"it turned {x.dtype} into {target}")
        return _cast(x.dtype, rule), Operands.of_cast(x.bits)
    assert isinstance(rule, Quantizing | Dequantizing)
    scales, points = _scaled(operands, rule.axis)
    operator = "quantize_linear" if isinstance(rule, Quantizing) else "dequantize_linear"
    if x.dtype not in SOURCES[operator] or target not in TARGETS[operator]:
        raise NoRule(f"no rule is known here for {x.dtype} to {target}")
    how: Quantization | Dequantization = Dequantization(x.dtype, target)
    if isinstance(rule, Quantizing):
        per_axis = operands[1].bits.size > 1
        how = Quantization(x.dtype, target, per_axis=per_axis, saturate=rule.saturate)
    _check_scales(operands[1], how.scale_type)
    return how, Operands(x.bits, scales, points)


def _target(rule: Rule, operands: Sequence[Tensor]) -> str:
    """The type of the results."""
    if isinstance(rule, Quantizing):
        return operands[2].dtype if len(operands) > 2 else rule.target
    if isinstance(rule, Casting):
        return rule.target
    return operands[isinstance(rule, Dequantizing)].dtype


def _scaled(operands: Sequence[Tensor], axis: int) -> tuple[Bits, Integers]:
    """The scale and the zero point of each element."""
    x, scale, *rest = operands
    points = _integers(rest[0]) if rest else np.zeros(scale.bits.size, np.int64)
    return _spread(scale.bits, x.shape, axis), _spread(points, x.shape, axis)


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
        if tensor.bits.any():
            raise NoRule(f"no rule is known here for a zero point of {tensor.dtype} but 0")
        return np.zeros(tensor.bits.size, np.int64)
    found: Integers = tensor.bits.view(BY_NAME[tensor.dtype].numpy).astype(np.int64)
    return found


def _check_scales(scale: Tensor, dtype: str) -> None:
    """Raise :class:`NoRule` unless the scales are positive numbers of the operand's type."""
    if scale.dtype != dtype:
        raise NoRule(f"no rule is known here for scales of {scale.dtype} beside {dtype}")
    fmt = FLOATS[dtype]
    if ((scale.bits == 0) | (scale.bits >= fmt.infinity)).any():
        raise NoRule("no rule is known here for scales that are not positive and finite")


def _scaled_alone(
    operands: Sequence[Tensor],
    axis: int,
    how: Quantization | Dequantization,
    convert: QuantizeBits,
) -> Tensor:
    x, scale, *rest = operands
    points = _integers(rest[0]) if rest else np.zeros(scale.bits.size, np.int64)
    # The channels one after another.
    axis = axis if how.per_axis else 0
    elements = x.bits.reshape(x.shape or (1,))
    moved = np.moveaxis(elements, axis, 0)
    found = convert(Trial(moved.reshape(-1), scale.bits, points))
    bits = np.moveaxis(found.reshape(moved.shape), 0, axis).reshape(-1)
    return Tensor(how.target, x.shape, bits)
