"""docs/specifications.md, from specifications.py."""

from __future__ import annotations

from tensor_round_verify.specifications import SPECIFICATIONS, Specification

HEAD = """\
# Rounding in specifications

`tensor-round specs` prints this table, and `tensor-round specs stablehlo` the rows of one family.
An empty cell means that the specification states nothing; without ranks, any is allowed.
[verify](verify.md) tests whether programs follow their specifications.

| operator | halves | rule | types | ranks | zero's sign | NaN | read in |
|---|---|---|---|---|---|---|---|
"""
#: What an empty cell says.
UNSAID = ("silent", "any")


def page() -> str:
    """The whole page, as Markdown."""
    return HEAD + "".join(map(_row, SPECIFICATIONS))


def _row(row: Specification) -> str:
    cells = (f"`{row.name}`", row.ties, row.about, row.dtypes, row.ranks, row.zero, row.nan)
    told = ("" if cell in UNSAID else cell for cell in (*cells, row.source))
    return f"| {' | '.join(told)} |\n"
