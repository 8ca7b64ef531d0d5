"""The tables of a dialect: its names, and what each version of its operator accepts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ..errors import Fault
from ..rounding import Rounding


@dataclass(frozen=True, slots=True)
class Version:
    """One version of a dialect's operator, with the dtypes and ranks that it accepts.

    ``title`` begins every message about its rules. ``selected_by`` are the values of the
    descriptor's version field that select this version. ``dtypes`` are the dialect's names.
    """

    name: str
    title: str
    selected_by: tuple[str | int, ...]
    dtypes: tuple[str, ...]
    min_rank: int
    max_rank: int

    def rank_faults(self, rank: int, loc: tuple[str | int, ...]) -> list[Fault]:
        """The fault of a tensor with too few or too many dimensions, if any."""
        if self.min_rank <= rank <= self.max_rank:
            return []
        exact = self.min_rank == self.max_rank
        takes = f"exactly {self.min_rank}" if exact else f"{self.min_rank} to {self.max_rank}"
        return [Fault(loc, f"{self.title} takes {takes} dimensions, got {rank}")]

    def dtype_faults(self, dtype: str, loc: tuple[str | int, ...]) -> list[Fault]:
        """The fault of a data type that this version does not accept, if any."""
        if dtype in self.dtypes:
            return []
        return [Fault(loc, f"{self.title} takes {', '.join(self.dtypes)}, got {dtype}")]


def overlap_fault(title: str, loc: tuple[str | int, ...]) -> Fault:
    """The fault of an output whose elements may share bytes."""
    return Fault(
        loc,
        f"{title}: elements of the output must not overlap: with dimensions larger than 1 sorted "
        "by stride, each stride must exceed the sum of (size-1)*stride of the smaller ones",
    )


@dataclass(frozen=True, slots=True)
class Dialect:
    """One dialect, as a row of the table of dialects.

    ``version_field`` and ``mode_field`` are the paths of the descriptor's fields that select a
    version and a rounding direction; None where there is no choice. ``dtypes`` and ``modes`` map
    the dialect's names to the canonical ones. ``default_rounding`` applies without a mode.
    """

    name: str
    operator: str
    version_field: str | None
    versions: tuple[Version, ...]
    dtypes: Mapping[str, str]
    mode_field: str | None
    modes: Mapping[str, Rounding]
    default_rounding: Rounding

    def describe(self) -> dict[str, Any]:
        """The dialect as ``GET /operators`` shows it, as JSON values."""
        return {
            "operator": self.operator,
            "version_field": self.version_field,
            "versions": [
                {
                    "name": version.name,
                    "selected_by": list(version.selected_by),
                    "dtypes": list(version.dtypes),
                    "min_rank": version.min_rank,
                    "max_rank": version.max_rank,
                }
                for version in self.versions
            ],
            "dtypes": dict(self.dtypes),
            "mode_field": self.mode_field,
            "modes": {name: rounding.value for name, rounding in self.modes.items()},
            "default_rounding": self.default_rounding.value,
        }
