"""The operator in a query: ``?operator=directml:TOWARD_INFINITY`` or ``?rounding=``."""

from __future__ import annotations

from tensor_round.contract.errors import Fault, InvalidDescriptor
from tensor_round.contract.layout import Layout
from tensor_round.contract.operators import DIALECTS, RoundOperator, as_operator
from tensor_round.contract.operators.dialects import IEEE754Round
from tensor_round.contract.operators.text import operator_from_text
from tensor_round.contract.quoting import shown
from tensor_round.contract.rounding import Rounding


def operator_of(query: dict[str, str]) -> RoundOperator:
    """The operator that a query names; raises :class:`InvalidDescriptor`."""
    if "operator" in query and "rounding" in query:
        fault = Fault(("query", "rounding"), "cannot be combined with operator")
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
    """The rounding of an operator; raises :class:`InvalidDescriptor` if it refuses the tensor."""
    if isinstance(operator, IEEE754Round):
        return Rounding(operator.rounding)  # ieee754 accepts the rank of every .npy file
    return operator.prepare(layout.dtype.name, layout.shape).call.rounding
