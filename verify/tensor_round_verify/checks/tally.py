"""The sum of what was tried: counts by class, the first wrong results, and their digest."""

from __future__ import annotations

import hashlib
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from tensor_round.contract.differences.classes import Codes
from tensor_round.contract.differences.directions import Row
from tensor_round.contract.differences.directions import Tally as WrongTally

from ..explain import Explanation
from ..reference import FLOAT_FORMATS, Bits
from ..report import ClassCount, Effect, Example, Kind, Verdict


@dataclass(frozen=True, slots=True)
class Block:
    """The results for some patterns: the class of each, and the wrong ones with their places."""

    codes: Codes
    places: npt.NDArray[np.intp]
    x: Bits
    got: Bits
    want: Bits
    effects: npt.NDArray[np.uint8]
    #: How far the operands are from 1; none for those of a tensor, which has an order.
    distances: Bits | None = None


def from_one(bits: Bits, dtype: str) -> Bits:
    """How far numbers are from 1 or -1, in patterns."""
    fmt = FLOAT_FORMATS.get(dtype)
    one = fmt.bias << fmt.fraction_bits if fmt else 1
    magnitude = bits & bits.dtype.type(fmt.signless) if fmt else bits
    number = bits.dtype.type(one)
    return np.where(magnitude > number, magnitude - number, number - magnitude)


class Tally:
    """The sum over the blocks of one dtype and direction, which are added in order."""

    def __init__(self) -> None:
        self._seen = 0
        self._tried: Counter[int] = Counter()
        self._wrong = WrongTally()
        #: By class and effect the nearest to 1: the distance, and the row.
        self._nearest: dict[int, dict[int, tuple[int, Row]]] = {}
        self._effects: defaultdict[int, Effect] = defaultdict(lambda: Effect(0))
        self._digest = hashlib.sha256()

    def add(self, block: Block) -> None:
        """Count the next block."""
        self._tried.update(dict(enumerate(np.bincount(block.codes).tolist())))
        places, codes = block.places + self._seen, block.codes[block.places]
        self._wrong.add(codes, places, block.x, block.got, block.want)
        for code in np.unique(codes).tolist():
            own = np.flatnonzero(codes == code)
            found = np.unique(block.effects[own]).tolist()
            self._effects[code] |= Effect(sum(found))
            if block.distances is not None:
                for effect in found:
                    some = own[block.effects[own] == effect]
                    at = some[np.argmin(block.distances[some])]
                    columns = (places, block.x, block.got, block.want)
                    near = int(block.distances[at]), tuple(int(each[at]) for each in columns)
                    nearest = self._nearest.setdefault(code, {})
                    nearest[effect] = min(near, nearest.get(effect, near))
        self._digest.update(np.stack([block.x, block.got], axis=1).reshape(-1).data)
        self._seen = self._tried.total()

    def wrong(self, kinds: Sequence[Kind]) -> int:
        """How many results of these classes are wrong."""
        return sum(self._wrong.counts[kind] for kind in kinds)

    def verdict(
        self,
        name: tuple[str, str],
        kinds: Sequence[Kind],
        explanation: Explanation,
        example: Callable[[int, int, int, int], Example],
    ) -> Verdict:
        """The verdict on all blocks, for ``name``: dtype and direction.

        ``kinds`` are the classes in the order of the report; ``example`` makes one of a wrong
        result's place, operand, result and right result.
        """
        counts = self._wrong.counts
        classes = (
            ClassCount(
                kind,
                self._tried[kind],
                counts[kind],
                tuple(self._examples(kind, example)),
                self._effects[kind],
            )
            for kind in kinds
            if counts[kind]
        )
        digest = self._digest.hexdigest()
        return Verdict(*name, self._seen, counts.total(), tuple(classes), explanation, digest)

    def _examples(
        self, kind: Kind, example: Callable[[int, int, int, int], Example]
    ) -> Iterator[Example]:
        """One for each effect, the nearest to 1 first; of a tensor the first ones."""
        if kind not in self._nearest:
            yield from (example(*row) for row in self._wrong.first([kind]))
            return
        nearest = self._nearest[kind]
        for effect in sorted(nearest, key=nearest.__getitem__):
            distance, row = nearest[effect]
            yield replace(example(*row), effect=Effect(effect), distance=distance)
