"""The operator that a query names: ``?operator=directml:TOWARD_INFINITY``, ``?rounding=``."""

from __future__ import annotations

from tensor_round.errors import Fault, InvalidDescriptor
from tensor_round.layout import Layout
from tensor_round.operators import DIALECTS
from tensor_round.operators.objects import IEEE754Round, RoundOperator, as_operator
from tensor_round.operators.text import operator_from_text
from tensor_round.quoting import shown
from tensor_round.rounding import Rounding


def operator_of(query: dict[str, str]) -> RoundOperator:
    """The operator that a query names, in one of two ways."""
    if "operator" in query and "rounding" in query:
        fault = Fault(("query", "rounding"), "is part of the operator: give one of the two")
        raise InvalidDescriptor.of([fault])
    if "operator" in query:
        return operator_from_text(query["operator"], ("query", "operator"))
    name = query.get("rounding", Rounding.TIES_TO_EVEN.value)
    try:
        return as_operator(Rounding(name))
    except ValueError:
        rule = f"must be one of {', '.join(Rounding)}, got {shown(name)}"
        raise InvalidDescriptor.of([Fault(("query", "rounding"), rule)]) from None


def dialect_of(query: dict[str, str]) -> str:
    """The dialect of the operator that :func:`operator_of` has found in a query."""
    name, _, _ = query.get("operator", "").partition(":")
    return name if name in DIALECTS else "ieee754"


def rounding_of(operator: RoundOperator, layout: Layout) -> Rounding:
    """The direction; raises :class:`InvalidDescriptor` for a tensor that its dialect refuses."""
    if isinstance(operator, IEEE754Round):
        return Rounding(operator.rounding)  # of any rank that a file may have
    return operator.plan(layout.dtype.name, layout.shape).call.rounding
