"""The sum of what was tried: counts by class, the first wrong results, and their digest."""

from __future__ import annotations

import hashlib
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from tensor_round.contract.differences.classes import Codes
from tensor_round.contract.differences.directions import Tally as WrongTally

from ..explain import Explanation
from ..reference import Bits
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


class Tally:
    """The sum over the blocks of one dtype and direction, which are added in order."""

    def __init__(self) -> None:
        self._seen = 0
        self._tried: Counter[int] = Counter()
        self._wrong = WrongTally()
        self._effects: defaultdict[int, Effect] = defaultdict(lambda: Effect(0))
        self._digest = hashlib.sha256()

    def add(self, block: Block) -> None:
        """Count the next block."""
        self._tried.update(dict(enumerate(np.bincount(block.codes).tolist())))
        places, codes = block.places + self._seen, block.codes[block.places]
        self._wrong.add(codes, places, block.x, block.got, block.want)
        for code in np.unique(codes).tolist():
            found = np.bitwise_or.reduce(block.effects[codes == code])
            self._effects[code] |= Effect(int(found))
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
                tuple(example(*row) for row in self._wrong.first([kind])),
                self._effects[kind],
            )
            for kind in kinds
            if counts[kind]
        )
        digest = self._digest.hexdigest()
        return Verdict(*name, self._seen, counts.total(), tuple(classes), explanation, digest)
