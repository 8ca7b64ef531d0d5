"""The dialects, one line each, and what is derived from all of them.

That is the reader of descriptors, and operators as text, ``directml:TOWARD_INFINITY``, for command
lines and queries.

A new dialect is its file and its line below, which exports what is in the file's ``__all__``. The
order of the lines is that of every list of dialects.
"""

from __future__ import annotations

import contextlib
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from types import ModuleType
from typing import TYPE_CHECKING, Any, Literal, cast

from ..dtypes import BY_NAME
from ..errors import Fault, InvalidDescriptor, MalformedJSON
from ..quoting import not_accepted, shown
from ..rounding import Rounding
from ..wire import strictjson
from .dialect import Dialect, Operator
from .dialects import onnx_linear
from .dialects.ieee754 import IEEE754Convert as IEEE754Convert
from .dialects.ieee754 import IEEE754Round as IEEE754Round
from .model import OperatorDescriptor, unknown
from .operator import ANY_SHAPE, RoundOperator

# isort: off
from .dialects.ieee754 import *
from .dialects.onnx import *
from .dialects.openvino import *
from .dialects.directml import *
from .dialects.webnn import *
from .dialects.stablehlo import *
from .dialects.array_api import *
from .dialects.mlir import *
# isort: on

#: The modules above, each of which exports descriptors of a dialect's operators.
MODULES: tuple[ModuleType, ...] = tuple(
    dict.fromkeys(
        sys.modules[value.__module__]
        for value in tuple(globals().values())
        if isinstance(value, type)
        and issubclass(value, OperatorDescriptor)
        and value is not OperatorDescriptor
    )
)
DIALECTS: dict[str, Dialect] = {module.DIALECT.name: module.DIALECT for module in MODULES}
#: Every operator, by its dialect's name, and but for the first one its own after a colon.
OPERATORS: dict[str, Operator] = {
    name if operator is dialect.operators[0] else f"{name}:{operator.name}": operator
    for name, dialect in DIALECTS.items()
    for operator in dialect.operators
}

#: The descriptors of operators with several tensors, by dialect and the value of its operator's
#: field. ``POST /round`` and ``execute`` take them as bytes; no other way does.
LINEAR = {"onnx": onnx_linear.FORMS}

if not TYPE_CHECKING:
    # Type checkers follow the stars.
    __all__ = [name for module in MODULES for name in module.__all__]

#: The operators in one word, for type checkers; a test compares them with the tables.
OperatorWord = Literal[
    "onnx", "onnx:Floor", "onnx:Ceil",
    "openvino", "openvino:half_to_even", "openvino:half_away_from_zero",
    "openvino:Floor", "openvino:Ceiling",
    "directml:HALVES_TO_NEAREST_EVEN", "directml:TOWARD_INFINITY", "directml:TOWARD_ZERO",
    "directml:FLOOR", "directml:CEIL", "webnn", "webnn:floor", "webnn:ceil",
    "stablehlo:round_nearest_even", "stablehlo:round_nearest_afz",
    "stablehlo:floor", "stablehlo:ceil",
    "array_api:round", "array_api:trunc", "array_api:ceil", "array_api:floor",
    "mlir:math.roundeven", "mlir:math.round", "mlir:math.trunc", "mlir:math.ceil",
    "mlir:math.floor",
]  # fmt: skip

#: The deepest nesting of objects and arrays; valid descriptors have at most five levels.
_DEPTH_LIMIT = 16

#: Values in a descriptor. The longest valid one has about 170. A larger document is refused before
#: each of its values becomes a fault.
_VALUE_LIMIT = 512


