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
from collections.abc import Iterator, Mapping
from functools import lru_cache, reduce
from operator import or_
from types import ModuleType
from typing import TYPE_CHECKING, Annotated, Any, Literal, cast

from pydantic import Field

from ..dtypes import BY_NAME
from ..errors import Fault, InvalidDescriptor, MalformedJSON
from ..quoting import not_accepted, shown
from ..rounding import Rounding
from ..wire import strictjson
from .dialect import Dialect
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

#: The modules above, each of which exports one descriptor of an operator.
MODULES: tuple[ModuleType, ...] = tuple(
    sys.modules[value.__module__]
    for value in tuple(globals().values())
    if isinstance(value, type)
    and issubclass(value, OperatorDescriptor)
    and value is not OperatorDescriptor
)
DIALECTS: dict[str, Dialect] = {module.DIALECT.name: module.DIALECT for module in MODULES}

if not TYPE_CHECKING:
    # Type checkers follow the stars.
    __all__ = [name for module in MODULES for name in module.__all__]

#: The operators in one word, for type checkers; a test compares them with the tables.
OperatorWord = Literal[
    "onnx", "openvino", "openvino:half_to_even", "openvino:half_away_from_zero",
    "directml:HALVES_TO_NEAREST_EVEN", "directml:TOWARD_INFINITY", "directml:TOWARD_ZERO",
    "webnn", "stablehlo:round_nearest_even", "stablehlo:round_nearest_afz",
    "array_api:round", "array_api:trunc", "array_api:ceil", "array_api:floor",
    "mlir:math.roundeven", "mlir:math.round", "mlir:math.trunc", "mlir:math.ceil",
    "mlir:math.floor",
]  # fmt: skip

if TYPE_CHECKING:
    Descriptor = OperatorDescriptor
else:
    #: A descriptor of any dialect, as schemas document it. To read one, use :func:`validate`.
    Descriptor = Annotated[
        reduce(or_, [dialect.descriptor for dialect in DIALECTS.values()]),
        Field(discriminator="dialect"),
    ]

#: The deepest nesting of objects and arrays; valid descriptors have at most five levels.
_DEPTH_LIMIT = 16

#: Values in a descriptor. The longest valid one has about 170. A larger document is refused before
#: each of its values becomes a fault.
_VALUE_LIMIT = 512


def validate(document: object) -> Descriptor:
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
    return DIALECTS[name].descriptor.read(document)


def refuse_oversized(document: object) -> None:
    """Raise :class:`InvalidDescriptor` for more values than a descriptor can have."""
    if strictjson.has_more_values(document, _VALUE_LIMIT):
        raise InvalidDescriptor.at((), f"a descriptor must have at most {_VALUE_LIMIT} values")


def parse(data: bytes) -> Descriptor:
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
    """Every dialect with its versions, data types and modes, as JSON values."""
    return {name: dialect.describe() for name, dialect in DIALECTS.items()}


def operator_of(descriptor: Descriptor) -> RoundOperator:
    """The operator of a descriptor."""
    return DIALECTS[descriptor.dialect].object.of(descriptor)


#: The dialects whose operators have a form as one word, and their accepted forms.
_SPELLED = {
    name: tuple(dialect.words.spellings(name))
    for name, dialect in DIALECTS.items()
    if dialect.words is not None
}
#: The accepted texts, for help and error messages.
SPELLINGS = "; ".join((", ".join(Rounding), *map(" or ".join, _SPELLED.values())))
#: The same without the values of attributes, for error messages.
_SHORT_SPELLINGS = (*Rounding, *(forms[0].partition(" ")[0] for forms in _SPELLED.values()))
#: The operators of the other dialects in each of their modes, as ``compare`` lists them.
WORDS = tuple(
    word
    for name in _SPELLED
    for word in ([f"{name}:{mode}" for mode in DIALECTS[name].modes] or [name])
)

_INTEGER = re.compile(r"\d{1,9}", re.ASCII)


@lru_cache(maxsize=64)
def operator_from_text(text: str, loc: tuple[str, ...] = ("operator",)) -> RoundOperator:
    """The operator that ``text`` names.

    ``text`` is an IEEE 754 rounding direction, or a dialect and, after colons, its operator's
    attributes. Raises :class:`InvalidDescriptor` at ``loc`` with the accepted texts.
    """
    name, *words = text.split(":")
    if not words and name in Rounding.__members__.values():
        return IEEE754Round(cast(Rounding, name))
    dialect = DIALECTS.get(name)
    # Any: the operators check their own attributes.
    given: list[Any] = [int(word) if _INTEGER.fullmatch(word) else word for word in words]
    if dialect is None or dialect.words is None or not dialect.words.accepts(given):
        raise InvalidDescriptor.at(loc, _rule(text, name))
    with _faults_at(*loc):
        return dialect.object(*given)


def _rule(text: str, dialect: str) -> str:
    """What is wrong with a text, what was probably meant, and what is allowed."""
    if dialect in _SPELLED:
        return f"got {shown(text)}; write {' or '.join(_SPELLED[dialect])}"
    return not_accepted(text, (*Rounding, *_SPELLED, *WORDS), listed=_SHORT_SPELLINGS)


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

    ``operator`` is one word, or an object with ``dialect`` and the operator's attributes; ``dtype``
    is a canonical name. Raises :class:`InvalidDescriptor` with the members that are wrong.
    """
    faults = unknown(document, _SHORT, "field")
    faults += [Fault((name,), "is required") for name in _SHORT if name not in document]
    if faults:
        raise InvalidDescriptor.of(faults)
    given, dtype, shape = (document[name] for name in _SHORT)
    operator = operator_from_text(given) if isinstance(given, str) else _from_attributes(given)
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


def _from_attributes(document: Any) -> RoundOperator:
    """The operator in ``{"dialect": NAME, ATTRIBUTE: VALUE, ...}``, with its object's defaults."""
    name = document.get("dialect") if isinstance(document, Mapping) else None
    if not isinstance(name, str) or name not in DIALECTS:
        rule = f"must be a word, or an object whose dialect is one of {', '.join(DIALECTS)}"
        raise InvalidDescriptor.at(("operator",), f"{rule}, got {shown(document)}")
    kind = DIALECTS[name].object
    names = kind.attributes()
    given = {key: value for key, value in document.items() if key != "dialect"}
    if faults := unknown(given, names, "attribute", "operator"):
        raise InvalidDescriptor.of(faults)
    with _faults_at("operator"):
        return kind(**given)


@contextlib.contextmanager
def _faults_at(*loc: str) -> Iterator[None]:
    """Have refusals of an operator, or of its descriptor, name the place of its text."""
    try:
        yield
    except InvalidDescriptor as error:
        raise InvalidDescriptor.of([Fault(loc, fault.msg) for fault in error.faults]) from None
