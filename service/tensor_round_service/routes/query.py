"""The parameters of a query: the operator, and what a .npy file does not say."""

from __future__ import annotations

from collections.abc import Mapping
from urllib.parse import parse_qsl

from tensor_round.contract.dtypes import BY_NAME
from tensor_round.contract.errors import Fault, InvalidDescriptor
from tensor_round.contract.operators.operator import RoundOperator
from tensor_round.contract.operators.registry import (
    DIALECTS,
    SHORT_PARAMETERS,
    named_operator,
    operator_from_text,
)
from tensor_round.contract.quoting import not_accepted
from tensor_round.contract.rounding import Rounding
from tensor_round.contract.wire import http_fields

_BOOLEANS = {"false": False, "true": True}


def parameters(query: bytes, *known: str) -> dict[str, str]:
    """The parameters of a query; unknown and repeated ones are refused, not ignored."""
    found: dict[str, str] = {}
    for name, value in parse_qsl(query.decode("latin-1"), keep_blank_values=True):
        if name not in known:
            rule = not_accepted(name, known, wrong="unknown parameter")
            raise InvalidDescriptor.of([Fault(("query", name[:40]), rule)])
        if name in found:
            raise InvalidDescriptor.of([Fault(("query", name), "given more than once")])
        found[name] = value
    return found


def operator_of(query: dict[str, str]) -> RoundOperator:
    """The operator on a .npy file: ``?operator=directml:TOWARD_INFINITY`` or ``?rounding=``.

    ``to`` is the target of a cast, beside which ``saturate`` may stand. Raises
    :class:`InvalidDescriptor`, also for a quantization, whose scale a file does not have.
    """
    if "operator" in query and "rounding" in query:
        fault = Fault(("query", "rounding"), "cannot be combined with operator")
        raise InvalidDescriptor.of([fault])
    name = query.get("rounding", Rounding.TIES_TO_EVEN.value)
    if name not in Rounding.__members__.values():
        raise InvalidDescriptor.at(("query", "rounding"), not_accepted(name, Rounding))
    if "to" in query and query["to"] not in BY_NAME:
        raise InvalidDescriptor.at(("query", "to"), not_accepted(query["to"], BY_NAME))
    named = named_operator(query.get("operator"))
    if named is not None and named.kind.is_linear:
        members = " and ".join(SHORT_PARAMETERS[: len(named.tensors) - 1])
        json = f"{http_fields.JSON}{members and f' with {members} beside data'}"
        rule = f"{named.name} takes no .npy file: send {json}, or {http_fields.OCTET_STREAM}"
        raise InvalidDescriptor.at(("query", "operator"), rule)
    loc = ("query", "operator" if "operator" in query else "rounding")
    return operator_from_text(query.get("operator", name), loc, query.get("to"), saturate_of(query))


def saturate_of(query: Mapping[str, str]) -> bool | None:
    """The attribute ``saturate`` in a query; None without it. Raises :class:`InvalidDescriptor`."""
    value = query.get("saturate")
    if value not in (None, *_BOOLEANS):
        raise InvalidDescriptor.at(("query", "saturate"), not_accepted(value, _BOOLEANS))
    return None if value is None else _BOOLEANS[value]


def dialect_of(query: dict[str, str]) -> str:
    """The dialect of the operator that :func:`operator_of` has found in a query."""
    name, _, _ = query.get("operator", "").partition(":")
    return name if name in DIALECTS else "ieee754"