def validate(document: object) -> OperatorDescriptor:
    """The descriptor in a parsed JSON document.

    Raises :class:`InvalidDescriptor` with every wrong field, type and name. Rules on several
    fields (rank, agreement of input and output, overlap) are checked by ``resolve``. A document
    with ``operator`` is in the short form, see :func:`read_short`.
    """
    if not isinstance(document, dict):
        rule = f"a descriptor must be an object with dialect or operator, got {shown(document)}"
        raise InvalidDescriptor.at((), rule)
    if "operator" in document:
        refuse_oversized(document)
        return read_short(document)
    if "dialect" not in document:
        raise InvalidDescriptor.at(("dialect",), f"is required: one of {', '.join(DIALECTS)}")
    name = document["dialect"]
    if not isinstance(name, str) or name not in DIALECTS:
        raise InvalidDescriptor.at(("dialect",), not_accepted(name, DIALECTS))
    refuse_oversized(document)
    dialect, operator = DIALECTS[name], document.get(DIALECTS[name].operator_field)
    if isinstance(operator, str) and operator in (forms := LINEAR.get(name, {})):
        return forms[operator].read(document)
    return dialect.read(document)


def refuse_oversized(document: object) -> None:
    """Raise :class:`InvalidDescriptor` for more values than a descriptor can have."""
    if strictjson.has_more_values(document, _VALUE_LIMIT):
        raise InvalidDescriptor.at((), f"a descriptor must have at most {_VALUE_LIMIT} values")


def parse(data: bytes) -> OperatorDescriptor:
    """The descriptor in a JSON text.

    Raises :class:`MalformedJSON`, and what :func:`validate` raises.
    """
    try:
        document = strictjson.loads(data, max_depth=_DEPTH_LIMIT, max_values=_VALUE_LIMIT)
    except MalformedJSON as error:
        if data.lstrip().startswith(b"{"):
            raise
        example = '{"operator": "onnx", "dtype": "float32", "shape": [2, 3]}'
        raise MalformedJSON(f"{error.detail}; a descriptor is an object, as {example}") from None
    return validate(document)


def catalog() -> dict[str, Any]:
    """Every dialect with its operators, their versions, data types and modes, as JSON values."""
    return {name: dialect.describe() for name, dialect in DIALECTS.items()}


def operator_of(descriptor: OperatorDescriptor) -> RoundOperator:
    """The operator of a descriptor."""
    return DIALECTS[descriptor.dialect].operator_of(descriptor).object.of(descriptor)


def _spelled(*, casts: bool) -> dict[str, tuple[str, ...]]:
    """The accepted forms of the operators of a kind as one word, by dialect."""
    found: dict[str, tuple[str, ...]] = {}
    for operator in OPERATORS.values():
        if operator.words is not None and operator.is_cast == casts:
            forms = operator.words.spellings(*filter(None, (operator.dialect, operator.words.name)))
            found[operator.dialect] = (*found.get(operator.dialect, ()), *forms)
    return found


#: Of operators to integral values, and of casts.
_SPELLED = {casts: _spelled(casts=casts) for casts in (False, True)}
#: The accepted texts, for help and error messages.
SPELLINGS, CAST_SPELLINGS = (
    "; ".join((", ".join(Rounding), *map(" or ".join, spelled.values())))
    for spelled in _SPELLED.values()
)
#: The same without the values of attributes, for error messages.
_SHORT_SPELLINGS = {
    casts: (*Rounding, *(forms[0].partition(" ")[0] for forms in spelled.values()))
    for casts, spelled in _SPELLED.items()
}
#: The operators to integral values of the other dialects in each of their modes, as ``compare``
#: lists them.
WORDS = tuple(
    ":".join(filter(None, (operator.dialect, operator.words.name, mode)))
    for operator in OPERATORS.values()
    if operator.words is not None and operator.rounds_to_integral
    for mode in operator.modes or [""]
)

_INTEGER = re.compile(r"\d{1,9}", re.ASCII)


