"""Counts of elements by key, with the first elements of each key."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from .classes import PatternClass
from .document import FIRST, ClassDifference, Element, Value, index_of

#: An element: its index in C order, its pattern, and the patterns of its results.
Row = tuple[int, ...]


class Tally:
    """Counts elements by key and keeps each key's first rows; elements are added in C order."""

    def __init__(self) -> None:
        self.counts: Counter[int] = Counter()
        self._first: dict[int, list[Row]] = {}

    def add(self, keys: npt.NDArray[np.integer], *columns: npt.NDArray[Any]) -> None:
        """Count elements by key; each column has one member of all rows."""
        counts = np.bincount(keys)
        for key in np.flatnonzero(counts).tolist():
            self.counts[key] += int(counts[key])
            rows = self._first.setdefault(key, [])
            if (missing := FIRST - len(rows)) > 0:
                here = np.flatnonzero(keys == key)[:missing]
                rows += zip(*(column[here].tolist() for column in columns), strict=True)

    def first(self, keys: Iterable[int]) -> list[Row]:
        """The first rows of several keys, merged."""
        return sorted(row for key in keys for row in self._first[key])[:FIRST]


def class_difference(
    kind: PatternClass,
    different: int,
    rows: Iterable[Row],
    names: Sequence[str],
    dtype: str,
    shape: tuple[int, ...],
) -> ClassDifference:
    """The differences in one class; ``names`` are the names of the results in each row."""
    return ClassDifference(
        kind.plural(dtype),
        different,
        tuple(
            Element(
                index_of(place, shape),
                Value.of(dtype, x),
                {name: Value.of(dtype, y) for name, y in zip(names, results, strict=True)},
            )
            for place, x, *results in rows
        ),
    )
