"""Made parts of pages that are otherwise written by hand."""

from __future__ import annotations

BEGIN, END = "<!-- reference: begin -->\n", "<!-- reference: end -->\n"


def between_marks(current: str, made: str) -> str:
    """The page with the text between its marks anew."""
    before, rest = current.split(BEGIN)
    after = rest.split(END)[1]
    return before + BEGIN + made + END + after
