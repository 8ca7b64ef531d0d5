"""The rounding directions and their names in each dialect.

Every mapping between dialects is derived from one table with one row per direction. DirectML's
``TOWARD_INFINITY`` is not a directed rounding: it is nearest, ties away from zero.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class Rounding(str, Enum):
    """An IEEE 754-2019 rounding-direction attribute (section 4.3)."""

    TIES_TO_EVEN = "ties_to_even"
    TIES_TO_AWAY = "ties_to_away"
    TOWARD_ZERO = "toward_zero"
    TOWARD_POSITIVE = "toward_positive"
    TOWARD_NEGATIVE = "toward_negative"

    # ``str()`` and f-strings give the wire name on every Python version.
    __str__ = str.__str__


@dataclass(frozen=True, slots=True)
class RoundingName:
    """The dialects' names of one rounding direction; None where a dialect does not have it."""

    rounding: Rounding
    onnx: bool
    openvino: str | None
    directml: str | None
    directml_value: int | None
    stablehlo: str | None
    array_api: str | None


# One line per row.
# ruff: noqa: E501
# fmt: off
ROUNDING_NAMES: tuple[RoundingName, ...] = (
    #            direction                 ONNX   OpenVINO               DirectML                   value  StableHLO             Array API
    RoundingName(Rounding.TIES_TO_EVEN,    True,  "half_to_even",        "HALVES_TO_NEAREST_EVEN", 0,     "round_nearest_even", "round"),
    RoundingName(Rounding.TIES_TO_AWAY,    False, "half_away_from_zero", "TOWARD_INFINITY",        2,     "round_nearest_afz",  None),
    RoundingName(Rounding.TOWARD_ZERO,     False, None,                  "TOWARD_ZERO",            1,     None,                 "trunc"),
    # DirectML and StableHLO have these two as separate operators.
    RoundingName(Rounding.TOWARD_POSITIVE, False, None,                  None,                     None,  None,                 "ceil"),
    RoundingName(Rounding.TOWARD_NEGATIVE, False, None,                  None,                     None,  None,                 "floor"),
)
# fmt: on

OPENVINO_MODES: dict[str, Rounding] = {
    row.openvino: row.rounding for row in ROUNDING_NAMES if row.openvino is not None
}
DIRECTML_MODES: dict[str, Rounding] = {
    row.directml: row.rounding for row in ROUNDING_NAMES if row.directml is not None
}
STABLEHLO_OPS: dict[str, Rounding] = {
    row.stablehlo: row.rounding for row in ROUNDING_NAMES if row.stablehlo is not None
}
ARRAY_API_FUNCTIONS: dict[str, Rounding] = {
    row.array_api: row.rounding for row in ROUNDING_NAMES if row.array_api is not None
}
DIRECTML_MODE_VALUES: dict[int, str] = {
    row.directml_value: row.directml
    for row in ROUNDING_NAMES
    if row.directml_value is not None and row.directml is not None
}

#: Names of rounding directions in other places, in lower case, for suggestions in errors. Names
#: that mean different directions in different places, such as ``toward_infinity``, are left out.
_SYNONYMS: dict[str, Rounding] = {
    **{rounding.value: rounding for rounding in Rounding},
    **dict.fromkeys(("rne", "half_even", "halves_to_nearest_even"), Rounding.TIES_TO_EVEN),
    **dict.fromkeys(("half_to_even", "round_nearest_even", "rint"), Rounding.TIES_TO_EVEN),
    **dict.fromkeys(("rna", "round_nearest_afz"), Rounding.TIES_TO_AWAY),
    **dict.fromkeys(("half_away", "half_away_from_zero"), Rounding.TIES_TO_AWAY),
    **dict.fromkeys(("rtz", "trunc", "truncate"), Rounding.TOWARD_ZERO),
    **dict.fromkeys(("rtp", "ceil", "ceiling"), Rounding.TOWARD_POSITIVE),
    **dict.fromkeys(("rtn", "floor"), Rounding.TOWARD_NEGATIVE),
}


def rounding_named(text: str) -> Rounding | None:
    """The direction that a name means in any dialect; None if it is unknown or ambiguous."""
    return _SYNONYMS.get(text.lower())
