"""Operator descriptors: JSON documents that name a rounding operator and its tensors' layouts.

Each dialect has the names and rules of its own specification. Each descriptor resolves to a
:class:`~tensor_round.contract.call.RoundCall`. A new dialect is a file in :mod:`.dialects`.
"""

from __future__ import annotations

from functools import reduce
from operator import or_
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import Field

from ..call import RoundCall
from ..errors import Fault, InvalidArgument, InvalidDescriptor
from ..quoting import shown, suggestion
from ..rounding import Rounding, RoundingName
from ..wire import strictjson
from .dialects import DIALECTS, IEEE754Round
from .model import OperatorDescriptor
from .operator import PreparedDescriptor, RoundOperator, prepare_descriptor
from .text import operator_from_text, read_short

__all__ = [
    "DIALECTS",
    "Descriptor",
    "PreparedDescriptor",
    "RoundOperator",
    "as_operator",
    "catalog",
    "operator_of",
    "parse",
    "prepare_descriptor",
    "refuse_oversized",
    "resolve_json",
    "validate",
]

if TYPE_CHECKING:
    Descriptor = OperatorDescriptor
else:
    #: A descriptor of any dialect, as schemas document it. To read one, use :func:`validate`.
    Descriptor = Annotated[
        reduce(or_, [dialect.descriptor for dialect in DIALECTS.values()]),
        Field(discriminator="dialect"),
    ]

_NO_DIALECT = f"must be one of {', '.join(DIALECTS)}"

#: The deepest nesting of objects and arrays; valid descriptors have at most five levels.
_DEPTH_LIMIT = 16

#: Values and keys in a descriptor. The longest valid one has about 170. A larger document is
#: refused before each of its values becomes a fault.
_VALUE_LIMIT = 512


def validate(document: object) -> Descriptor:
    """The descriptor in a parsed JSON document.

    Raises :class:`InvalidDescriptor` with every wrong field, type and name. Rules on several
    fields (rank, agreement of input and output, overlap) are checked by ``resolve``. A document
    with ``operator`` is in the short form, see :func:`.text.read_short`.
    """
    if not isinstance(document, dict):
        raise _refusal(("dialect",), f"{_NO_DIALECT}, in an object, got {shown(document)}")
    if "operator" in document:
        refuse_oversized(document)
        return read_short(document)
    if "dialect" not in document:
        raise _refusal(("dialect",), _NO_DIALECT)
    name = document["dialect"]
    if not isinstance(name, str) or name not in DIALECTS:
        hint = suggestion(name, DIALECTS)
        raise _refusal(("dialect",), f"{_NO_DIALECT}, got {shown(name)}{hint}")
    refuse_oversized(document)
    return DIALECTS[name].descriptor.read(document)


def refuse_oversized(document: object) -> None:
    """Raise :class:`InvalidDescriptor` for more values than a descriptor can have."""
    if strictjson.has_more_values(document, _VALUE_LIMIT):
        raise _refusal((), f"a descriptor must have at most {_VALUE_LIMIT} values")


def parse(data: bytes) -> Descriptor:
    """The descriptor in a JSON text.

    Raises :class:`MalformedJSON`, and what :func:`validate` raises.
    """
    return validate(strictjson.loads(data, max_depth=_DEPTH_LIMIT, max_values=_VALUE_LIMIT))


def resolve_json(data: bytes) -> RoundCall:
    """The call that the descriptor in a JSON text resolves to.

    Raises what :func:`parse` and a descriptor's ``resolve`` raise.
    """
    return parse(data).resolve()


def catalog() -> dict[str, Any]:
    """Every dialect with its versions, data types and modes, as JSON values."""
    return {name: dialect.describe() for name, dialect in DIALECTS.items()}


def as_operator(
    operator: RoundOperator | str | None,
    rounding: RoundingName | Rounding | None = None,
) -> RoundOperator:
    """The operator that a caller gave, also as one word; by default ``ties_to_even``.

    Raises :class:`InvalidDescriptor`, and :class:`InvalidArgument` if both are given.
    """
    if rounding is not None:
        if operator is not None:
            raise InvalidArgument("an operator has its own rounding: give one of the two")
        operator = rounding
    if operator is None:
        operator = "ties_to_even"
    if isinstance(operator, RoundOperator):
        return operator
    return operator_from_text(operator) if isinstance(operator, str) else IEEE754Round(operator)


def operator_of(descriptor: Descriptor) -> RoundOperator:
    """The operator of a descriptor."""
    return DIALECTS[descriptor.dialect].object.of(descriptor)


def _refusal(loc: tuple[str, ...], msg: str) -> InvalidDescriptor:
    return InvalidDescriptor.of([Fault(loc, msg)])
