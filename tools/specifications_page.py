"""Writes docs/specifications.md from specifications.py; ``--check`` only compares."""

from __future__ import annotations

import sys
from pathlib import Path

from tensor_round_verify.specifications import SPECIFICATIONS, Specification

PAGE = Path(__file__).parents[1] / "docs" / "specifications.md"

HEAD = """\
# Rounding in specifications

For each operator the table has the rule for halves, the types, and the rules for the sign of
zero and for NaN, as its specification states them, and the place where they were read. "silent"
means that the specification states nothing. The service has an operator of a row with a dialect,
by that [descriptor](descriptors.md). An operator without an exact definition has no dialect,
because no result can be called wrong.

`tensor-round specs` prints the table, and `tensor-round specs stablehlo` the rows of one family;
`--json` prints them as JSON. In Python they are `tensor_round_verify.specifications`. Whether
programs follow their specifications: [verify.md](verify.md).

This page is made from `specifications.py` by `make docs`.

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


def main() -> int:
    """Write the page, or say whether it is current."""
    if "--check" in sys.argv:
        return 0 if PAGE.exists() and PAGE.read_text() == page() else 1
    PAGE.write_text(page())
    return 0


if __name__ == "__main__":
    sys.exit(main())
