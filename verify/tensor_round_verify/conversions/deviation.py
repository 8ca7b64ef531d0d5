"""A named deviation, as a value: the fields of a conversion that it sets."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

from .blocks.quantization import BlockHow
from .conversion import How

#: A conversion of any kind, and one that keeps its kind.
AnyHow = How | BlockHow
Kind = TypeVar("Kind", bound=AnyHow)
NO_REPORT = "no report known"


@dataclass(frozen=True, slots=True)
class Deviation:
    """One wrong way to convert: its name, its effect in words, and where it was found.

    ``changes`` are the fields of the conversion that it sets. A runtime has at most one deviation
    of each ``aspect``.
    """

    name: str
    aspect: str
    about: str
    source: str
    changes: Mapping[str, Any] = field(repr=False)  # a value of each field's own type

    def changes_nothing(self, how: AnyHow) -> bool:
        """Whether the conversion has these values already."""
        return all(getattr(how, name) == value for name, value in self.changes.items())

    def __str__(self) -> str:
        return self.name


def deviated(how: Kind, deviations: Iterable[Deviation]) -> Kind:
    """The conversion, changed by these deviations."""
    changes = {name: value for found in deviations for name, value in found.changes.items()}
    return replace(how, **changes)
