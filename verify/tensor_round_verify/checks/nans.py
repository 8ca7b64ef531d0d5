"""NaNs that come back with other bits: reported, and errors only if every bit is verified."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..deviation import Deviation, words
from ..reference import FLOATS, Bits, is_nan

_WORDS = {
    "NaN quieted": "are quieted",
    "payload lost": "lose their payload",
    "payload cut to float32's": "keep only float32's part of their payload",
    "NaN's sign lost": "lose their sign",
}
#: Of a deviation whose name is a pattern.
_CANONICAL = "become one pattern"


@dataclass(frozen=True, slots=True)
class NanBits:
    """``different`` of ``tried`` NaNs came back as another NaN; ``deviations`` say as which.

    ``deviations`` is None if none explains all of them. ``quiet``: whether each of these results
    is a quiet NaN, which is all that IEEE 754 asks for.
    """

    tried: int
    different: int
    quiet: bool
    deviations: tuple[Deviation, ...] | None = None

    @property
    def how(self) -> str:
        """What becomes of NaNs, in words; empty if they all come back as they were."""
        if not self.different:
            return ""
        if self.deviations is None:
            return "get other bits"
        return words([_WORDS.get(one.name, _CANONICAL) for one in self.deviations])

    @property
    def sentence(self) -> str:
        """The same as a sentence; empty if all NaNs come back as they were."""
        return told([self])

    def as_data(self) -> dict[str, Any]:
        """The counts and the deviations as JSON values."""
        return {
            "tried": self.tried,
            "different": self.different,
            "quiet": self.quiet,
            "deviations": None
            if self.deviations is None
            else [one.name for one in self.deviations],
        }

    def __add__(self, other: NanBits) -> NanBits:
        return NanBits(
            self.tried + other.tried,
            self.different + other.different,
            self.quiet and other.quiet,
        )


def told(nans: Iterable[NanBits]) -> str:
    """What becomes of NaNs in all of these, as a sentence."""
    some = [each for each in nans if each.different]
    if not some:
        return ""
    permitted = ", as IEEE 754 permits" if all(each.quiet for each in some) else ""
    ways = dict.fromkeys(each.how for each in some)
    return f"NaNs {' or '.join(ways)}{permitted}"


def nan_bits(got: Bits, want: Bits, dtype: str) -> NanBits:
    """The NaNs among these results and right results; integer types have none."""
    nan = is_nan(dtype, want)
    if not nan.any():
        return NanBits(0, 0, True)
    other = got[nan & is_nan(dtype, got) & (got != want)]
    fmt = FLOATS[dtype]
    # The only NaNs of a type without infinities are quiet.
    quiet = other & other.dtype.type(1 << (fmt.fraction_bits - 1)) != 0
    return NanBits(int(nan.sum()), other.size, bool(np.all(quiet)) or not fmt.has_infinity)
