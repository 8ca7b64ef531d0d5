"""The rounding directions. The dialects have their own names for them."""

from __future__ import annotations

from enum import Enum
from typing import Literal

#: The names of :class:`Rounding`, so that type checkers find wrong ones; a test compares both.
RoundingName = Literal[
    "ties_to_even", "ties_to_away", "toward_zero", "toward_positive", "toward_negative"
]


class Rounding(str, Enum):
    """An IEEE 754-2019 rounding-direction attribute (section 4.3)."""

    TIES_TO_EVEN = "ties_to_even"
    TIES_TO_AWAY = "ties_to_away"
    TOWARD_ZERO = "toward_zero"
    TOWARD_POSITIVE = "toward_positive"
    TOWARD_NEGATIVE = "toward_negative"

    # ``str()`` and f-strings give the wire name on every Python version.
    __str__ = str.__str__


#: Names of rounding directions in other places, in lower case, for suggestions in errors. Names
#: that mean different directions in different places (``toward_infinity``, ``down``) are left out.
_SYNONYMS: dict[str, Rounding] = {
    **{rounding.value: rounding for rounding in Rounding},
    **dict.fromkeys(("rne", "half_even", "halves_to_nearest_even"), Rounding.TIES_TO_EVEN),
    **dict.fromkeys(("half_to_even", "round_nearest_even", "rint"), Rounding.TIES_TO_EVEN),
    **dict.fromkeys(("rna", "round_nearest_afz"), Rounding.TIES_TO_AWAY),
    **dict.fromkeys(("half_away", "half_away_from_zero"), Rounding.TIES_TO_AWAY),
    **dict.fromkeys(("rtz", "trunc", "truncate"), Rounding.TOWARD_ZERO),
    **dict.fromkeys(("rtp", "ceil", "ceiling", "up", "upward"), Rounding.TOWARD_POSITIVE),
    **dict.fromkeys(("rtn", "floor", "downward"), Rounding.TOWARD_NEGATIVE),
}


def rounding_named(text: str) -> Rounding | None:
    """The direction that a name means in any dialect; None if it is unknown or ambiguous."""
    return _SYNONYMS.get(text.lower())
