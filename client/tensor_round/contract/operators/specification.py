"""What a specification says of a rounding operator, as one row of a table."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Literal

#: The rule for halves. ``not defined``: the text has no rule. ``no operator``: it has no operator.
Ties = Literal["even", "away", "toward +infinity", "by mode", "not defined", "no operator"]

#: The rules for zero and NaN, ``*IEEE`` or ``*SILENT`` in a row.
IEEE = ("keeps the operand's sign", "a quiet NaN")
SILENT = ("silent", "silent")


@dataclass(frozen=True, slots=True)
class Specification:
    """One operator and its rules.

    ``zero`` is the rule for a zero's sign, ``nan`` that for NaN; ``silent`` if the text has none.
    ``source`` is the text; gh:owner/name#number is a thread on GitHub.
    """

    name: str
    ties: Ties
    about: str
    dtypes: str
    ranks: str
    zero: str
    nan: str
    source: str
    dialect: str | None = None

    def as_data(self) -> dict[str, str | None]:
        """The row as JSON values."""
        return asdict(self)
