"""Operators as text, for command lines and queries: ``directml:TOWARD_INFINITY``."""

from __future__ import annotations

import contextlib
import re
from functools import lru_cache
from typing import Any, cast

from ..errors import Fault, InvalidDescriptor
from ..quoting import shown
from ..rounding import Rounding
from .dialects.ieee754 import IEEE754Round
from .operator import RoundOperator
from .registry import DIALECTS

#: The accepted texts, for help and error messages.
SPELLINGS = "; ".join(
    (
        ", ".join(Rounding),
        *(
            " or ".join(dialect.words.spellings(dialect.name))
            for dialect in DIALECTS.values()
            if dialect.words is not None
        ),
    )
)

#: The operators of the other dialects in each of their modes, as ``compare`` lists them.
WORDS = tuple(
    word
    for name, dialect in DIALECTS.items()
    if dialect.words is not None
    for word in ([f"{name}:{mode}" for mode in dialect.modes] or [name])
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
        faults = [Fault(loc, f"must be one of {SPELLINGS}, got {shown(text)}")]
    raise InvalidDescriptor.of(faults)


def operators_on(dtype: str, shape: tuple[int, ...]) -> dict[str, tuple[str, ...]]:
    """The dialects' operators that accept a packed tensor, by their rounding direction."""
    found: dict[str, tuple[str, ...]] = {rounding.value: () for rounding in Rounding}
    for text in WORDS:
        with contextlib.suppress(InvalidDescriptor):
            rounding = operator_from_text(text).prepare(dtype, shape).call.rounding.value
            found[rounding] = (*found[rounding], text)
    return found


def _operator(name: str, words: list[str]) -> RoundOperator:
    if not words and name in Rounding.__members__.values():
        return IEEE754Round(cast(Rounding, name))
    dialect = DIALECTS[name]
    # Any: the operators check their own attributes.
    given: list[Any] = [int(word) if _INTEGER.fullmatch(word) else word for word in words]
    if dialect.words is None or not dialect.words.accepts(given):
        raise LookupError
    return dialect.object(*given)
