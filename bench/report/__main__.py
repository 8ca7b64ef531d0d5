"""Puts the latest results where people read them: docs/bench.svg and docs/performance.md.

The tables of docs/performance.md stand between two marks, and are written from the JSON: the
figures that a user plans with. The JSON and ``make bench`` have all others.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ..measuring.grpc import TRITONCLIENT
from ..measuring.latency import ONE_CORE
from ..peers.targets import ASGI, HERE, LOOP, ROUND, SDK_OUT
from . import plot, results, tables

PICTURE = Path("docs/bench.svg")
PAGE = Path("docs/performance.md")
BEGIN = "<!-- the tables: written by make docs -->"
END = "<!-- the end of the tables -->"


#: The page leaves out who only serves bytes, and columns that say the same by another mean.
NOT_SHOWN = {LOOP.name, ASGI.name, SDK_OUT.name}
LEFT_OUT = {"best", "over heads alike", "where", "over Triton's", "size", "unit"}


def selected(found: dict[str, Any]) -> dict[str, Any]:
    """The rows that the page shows."""
    own = [row for row in found["deployed"] if row["target"] == ROUND.name]
    shown = [row for row in found["latency"] if row["target"] not in NOT_SHOWN]
    return {
        **found,
        "latency": [row for row in shown if row["placement"] != ONE_CORE],
        "load": [row for row in found["load"] if row["target"] not in NOT_SHOWN],
        "deployed": [row for row in own if row["connections"] == 1],
        "grpc": [
            row
            for row in found["grpc"]
            if row["client"] == TRITONCLIENT and row["placement"] != ONE_CORE
        ],
        "kernels": [
            row
            for row in found["kernels"]
            if row["size"] == "64 MiB" and row["rounding"] == "ties_to_even"
        ],
        "casts": [row for row in found.get("casts", []) if row["from"] == "float32"],
        "goals": [],
    }


def main() -> None:
    # Their names begin with the day; those of GPUs, which gpu-check writes, do not.
    latest = max((HERE / "results").glob("[0-9]*.json"))
    found = results.read(latest.read_text())
    PICTURE.write_text(plot.draw(found))
    before, _, rest = PAGE.read_text().partition(BEGIN)
    _, _, after = rest.partition(END)
    picture = f"![Round trips beside each other]({PICTURE.name})"
    met = sum(goal["met"] is True for goal in found["goals"])
    figures = (
        f"{picture}\n\n{tables.title(found)} {met} of {len(found['goals'])} goals are met; "
        f"`make bench` prints them.\n\n{tables.render(selected(found), LEFT_OUT)}"
    )
    PAGE.write_text(f"{before}{BEGIN}\n\n{figures}\n\n{END}{after}")
    print(f"{PICTURE} and {PAGE}: from {latest}")


if __name__ == "__main__":
    main()
