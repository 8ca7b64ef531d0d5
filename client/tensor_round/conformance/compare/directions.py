"""The differences of the rounding directions on a tensor."""

from __future__ import annotations

from functools import lru_cache
from itertools import combinations

import numpy as np
import numpy.typing as npt

from ...messages.differences import Classes, Differences, PairDifference
from ...operators.text import operators_on
from ..classes import PatternClass, classify
from ..reference import FLOATS, ROUNDINGS, WIDTHS, Bits, all_patterns, bits_type, rounded
from .quick import quick
from .tally import Row, Tally, class_difference

Keys = npt.NDArray[np.int16]
#: The number of sets of directions; a set is a number with a bit for each direction.
_SETS = 1 << len(ROUNDINGS)


class DirectionTally:
    """Counts the differences on one tensor, whose elements are added in C order."""

    def __init__(self, dtype: str) -> None:
        self._dtype = dtype
        self._seen = 0
        #: By class and by the set of directions that round the element up; the others round down.
        self._tally = Tally()

    def add(self, bits: Bits) -> None:
        """Count the next elements."""
        if self._dtype in FLOATS:
            keys = _keys(bits, self._dtype)
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
                rows = [self._rounded(row, names) for row in self._tally.first(keys)]
                classes[kind.label] = class_difference(
                    kind, different, rows, names, self._dtype, shape
                )
        total = sum(row.different for row in classes.values())
        return PairDifference(names, total, classes)

    def _rounded(self, row: Row, names: tuple[str, str]) -> Row:
        bits = np.array(row[1:], bits_type(self._dtype))
        return (*row, *(int(rounded(bits, self._dtype, name)[0]) for name in names))


def _keys(bits: Bits, dtype: str) -> Keys:
    """The class of each pattern and the directions that round it up; -1 where all five agree."""
    return np.take(_table(dtype), bits) if WIDTHS[dtype] <= 16 else _computed(bits, dtype)


@lru_cache(maxsize=len(FLOATS))
def _table(dtype: str) -> Keys:
    return _computed(all_patterns(dtype), dtype)


def _computed(bits: Bits, dtype: str) -> Keys:
    down, up = quick(bits, dtype, "toward_negative"), quick(bits, dtype, "toward_positive")
    # Where these two are alike, so are all five.
    places = np.flatnonzero(down != up)
    x, up = bits[places], up[places]
    results = {name: quick(x, dtype, name) for name in ROUNDINGS[:3]}
    upwards = np.full(x.size, 1 << ROUNDINGS.index("toward_positive"), np.int16)
    for place, result in enumerate(results.values()):
        upwards |= (result == up).astype(np.int16) << place
    keys = np.full(bits.size, -1, np.int16)
    keys[places] = classify(x, dtype, results["ties_to_even"]) * np.int16(_SETS) + upwards
    return keys
