"""The verdict on a node: its results for the tensor that reached it, by its own specification."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

import numpy as np

from tensor_round.contract.differences.document import index_of
from tensor_round.contract.dtypes import BY_NAME
from tensor_round.contract.errors import CannotVerify

from ..checks.conversion_verdicts import verdict_on
from ..checks.conversions import SCALES, SOURCES, TARGETS, by_rule
from ..checks.rounding import Nans, tensor_verdict
from ..conversions.conversion import Cast, Dequantization, How, Linear, Quantization
from ..conversions.linear import expanded
from ..conversions.patterns import Operands, Trial, has_nan
from ..conversions.reference import read
from ..reference import FLOATS, INTEGER_WIDTHS, is_nan, rounded
from ..report import Verdict
from ..runtimes import NotSupported, PythonFunction, Runtime
from ..runtimes.command import Program
from ..runtimes.model_tensors import Array, Tensor
from ..runtimes.runtime import Adapter
from .graph import Casting, Dequantizing, Moving, Node, Quantizing, Rounding, Rule

Scaling = Quantizing | Dequantizing


class NoRule(CannotVerify):
    """There is no rule for these tensors here."""


def verdict_of(node: Node, operands: Sequence[Tensor], got: Tensor, nans: Nans | None) -> Verdict:
    """The verdict on ``got``, the node's result for these operands; raises :class:`NoRule`."""
    rule, x = node.rule, operands[0]
    _check_types((*operands, got))
    if got.bits.size != x.bits.size:
        raise CannotVerify(f"{node.name} turned {x.bits.size} elements into {got.bits.size}")
    assert isinstance(rule, Rule)
    if got.dtype != _target(rule, operands):
        raise NoRule(f"it turned {x.dtype} into {got.dtype}")
    if isinstance(rule, Rounding):
        pair = x.dtype, rule.rounding
        return tensor_verdict(x.bits, got.bits, pair, nans, partial(_index, x))
    how, given = _conversion(rule, operands)
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
    _check_types(operands)
    if isinstance(rule, Moving):
        moved = x.bits
        if rule.order is not None:
            moved = x.bits.reshape(x.shape).transpose(rule.order or None).reshape(-1)
        return Tensor(x.dtype, shape, moved)
    assert rule is not None
    if isinstance(rule, Rounding):
        return Tensor(x.dtype, x.shape, rounded(x.bits, x.dtype, rule.rounding))
    how, given = _conversion(rule, operands)
    return Tensor(how.target, x.shape, how.results(given))


def alone(node: Node, operands: Sequence[Tensor], runtime: Runtime) -> tuple[Tensor, str]:
    """The result of a runtime's own operator for these operands, and what is special about it.

    A runtime without the direction rounds by its first one, which is what a port would get; so does
    a function or a program that gets no direction.
    Raises :class:`NotSupported`.
    """
    rule, x = node.rule, operands[0]
    _check_types(operands)
    assert isinstance(rule, Rule)
    if isinstance(rule, Rounding):
        if not isinstance(runtime, Adapter):
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
        if isinstance(rule, Casting):
            bits = runtime.cast(_cast(x.dtype, rule))(x.bits)
        else:
            bits = runtime.linear(_linear(rule, operands))(_trial(rule, operands))
    except CannotVerify as error:
        # A function or a program that rounds may be none that converts.
        raise NotSupported(error.reason) from error
    return Tensor(_target(rule, operands), x.shape, bits), ""


def _index(x: Tensor, place: int) -> tuple[int, ...]:
    return index_of(place, x.shape)


def _check_types(tensors: Sequence[Tensor]) -> None:
    for tensor in tensors:
        if tensor.dtype not in BY_NAME:
            raise NoRule(f"one of its tensors has type {tensor.dtype}")


def _target(rule: Rule, operands: Sequence[Tensor]) -> str:
    """The type of the results."""
    if isinstance(rule, Rounding):
        return operands[0].dtype
    if isinstance(rule, Quantizing) and len(operands) > 2:
        return operands[2].dtype
    return rule.target or operands[1].dtype


def _cast(source: str, rule: Casting) -> Cast:
    """To integers toward zero, else ties to even."""
    how = Cast(source, rule.target, "ties_to_even", rule.saturate)
    return replace(how, rounding=how.usual)


def _linear(rule: Scaling, operands: Sequence[Tensor]) -> Linear:
    """A rule as a conversion of these operands; raises :class:`NoRule`."""
    source, target = operands[0].dtype, _target(rule, operands)
    scale, precision = operands[1], ""
    layout = not rule.block_size and scale.bits.size > 1, rule.block_size != 0
    how: Linear = Dequantization(source, target, *layout)
    if isinstance(rule, Quantizing):
        how = Quantization(source, target, *layout, saturate=rule.saturate)
        precision = rule.precision
    if source not in SOURCES[how.operator] or target not in TARGETS[how.operator]:
        raise NoRule(f"no rule is known here for {source} to {target}")
    if scale.dtype not in SCALES[how.operator]:
        raise NoRule(f"no rule is known here for scales of {scale.dtype}")
    if precision not in ("", *FLOATS):
        raise NoRule(f"no rule is known here for quotients of {precision}")
    own = how.scale_type
    return replace(
        how,
        scale=scale.dtype if scale.dtype != own else "",
        precision=precision if precision != scale.dtype else "",
    )


def _conversion(rule: Casting | Scaling, operands: Sequence[Tensor]) -> tuple[How, Operands]:
    """A rule as a conversion, and its operands; raises :class:`NoRule`."""
    x = operands[0]
    if isinstance(rule, Casting):
        return _cast(x.dtype, rule), Operands.of_cast(x.bits)
    how, trial, scale = _linear(rule, operands), _trial(rule, operands), operands[1]
    values = read(scale.bits, scale.dtype)
    if (values.numbers.negative | values.is_zero | values.infinite | values.nan).any():
        raise NoRule("no rule is known here for scales that are not positive and finite")
    scales, points = (_spread(each, x.shape, rule) for each in (trial.scales, trial.zero_points))
    return how, Operands(x.bits, scales, points)


def _trial(rule: Scaling, operands: Sequence[Tensor]) -> Trial:
    """The operands as a runtime gets them."""
    x, scale, *rest = operands
    points: Array = np.zeros(scale.shape, np.int64)
    if rest:
        kind = np.int64 if rest[0].dtype in INTEGER_WIDTHS else np.float64
        points = rest[0].array().astype(kind)
    is_flat = scale.bits.size == 1 and not rule.block_size
    view = None if is_flat else x.array()
    scales = scale.bits.reshape(scale.shape)
    return Trial(x.bits, scales, points, view, rule.axis, rule.block_size)


def _spread(values: Array, shape: tuple[int, ...], rule: Scaling) -> Array:
    """The one of each element: the same for all, or that of its index or block along the axis."""
    rank, axis, block = len(shape), rule.axis, rule.block_size
    if values.size == 1 and not block:
        return np.broadcast_to(values.reshape(()), shape).reshape(-1)
    blocks, sizes = [1] * rank, tuple[int, ...]()
    if -rank <= axis < rank:
        blocks[axis] = block or 1
        sizes = tuple(-(-size // by) for size, by in zip(shape, blocks, strict=True))
        if not block and values.shape == (shape[axis],):
            behind = [1] * (rank - 1 - axis % rank)
            values = np.broadcast_to(values.reshape(-1, *behind), shape)
    if values.shape != sizes:
        raise NoRule(f"no rule is known here for {values.size} scales of {list(shape)}")
    return expanded(values, shape, blocks).reshape(-1)