@lru_cache(maxsize=64)
def operator_from_text(
    text: str,
    loc: tuple[str, ...] = ("operator",),
    to: str | None = None,
    saturate: bool | None = None,
) -> RoundOperator:
    """The operator that ``text`` names; with ``to`` the one that casts to that dtype.

    ``saturate`` is the cast's attribute; None leaves it out. ``text`` is an IEEE 754 rounding
    direction, or a dialect and, after colons, its operator and the operator's attributes. Raises
    :class:`InvalidDescriptor` at ``loc`` with the accepted texts.
    """
    name, *rest = text.split(":")
    words: Sequence[str] = rest
    is_cast = to is not None
    target = () if to is None else (to,)
    named = {} if saturate is None else {"saturate": saturate}
    if not words and name in Rounding.__members__.values():
        direction = cast(Rounding, name)
        if to is None:
            return IEEE754Round(direction)
        with _faults_at("to"):
            return IEEE754Convert(cast(Any, to), direction, **named)
    if name not in DIALECTS or name not in _SPELLED[is_cast]:
        raise InvalidDescriptor.at(loc, _rule(text, name, is_cast))
    operator, attributes = _operator_in(DIALECTS[name], words, is_cast)
    # Any: the operators check their own attributes.
    given: list[Any] = [int(word) if _INTEGER.fullmatch(word) else word for word in attributes]
    if operator.is_cast != is_cast:
        rule = "it needs to, the target type" if to is None else "it does not cast to a type"
        raise InvalidDescriptor.at(loc, f"got {shown(text)}: {rule}")
    if operator.words is None or not operator.words.accepts(given):
        raise InvalidDescriptor.at(loc, _rule(text, name, is_cast))
    if faults := unknown(named, operator.object.attributes(), "attribute"):
        raise InvalidDescriptor.of(faults)
    with _faults_at(*loc):
        return operator.object(*target, *given, **named)


def _operator_in(
    dialect: Dialect, words: Sequence[str], is_cast: bool
) -> tuple[Operator, Sequence[str]]:
    """The operator that the words after a dialect mean, and those that are its attributes."""
    for operator in dialect.operators:
        if words and words[0] and operator.words and words[0] == operator.words.name:
            return operator, words[1:]
    if words and words[0] in dialect.spellings:
        operator = dialect.operator_named(dialect.spellings[words[0]])
        is_attribute = dialect.operator_field in operator.object.attributes()
        return operator, words if is_attribute else words[1:]
    return next(one for one in dialect.operators if one.is_cast == is_cast), words


def _rule(text: str, dialect: str, is_cast: bool) -> str:
    """What is wrong with a text, what was probably meant, and what is allowed."""
    spelled = _SPELLED[is_cast]
    if dialect in spelled:
        return f"got {shown(text)}; write {' or '.join(spelled[dialect])}"
    known = (*Rounding, *spelled, *(() if is_cast else WORDS))
    return not_accepted(text, known, listed=_SHORT_SPELLINGS[is_cast])


def operators_on(dtype: str, shape: tuple[int, ...]) -> dict[str, tuple[str, ...]]:
    """The dialects' operators that accept a packed tensor, by their rounding direction."""
    found: dict[str, tuple[str, ...]] = {rounding.value: () for rounding in Rounding}
    for text in WORDS:
        with contextlib.suppress(InvalidDescriptor):
            rounding = operator_from_text(text).prepare(dtype, shape).call.rounding.value
            found[rounding] = (*found[rounding], text)
    return found


