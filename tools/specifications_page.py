"""Writes docs/specifications.md from specifications.py; ``--check`` only compares."""

from __future__ import annotations

import sys
from pathlib import Path

from tensor_round.specifications import SPECIFICATIONS, Specification

PAGE = Path(__file__).parents[1] / "docs" / "specifications.md"

HEAD = """\
# What specifications say of rounding

Where halves go, of what types, and what becomes of a zero's sign and of NaN: as each text says it,
with the place where it was read. "silent" is a text that says nothing. An operator that its text
does not define is a row here and no dialect: nobody can be held to it. A row with a dialect is
served here by that [descriptor](descriptors.md).

`tensor-round specs` prints the table, `tensor-round specs webnn` the rows of one family, `--json`
either as JSON; `tensor_round.specifications` has them in Python. How the programs keep to it:
[verify.md](verify.md).

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
