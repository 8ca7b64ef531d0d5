"""Puts the latest results where people read them: docs/bench.svg and docs/performance.md.

The tables of docs/performance.md stand between two marks, and are written from the JSON.
"""

from __future__ import annotations

from pathlib import Path

from ..peers.targets import HERE
from . import plot, results, tables

PICTURE = Path("docs/bench.svg")
PAGE = Path("docs/performance.md")
BEGIN = "<!-- the tables: written by make bench-report -->"
END = "<!-- the end of the tables -->"


def main() -> None:
    # Their names begin with the day; those of GPUs, which gpu-check writes, do not.
    latest = max((HERE / "results").glob("[0-9]*.json"))
    found = results.read(latest.read_text())
    PICTURE.write_text(plot.draw(found))
    before, _, rest = PAGE.read_text().partition(BEGIN)
    _, _, after = rest.partition(END)
    picture = f"![Round trips beside each other]({PICTURE.name})"
    figures = f"{picture}\n\n{tables.title(found)}\n\n{tables.render(found)}"
    PAGE.write_text(f"{before}{BEGIN}\n\n{figures}\n\n{END}{after}")
    print(f"{PICTURE} and {PAGE}: from {latest}")


if __name__ == "__main__":
    main()