def read_short(document: Mapping[str, Any]) -> OperatorDescriptor:
    """The descriptor in its short form: ``operator``, ``dtype`` and ``shape`` of a packed tensor.

    ``operator`` is one word, or an object with ``dialect``, the dialect's ``operator`` if it is not
    the first, and the operator's attributes; ``dtype`` is a canonical name, and so is ``to``, the
    target of a cast, beside which ``saturate`` may stand. Raises :class:`InvalidDescriptor` with
    the members that are wrong.
    """
    faults = unknown(document, (*_SHORT, *SHORT_OF_CASTS), "field")
    faults += [Fault((name,), "is required") for name in _SHORT if name not in document]
    if faults:
        raise InvalidDescriptor.of(faults)
    given, dtype, shape = (document[name] for name in _SHORT)
    to = document.get("to")
    if to is not None and (not isinstance(to, str) or to not in BY_NAME):
        raise InvalidDescriptor.at(("to",), not_accepted(to, BY_NAME))
    saturate = document.get("saturate")
    if saturate is not None and not isinstance(saturate, bool):
        raise InvalidDescriptor.at(("saturate",), f"must be true or false, got {shown(saturate)}")
    if isinstance(given, str):
        operator = operator_from_text(given, to=to, saturate=saturate)
    else:
        operator = _from_attributes(
            given, {name: document[name] for name in SHORT_OF_CASTS if name in document}
        )
    if not isinstance(dtype, str) or dtype not in BY_NAME:
        raise InvalidDescriptor.at(("dtype",), not_accepted(dtype, BY_NAME))
    if not isinstance(shape, list) or not all(type(size) is int for size in shape):
        rule = f"must be a list of integers, got {shown(shape)}"
        raise InvalidDescriptor.at(("shape",), rule)
    with _faults_at("dtype"):
        operator.descriptor(cast(Any, dtype), ANY_SHAPE).resolve()
    with _faults_at("shape"):
        descriptor = operator.descriptor(cast(Any, dtype), shape)
        descriptor.resolve()
    return descriptor


#: The members of the short form.
_SHORT = ("operator", "dtype", "shape")
#: Further ones of a cast.
SHORT_OF_CASTS = ("to", "saturate")


def _from_attributes(document: Any, beside: Mapping[str, Any]) -> RoundOperator:
    """The operator in ``{"dialect": NAME, ATTRIBUTE: VALUE, ...}``, with its object's defaults."""
    name = document.get("dialect") if isinstance(document, Mapping) else None
    if not isinstance(name, str) or name not in DIALECTS:
        rule = f"must be a word, or an object whose dialect is one of {', '.join(DIALECTS)}"
        raise InvalidDescriptor.at(("operator",), f"{rule}, got {shown(document)}")
    given = {key: value for key, value in document.items() if key != "dialect"}
    given.update(beside)
    operator = _named_in(DIALECTS[name], given.pop("operator", None), given)
    names = operator.object.attributes()
    faults = unknown(given, names, "attribute", "operator")
    missing = (attribute for attribute in operator.object.required() if attribute not in given)
    faults += [Fault(("operator", attribute), "is required") for attribute in missing]
    if faults:
        raise InvalidDescriptor.of(faults)
    with _faults_at("operator"):
        return operator.object(**given)


def _named_in(dialect: Dialect, name: Any, given: dict[str, Any]) -> Operator:
    """The operator that an object names, by default the first one that casts, or does not.

    If the name is also an attribute's value, as ``math.floor`` is, it is set in ``given``.
    """
    if name is None:
        return next(one for one in dialect.operators if one.is_cast == ("to" in given))
    for operator in dialect.operators:
        if name in filter(None, (operator.name, operator.words and operator.words.name)):
            return operator
    if not isinstance(name, str) or name not in dialect.spellings:
        known = dict.fromkeys([*dialect.spellings.values(), *(o.name for o in dialect.operators)])
        raise InvalidDescriptor.at(("operator", "operator"), not_accepted(name, known))
    operator = dialect.operator_named(dialect.spellings[name])
    field = dialect.operator_field
    if field in operator.object.attributes() and given.setdefault(field, name) != name:
        raise InvalidDescriptor.at(("operator", field), f"must be {name}, as operator says")
    return operator


@contextlib.contextmanager
def _faults_at(*loc: str) -> Iterator[None]:
    """Have refusals of an operator, or of its descriptor, name the place of its text."""
    try:
        yield
    except InvalidDescriptor as error:
        raise InvalidDescriptor.of([Fault(loc, fault.msg) for fault in error.faults]) from None
