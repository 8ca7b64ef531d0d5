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
from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import lru_cache
from types import ModuleType
from typing import TYPE_CHECKING, Any, Literal, cast

from ..dtypes import BY_NAME
from ..errors import Fault, InvalidDescriptor, MalformedJSON
from ..quoting import not_accepted, shown
from ..rounding import Rounding
from ..wire import strictjson
from .dialect import Dialect, Operator
from .dialects.ieee754 import IEEE754Convert as IEEE754Convert
from .dialects.ieee754 import IEEE754Round as IEEE754Round
from .model import OperatorDescriptor, unknown
from .operator import (
    ANY_SHAPE,
    Kind,
    LinearOperator,
    RoundOperator,
    attributes_given,
    made_of,
)

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
        sys.modules[value.resolve.__module__]
        for value in tuple(globals().values())
        if isinstance(value, type)
        and issubclass(value, OperatorDescriptor)
        and hasattr(sys.modules[value.__module__], "DIALECT")
    )
)
DIALECTS: dict[str, Dialect] = {module.DIALECT.name: module.DIALECT for module in MODULES}
#: Every operator, by its dialect's name, and but for the first one its own after a colon.
OPERATORS: dict[str, Operator] = {
    name if operator is dialect.operators[0] else f"{name}:{operator.name}": operator
    for name, dialect in DIALECTS.items()
    for operator in dialect.operators
}

if not TYPE_CHECKING:
    # Type checkers follow the stars.
    __all__ = [name for module in MODULES for name in module.__all__]

#: The operators in one word, for editors to complete; a test compares them with the tables. Further
#: attributes make more, as ``onnx:13``, so signatures take any ``str``.
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
#: Characters of a text in it, as many as a head of HTTP has bytes: patterns hold the GIL while they
#: search one.
_TEXT_LIMIT = 64 << 10


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
    return DIALECTS[name].read(document)


def refuse_oversized(document: object) -> None:
    """Raise :class:`InvalidDescriptor` for more values than a descriptor has, or longer texts."""
    values, characters = strictjson.extent(document, _VALUE_LIMIT)
    if values > _VALUE_LIMIT:
        raise InvalidDescriptor.at((), f"a descriptor must have at most {_VALUE_LIMIT} values")
    if characters > _TEXT_LIMIT:
        rule = f"a text in a descriptor must have at most {_TEXT_LIMIT} characters"
        raise InvalidDescriptor.at((), rule)


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


def _spelled(kind: Kind) -> dict[str, tuple[str, ...]]:
    """The accepted forms of the operators of a kind as one word, by dialect."""
    found: dict[str, tuple[str, ...]] = {}
    for operator in OPERATORS.values():
        if operator.words is not None and operator.kind is kind:
            forms = operator.words.spellings(*filter(None, (operator.dialect, operator.words.name)))
            found[operator.dialect] = (*found.get(operator.dialect, ()), *forms)
    return found


