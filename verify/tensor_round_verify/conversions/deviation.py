"""A named deviation of a conversion, as a value: the fields of the conversion that it sets."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

from ..deviation import Deviation
from .blocks.quantization import BlockHow
from .conversion import How

#: A conversion of any kind, and one that keeps its kind.
AnyHow = How | BlockHow
Kind = TypeVar("Kind", bound=AnyHow)


@dataclass(frozen=True, slots=True)
class ConversionDeviation(Deviation):
    """One wrong way to convert; ``changes`` are the fields of the conversion that it sets."""

    changes: Mapping[str, Any] = field(repr=False)  # a value of each field's own type

    def changes_nothing(self, how: AnyHow) -> bool:
        """Whether the conversion has these values already."""
        return all(getattr(how, name) == value for name, value in self.changes.items())


def deviated(how: Kind, deviations: Iterable[ConversionDeviation]) -> Kind:
    """The conversion, changed by these deviations."""
    changes = {name: value for found in deviations for name, value in found.changes.items()}
    return replace(how, **changes)
