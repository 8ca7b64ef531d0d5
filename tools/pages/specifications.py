"""docs/specifications.md, from specifications.py."""

from __future__ import annotations

from tensor_round_verify.specifications import SPECIFICATIONS, Specification

HEAD = """\
# Rounding in specifications

`tensor-round specs` prints this table, and `tensor-round specs stablehlo` the rows of one family.
"Silent" means that the specification states nothing. The service executes rows with a dialect, by a
[descriptor](descriptors.md); operators without an exact definition have no dialect.
[Verify](verify.md) tests whether programs follow their specifications.

`make docs` makes this page from `specifications.py`.

| operator | halves | | types | ranks | zero's sign | NaN | read in | dialect |
|---|---|---|---|---|---|---|---|---|
"""


def page() -> str:
    """The whole page, as Markdown."""
    return HEAD + "".join(map(_row, SPECIFICATIONS))


def _row(row: Specification) -> str:
    dialect = f"`{row.dialect}`" if row.dialect else ""
    cells = (f"`{row.name}`", row.ties, row.about, row.dtypes, row.ranks, row.zero, row.nan)
    return f"| {' | '.join((*cells, row.source, dialect))} |\n"