_SPELLED = {kind: _spelled(kind) for kind in Kind}
#: The words of a kind that name no dialect.
_DIRECTIONS = {kind: () if kind.is_linear else tuple(Rounding) for kind in Kind}
#: The accepted texts of each kind, a line for each dialect.
SPELLINGS = {
    kind: tuple(filter(None, (", ".join(_DIRECTIONS[kind]), *map(" or ".join, forms.values()))))
    for kind, forms in _SPELLED.items()
}
#: The same without the values of attributes, for error messages.
_SHORT_SPELLINGS = {
    kind: (*_DIRECTIONS[kind], *(forms[0].partition(" ")[0] for forms in spelled.values()))
    for kind, spelled in _SPELLED.items()
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


#: Why an operator of a kind is refused where another kind is meant.
_NEEDS = {
    Kind.ROUND: "it does not cast to a type",
    Kind.CAST: "it needs to, the target type",
    Kind.QUANTIZE: "it needs scale, and quantizes",
    Kind.DEQUANTIZE: "it needs scale, and dequantizes",
}


@lru_cache(maxsize=64)
def operator_from_text(
    text: str,
    loc: tuple[str, ...] = ("operator",),
    to: str | None = None,
    saturate: bool | None = None,
    *,
    kind: Kind | None = None,
    axis: int | None = None,
    block_size: int | None = None,
) -> RoundOperator:
    """The operator of a kind that ``text`` names, by default with ``to`` the one that casts to it.

    ``text`` is an IEEE 754 rounding direction, or a dialect and, after colons, its operator and the
    operator's attributes. The others are attributes, too; None leaves one out. Raises
    :class:`InvalidDescriptor` at ``loc`` with the accepted texts.
    """
    name, *rest = text.split(":")
    words: Sequence[str] = rest
    if kind is None:
        kind = Kind.ROUND if to is None else Kind.CAST
    beside = {"saturate": saturate, "axis": axis, "block_size": block_size}
    named: dict[str, Any] = {name: value for name, value in beside.items() if value is not None}
    if not words and name in _DIRECTIONS[kind]:
        direction = cast(Rounding, name)
        if to is None:
            return IEEE754Round(direction)
        with _faults_at("to"):
            return IEEE754Convert(cast(Any, to), direction, **named)
    if name not in DIALECTS or name not in _SPELLED[kind]:
        raise InvalidDescriptor.at(loc, _rule(text, name, kind))
    operator, attributes = _operator_in(DIALECTS[name], words, kind)
    if operator.words is not None and operator.words.is_text and attributes:
        attributes = [":".join(attributes)]
    # Any: the operators check their own attributes.
    given: list[Any] = [int(word) if _INTEGER.fullmatch(word) else word for word in attributes]
    if operator.kind is not kind:
        if kind.is_linear:
            raise InvalidDescriptor.at(loc, _rule(text, name, kind))
        raise InvalidDescriptor.at(loc, f"got {shown(text)}: {_NEEDS[operator.kind]}")
    if operator.words is None or not operator.words.accepts(given):
        raise InvalidDescriptor.at(loc, _rule(text, name, kind))
    names = operator.object.attributes()
    if to is not None or "to" in names:
        given = [to, *given] if "to" in names else given
        named = named if "to" in names else {"to": to, **named}
    if faults := unknown(named, names, "attribute"):
        raise InvalidDescriptor.of(faults)
    with _faults_at(*loc, beside=named):
        return operator.object(*given, **named)


def _operator_in(
    dialect: Dialect, words: Sequence[str], kind: Kind
) -> tuple[Operator, Sequence[str]]:
    """The operator that the words after a dialect mean, and those that are its attributes."""
    for operator in dialect.operators:
        if words and words[0] and operator.words and words[0] == operator.words.name:
            return operator, words[1:]
    if words and words[0] in dialect.spellings:
        operator = dialect.operator_named(dialect.spellings[words[0]])
        is_attribute = dialect.operator_field in operator.object.attributes()
        return operator, words if is_attribute else words[1:]
    return next(one for one in dialect.operators if one.kind is kind), words


def _rule(text: str, dialect: str, kind: Kind) -> str:
    """What is wrong with a text, what was probably meant, and what is allowed."""
    spelled = _SPELLED[kind]
    if dialect in spelled:
        return f"got {shown(text)}; write {' or '.join(spelled[dialect])}"
    known = (*_DIRECTIONS[kind], *spelled, *(WORDS if kind is Kind.ROUND else ()))
    return not_accepted(text, known, listed=_SHORT_SPELLINGS[kind])


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
    type of the result. ``saturate``, and of a quantization ``axis`` and ``block_size``, are
    attributes, too. ``scale`` and ``zero_point`` are objects with ``dtype`` and ``shape``; they
    need an operator that is named. Raises :class:`InvalidDescriptor` with the members that are
    wrong.
    """
    faults = unknown(document, SHORT_MEMBERS, "field")
    faults += [Fault((name,), "is required") for name in _SHORT if name not in document]
    if faults:
        raise InvalidDescriptor.of(faults)
    given, to = document["operator"], document.get("to")
    if to is not None and (not isinstance(to, str) or to not in BY_NAME):
        raise InvalidDescriptor.at(("to",), not_accepted(to, BY_NAME))
    beside = attributes_given({name: document.get(name) for name in _ATTRIBUTES})
    if to is not None:
        beside = {"to": to, **beside}
    kind = _kind_of(given, beside, has_scale=document.get("scale") is not None)
    if isinstance(given, str):
        operator = operator_from_text(given, kind=kind, **beside)
    else:
        operator = _from_attributes(given, kind, beside)
    if not kind.is_linear:
        dtype, shape = _tensor(document)
        with _faults_at("dtype"):
            operator.descriptor(cast(Any, dtype), ANY_SHAPE).resolve()
        with _faults_at("shape"):
            return _resolved(operator.descriptor(cast(Any, dtype), shape))
    tensors: list[Any] = [_tensor(document)]
    dtype = tensors[0][0]
    types = (to or "float32", dtype)
    if kind is Kind.QUANTIZE:
        types = (dtype if BY_NAME[dtype].is_float else "float32", to or "uint8")
    tensors += [
        _tensor(document[name], name, default=default)
        for name, default in zip(SHORT_PARAMETERS, types, strict=True)
        if document.get(name) is not None
    ]
    try:
        return _resolved(cast(LinearOperator, operator).descriptor(*tensors[0], *tensors[1:]))
    except InvalidDescriptor as error:
        row = next(one for one in OPERATORS.values() if one.object is type(operator))
        found = [Fault(_member_of(row, fault.loc), fault.msg) for fault in error.faults]
        raise InvalidDescriptor.of(found) from None


def _resolved(descriptor: OperatorDescriptor) -> OperatorDescriptor:
    descriptor.resolve()
    return descriptor


def named_operator(given: Any) -> Operator | None:
    """The operator that a word, or an object with ``dialect``, names itself, if it names one."""
    dialect, name = given, None
    if isinstance(given, str):
        dialect, _, rest = given.partition(":")
        name = rest.partition(":")[0]
    elif isinstance(given, Mapping):
        dialect, name = given.get("dialect"), given.get("operator")
    if not (isinstance(dialect, str) and dialect in DIALECTS and isinstance(name, str)):
        return None
    known = DIALECTS[dialect]
    names = {word: one for one in known.operators for word in _names_of(one)}
    spelled = known.spellings.get(name)
    return names.get(name) or (known.operator_named(spelled) if spelled else None)


def _kind_of(given: Any, beside: Mapping[str, Any], *, has_scale: bool) -> Kind:
    """The kind of the operator in a short form: with a scale, the one that it names."""
    found = named_operator(given)
    if found is not None and found.kind.is_linear:
        if not has_scale and len(found.tensors) > 1:
            raise InvalidDescriptor.at(("scale",), "is required")
        return found.kind
    if has_scale:
        if found is not None:
            rule = f"{found.dialect}: {found.name} takes no scale"
            raise InvalidDescriptor.at(("scale",), rule)
        spelled_words = [
            forms[0].partition(" ")[0]
            for kind in Kind
            if kind.is_linear
            for forms in _SPELLED[kind].values()
        ]
        rule = f"with scale it must be one of {', '.join(spelled_words)}, got {shown(given)}"
        raise InvalidDescriptor.at(("operator",), rule)
    return Kind.CAST if "to" in beside else Kind.ROUND


def _names_of(operator: Operator) -> Iterator[str]:
    yield operator.name
    if operator.words is not None and operator.words.name:
        yield operator.words.name


def _tensor(document: Any, *loc: str, default: str = "") -> tuple[str, list[int]]:
    """The shape of a tensor in a short form, and its dtype, for which there may be a default."""
    if not isinstance(document, Mapping):
        rule = f"must be an object with dtype and shape, got {shown(document)}"
        raise InvalidDescriptor.at(loc, rule)
    if loc:
        document = {"dtype": default, **document}
        faults = unknown(document, _TENSOR, "field", *loc)
        faults += [Fault((*loc, name), "is required") for name in _TENSOR if name not in document]
        if faults:
            raise InvalidDescriptor.of(faults)
    dtype, shape = document["dtype"], document["shape"]
    if not isinstance(dtype, str) or dtype not in BY_NAME:
        raise InvalidDescriptor.at((*loc, "dtype"), not_accepted(dtype, BY_NAME))
    if not isinstance(shape, list) or not all(type(size) is int for size in shape):
        rule = f"must be a list of integers, got {shown(shape)}"
        raise InvalidDescriptor.at((*loc, "shape"), rule)
    return dtype, shape


def _member_of(row: Operator, loc: Sequence[str | int]) -> tuple[str, ...]:
    """The member of a short form that the place of a fault in a descriptor means."""
    names = [part for part in loc if isinstance(part, str)]
    path, last = ".".join(names), names[-1] if names else ""
    attributes = {path: name for name, path in row.object.paths().items()}
    if row.target_field is not None:
        attributes[row.target_field] = "to"
    if path in attributes:
        return (attributes[path],)
    if path in SHORT_PARAMETERS:
        return (path,)
    member = "shape" if last in ("shape", "Sizes") else "dtype"
    for name, own in zip(row.tensors[1:], SHORT_PARAMETERS, strict=False):
        if name in names:
            return (own,) if last == name else (own, member)
    return (member,)


_TENSOR = ("dtype", "shape")
#: The members of the short form that must be there.
_SHORT = ("operator", *_TENSOR)
#: Attributes beside ``to``, the type of a cast or a quantization.
_ATTRIBUTES = ("saturate", "axis", "block_size")
#: Further tensors of a quantization.
SHORT_PARAMETERS = ("scale", "zero_point")
SHORT_MEMBERS = (*_SHORT, "to", *_ATTRIBUTES, *SHORT_PARAMETERS)


def _from_attributes(document: Any, kind: Kind, beside: Mapping[str, Any]) -> RoundOperator:
    """The operator in ``{"dialect": NAME, ATTRIBUTE: VALUE, ...}``, with its object's defaults."""
    name = document.get("dialect") if isinstance(document, Mapping) else None
    if not isinstance(name, str) or name not in DIALECTS:
        rule = f"must be a word, or an object whose dialect is one of {', '.join(DIALECTS)}"
        raise InvalidDescriptor.at(("operator",), f"{rule}, got {shown(document)}")
    given = {key: value for key, value in document.items() if key != "dialect"}
    given.update(beside)
    operator = _named_in(DIALECTS[name], given.pop("operator", None), kind, given)
    names = operator.object.attributes()
    faults = unknown(given, names, "attribute", "operator")
    missing = (attribute for attribute in operator.object.required() if attribute not in given)
    faults += [Fault(("operator", attribute), "is required") for attribute in missing]
    if faults:
        raise InvalidDescriptor.of(faults)
    with _faults_at("operator"):
        return made_of(operator.object, given)


def _named_in(dialect: Dialect, name: Any, kind: Kind, given: dict[str, Any]) -> Operator:
    """The operator that an object names, by default the first one of the kind.

    If the name is also an attribute's value, as ``math.floor`` is, it is set in ``given``.
    """
    if name is None:
        kind = Kind.CAST if "to" in given else kind
        return next(one for one in dialect.operators if one.kind is kind)
    for operator in dialect.operators:
        if name in _names_of(operator):
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
def _faults_at(*loc: str, beside: Collection[str] = ()) -> Iterator[None]:
    """Have refusals of an operator, or of its descriptor, name the place of its text.

    Attributes ``beside`` the text keep their own.
    """
    try:
        yield
    except InvalidDescriptor as error:
        own: dict[tuple[str | int, ...], tuple[str, ...]]
        own = {(name,): (*loc[:-1], name) for name in beside}
        found = [Fault(own.get(fault.loc, loc), fault.msg) for fault in error.faults]
        raise InvalidDescriptor.of(found) from None
