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


ROUNDING_NAMES: tuple[RoundingName, ...] = (
    RoundingName(Rounding.TIES_TO_EVEN, True, "half_to_even", "HALVES_TO_NEAREST_EVEN", 0),
    RoundingName(Rounding.TIES_TO_AWAY, False, "half_away_from_zero", "TOWARD_INFINITY", 2),
    RoundingName(Rounding.TOWARD_ZERO, False, None, "TOWARD_ZERO", 1),
    # In DirectML these two are the operators CEIL and FLOOR.
    RoundingName(Rounding.TOWARD_POSITIVE, False, None, None, None),
    RoundingName(Rounding.TOWARD_NEGATIVE, False, None, None, None),
)

OPENVINO_MODES: dict[str, Rounding] = {
    row.openvino: row.rounding for row in ROUNDING_NAMES if row.openvino is not None
}
DIRECTML_MODES: dict[str, Rounding] = {
    row.directml: row.rounding for row in ROUNDING_NAMES if row.directml is not None
}
DIRECTML_MODE_VALUES: dict[int, str] = {
    row.directml_value: row.directml
    for row in ROUNDING_NAMES
    if row.directml_value is not None and row.directml is not None
}
