"""The parameters of a query: the operator, and what a .npy file does not say."""

from __future__ import annotations

from urllib.parse import parse_qsl

from tensor_round.contract.errors import Fault, InvalidDescriptor
from tensor_round.contract.operators.operator import RoundOperator, as_operator
from tensor_round.contract.operators.registry import DIALECTS, operator_from_text
from tensor_round.contract.quoting import not_accepted
from tensor_round.contract.rounding import Rounding

from ..net.head import Head


def parameters(head: Head, *known: str) -> dict[str, str]:
    """The parameters of the query; unknown and repeated ones are refused, not ignored."""
    found: dict[str, str] = {}
    for name, value in parse_qsl(head.query.decode("latin-1"), keep_blank_values=True):
        if name not in known:
            rule = not_accepted(name, known, wrong="unknown parameter")
            raise InvalidDescriptor.of([Fault(("query", name[:40]), rule)])
        if name in found:
            raise InvalidDescriptor.of([Fault(("query", name), "given more than once")])
        found[name] = value
    return found


def operator_of(query: dict[str, str]) -> RoundOperator:
    """The operator in a query: ``?operator=directml:TOWARD_INFINITY`` or ``?rounding=``.

    Raises :class:`InvalidDescriptor`.
    """
    if "operator" in query and "rounding" in query:
        fault = Fault(("query", "rounding"), "cannot be combined with operator")
        raise InvalidDescriptor.of([fault])
    if "operator" in query:
        return operator_from_text(query["operator"], ("query", "operator"))
    name = query.get("rounding", Rounding.TIES_TO_EVEN.value)
    try:
        return as_operator(Rounding(name))
    except ValueError:
        fault = Fault(("query", "rounding"), not_accepted(name, Rounding))
        raise InvalidDescriptor.of([fault]) from None


def dialect_of(query: dict[str, str]) -> str:
    """The dialect of the operator that :func:`operator_of` has found in a query."""
    name, _, _ = query.get("operator", "").partition(":")
    return name if name in DIALECTS else "ieee754"
