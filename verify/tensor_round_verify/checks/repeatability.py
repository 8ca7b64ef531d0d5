"""Wrong results tried again elsewhere, before they are called faults of a pattern."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from tensor_round.contract.errors import CannotVerify

from ..explain import Differs, Places
from ..reference import Bits
from ..runtimes.runtime import TimedOut

Kernel = Callable[[Bits], Bits]

#: Elements around those that are tried again: no vector, head or tail holds both.
AROUND = 128
#: How often: each time fewer are left, so that their places change.
TIMES = 8
#: Elements that are tried in a short array too, and alone.
FEW, ALONE = 64, 4
#: Elements behind them the first time, so that a fault of short arrays is none of patterns.
LONG = 1 << 13
#: The shortest array if results depend on the array's length, and the most such arrays.
SHORT, PARTS = 1021, 64


@dataclass(frozen=True, slots=True)
class Moved:
    """A result that another array, or another place, does not give."""

    place: int
    length: int
    x: int
    got: int
    elsewhere: int

    @property
    def cause(self) -> str:
        """The fault in words."""
        place = f"element {self.place:,} of {self.length:,}"
        return f"depends on the position: {place} differs elsewhere"


@dataclass(frozen=True, slots=True)
class Tried:
    """The results for patterns: of the first call, and as they are wherever the patterns are.

    ``moved`` is the first that was of its place alone.
    """

    bits: Bits
    first_got: Bits
    got: Bits
    moved: Moved | None

    @classmethod
    def of(cls, kernel: Kernel, bits: Bits, want: Bits, differs: Differs) -> Tried:
        """Call a kernel, and again where its results are wrong."""
        first_got = kernel(bits)
        got, moved = confirmed(kernel, bits, first_got, want, differs)
        return cls(bits, first_got, got, moved)


def confirmed(
    kernel: Kernel, bits: Bits, got: Bits, want: Bits, differs: Differs
) -> tuple[Bits, Moved | None]:
    """The results for these patterns wherever they are, and the first that was of its place alone.

    Only results that are wrong are tried again: at other places, a few in a short array, and a few
    alone.
    """
    wrong = np.flatnonzero(differs(got, want))
    if not wrong.size:
        return got, None
    found = got.copy()
    for time in range(TIMES):
        again = _elsewhere(kernel, bits[wrong], time)
        other = differs(again, found[wrong])
        found[wrong[other]] = again[other]
        wrong = wrong[differs(again, want[wrong])]
        if not wrong.size or (time and not other.any()):
            break
    if wrong.size:
        some = wrong[:: max(1, wrong.size // FEW)]
        short = _elsewhere(kernel, bits[some], 2)
        if differs(short, found[some]).any() or _differs_alone(kernel, bits, found, some, differs):
            parts = np.array_split(wrong, min(PARTS, -(-wrong.size // SHORT)))
            found[wrong] = np.concatenate([_elsewhere(kernel, bits[part], 1) for part in parts])
    moved = np.flatnonzero(differs(found, got))
    if not moved.size:
        return found, None
    place = int(moved[0])
    rows = (int(column[place]) for column in (bits, got, found))
    return found, Moved(place, bits.size, *rows)


def _differs_alone(kernel: Kernel, bits: Bits, found: Bits, some: Places, differs: Differs) -> bool:
    for place in some[:ALONE]:
        try:
            alone = kernel(bits[[place]])
        except TimedOut:
            raise
        except CannotVerify:
            return False  # a fault of calls, which are tried later
        if differs(alone, found[[place]]).any():
            return True
    return False


def _elsewhere(kernel: Kernel, bits: Bits, time: int) -> Bits:
    """The results for these patterns in reversed order, with others around them.

    The array is long at first; its length is a multiple of :data:`AROUND`, and every second time
    odd.
    """
    x = bits[::-1]
    head = AROUND + time
    rest = AROUND + -(head + x.size) % AROUND + time % 2 + (0 if time else LONG)
    given = np.concatenate([np.resize(x, head), x, np.resize(x, rest)])
    return kernel(given)[head : head + x.size][::-1]
