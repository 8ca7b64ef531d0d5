"""The differences of the rounding directions on a tensor, and how they are counted."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from itertools import combinations
from typing import Any

import numpy as np
import numpy.typing as npt

from ..dtypes import BY_NAME, DTYPES
from ..operators.registry import operators_on
from ..rounding import Rounding
from .classes import Bits, PatternClass, classify
from .document import (
    FIRST,
    ClassDifference,
    Classes,
    Differences,
    Element,
    PairDifference,
    Value,
    index_of,
)

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


#: Rounds patterns of a dtype in a direction. It is a function of a module: tables are kept by it.
Rounds = Callable[[Bits, str, str], Bits]
ROUNDINGS = tuple(rounding.value for rounding in Rounding)
Keys = npt.NDArray[np.int16]
#: The number of sets of directions; a set is a number with a bit for each direction.
_SETS = 1 << len(ROUNDINGS)


class DirectionTally:
    """Counts the differences on one tensor, whose elements are added in C order."""

    def __init__(self, dtype: str, rounds: Rounds) -> None:
        self._dtype = dtype
        self._rounds = rounds
        self._seen = 0
        #: By class and by the set of directions that round the element up; the others round down.
        self._tally = Tally()

    def add(self, bits: Bits) -> None:
        """Count the next elements."""
        if BY_NAME[self._dtype].is_float:
            keys = _keys(bits, self._dtype, self._rounds)
            places = np.flatnonzero(keys >= 0)
            self._tally.add(keys[places], places + self._seen, bits[places])
        self._seen += bits.size

    def differences(self, shape: tuple[int, ...]) -> Differences:
        """The differences on all elements."""
        return Differences(
            self._dtype,
            shape,
            self._seen,
            operators_on(self._dtype, shape),
            tuple(self._pair(some, other, shape) for some, other in combinations(range(5), 2)),
        )

    def _pair(self, some: int, other: int, shape: tuple[int, ...]) -> PairDifference:
        names = ROUNDINGS[some], ROUNDINGS[other]
        classes: Classes = {}
        for kind in PatternClass:
            keys = [
                key
                for key in self._tally.counts
                if key // _SETS == kind and (key >> some ^ key >> other) & 1
            ]
            if keys:
                different = sum(self._tally.counts[key] for key in keys)
                rows = self._rounded(self._tally.first(keys), names)
                classes[kind.label] = class_difference(
                    kind, different, rows, names, self._dtype, shape
                )
        total = sum(row.different for row in classes.values())
        return PairDifference(names, total, classes)

    def _rounded(self, rows: list[Row], names: tuple[str, str]) -> list[Row]:
        bits = np.array([x for _, x in rows], BY_NAME[self._dtype].bits)
        results = (self._rounds(bits, self._dtype, name).tolist() for name in names)
        return [(*row, *ys) for row, *ys in zip(rows, *results, strict=True)]


def _keys(bits: Bits, dtype: str, rounds: Rounds) -> Keys:
    """The class of each pattern and the directions that round it up; -1 where all five agree."""
    if BY_NAME[dtype].width <= 16:
        return np.take(_table(dtype, rounds), bits)
    return _computed(bits, dtype, rounds)


@lru_cache(maxsize=2 * len(DTYPES))
def _table(dtype: str, rounds: Rounds) -> Keys:
    row = BY_NAME[dtype]
    return _computed(np.arange(1 << row.width, dtype=row.bits), dtype, rounds)


def _computed(bits: Bits, dtype: str, rounds: Rounds) -> Keys:
    down, up = (rounds(bits, dtype, name) for name in ("toward_negative", "toward_positive"))
    # Where these two are alike, so are all five.
    places = np.flatnonzero(down != up)
    x, up = bits[places], up[places]
    results = {name: rounds(x, dtype, name) for name in ROUNDINGS[:3]}
    upwards = np.full(x.size, 1 << ROUNDINGS.index("toward_positive"), np.int16)
    for place, result in enumerate(results.values()):
        upwards |= (result == up).astype(np.int16) << place
    keys = np.full(bits.size, -1, np.int16)
    keys[places] = classify(x, dtype, results["ties_to_even"]) * np.int16(_SETS) + upwards
    return keys
