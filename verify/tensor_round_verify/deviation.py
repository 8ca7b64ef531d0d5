"""A named deviation: one wrong way to round or to convert, which real runtimes have.

``source`` is where it was found: an issue on GitHub as gh:owner/name#number, or a runtime in which
this package finds it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

#: The ``source`` of a deviation that was not found.
NO_REPORT = "no report known"


@dataclass(frozen=True, slots=True)
class Deviation:
    """One deviation: its name, what it changes, its effect in words, and where it was found.

    Results have at most one deviation of each ``aspect``.
    """

    name: str
    aspect: str
    about: str
    source: str

    def __str__(self) -> str:
        return self.name


def words(names: Sequence[object]) -> str:
    """A list in English: a, b and c; empty without names."""
    *some, last = map(str, names or [""])
    return f"{', '.join(some)} and {last}" if some else last
