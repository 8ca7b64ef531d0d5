"""The differences of the rounding directions on a tensor."""

from __future__ import annotations

from itertools import combinations

import numpy as np

from ...messages.differences import Classes, Differences, PairDifference
from ...operators.text import operators_on
from ..classes import PatternClass, classify
from ..reference import FLOATS, ROUNDINGS, Bits, bits_type, rounded
from .quick import quick
from .tally import Row, Tally, class_difference

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
            down = quick(bits, self._dtype, "toward_negative")
            up = quick(bits, self._dtype, "toward_positive")
            # Where these two give the same result, all five do.
            fractions = np.flatnonzero(down != up)
            x, up = bits[fractions], up[fractions]
            upwards = np.zeros(x.size, np.intp)
            for place, rounding in enumerate(ROUNDINGS):
                upwards |= (quick(x, self._dtype, rounding) == up).astype(np.intp) << place
            codes = classify(x, self._dtype, quick(x, self._dtype, "ties_to_even"))
            self._tally.add(codes * np.intp(_SETS) + upwards, fractions + self._seen, x)
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
