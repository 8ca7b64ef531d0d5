"""Operators as text, for command lines and queries: ``directml:TOWARD_INFINITY``."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Any, cast

from ..dtypes import BY_NAME
from ..errors import Fault, InvalidDescriptor
from ..quoting import not_accepted, shown
from ..rounding import Rounding
from .dialects.ieee754 import IEEE754Round
from .model import OperatorDescriptor
from .operator import ANY_SHAPE, RoundOperator
from .registry import DIALECTS

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
    dialect, *words = text.split(":")
    try:
        return _operator(dialect, words)
    except InvalidDescriptor as error:
        faults = [Fault(loc, fault.msg) for fault in error.faults]
    except LookupError:
        faults = [Fault(loc, _rule(text, dialect))]
    raise InvalidDescriptor.of(faults)


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
    faults = [
        Fault((name,), not_accepted(name, _SHORT, wrong="unknown field"))
        for name in document
        if name not in _SHORT
    ]
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
    unknown = [
        Fault(("operator", key), not_accepted(key, names, wrong="unknown attribute"))
        for key in given
        if key not in names
    ]
    if unknown:
        raise InvalidDescriptor.of(unknown)
    with _faults_at("operator"):
        return kind(**given)


@contextlib.contextmanager
def _faults_at(member: str) -> Iterator[None]:
    """Name a member of the short form in refusals of the descriptor that is made from it."""
    try:
        yield
    except InvalidDescriptor as error:
        raise InvalidDescriptor.of(
            [Fault((member,), fault.msg) for fault in error.faults]
        ) from None


def _operator(name: str, words: list[str]) -> RoundOperator:
    if not words and name in Rounding.__members__.values():
        return IEEE754Round(cast(Rounding, name))
    dialect = DIALECTS[name]
    # Any: the operators check their own attributes.
    given: list[Any] = [int(word) if _INTEGER.fullmatch(word) else word for word in words]
    if dialect.words is None or not dialect.words.accepts(given):
        raise LookupError
    return dialect.object(*given)
