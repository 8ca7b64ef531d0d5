"""Runs rows of the table in docs/reliability.md against a real service.

``python -m walls [ROW[=AMOUNT]]...``, amounts in each row's own unit. Prints each row's
figures; ends with 1 if one was not held.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass

from . import disconnects, load, memory, overload, shutdown, slow
from .verdict import Verdict


@dataclass(frozen=True)
class Row:
    """How a row runs, how much of it if nobody says, and of what."""

    run: Callable[[float], Verdict]
    amount: float
    unit: str


ROWS = {
    "load": Row(load.run, load.MINUTES, "minutes"),
    "overload": Row(overload.run, overload.MINUTES, "minutes"),
    "memory": Row(memory.run, memory.MINUTES, "minutes"),
    "slow": Row(slow.run, slow.CONNECTIONS, "connections"),
    "disconnects": Row(disconnects.run, disconnects.ABORTS, "aborts"),
    "shutdown": Row(shutdown.run, shutdown.ROUNDS, "rounds"),
}


def main() -> int:
    parser = argparse.ArgumentParser(prog="walls", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("rows", nargs="*", metavar="ROW[=AMOUNT]", help=", ".join(ROWS))
    parser.add_argument("--minutes", type=float, help="for the rows that are told in minutes")
    options = parser.parse_args()
    broken = 0
    for asked in options.rows or ROWS:
        name, _, amount = asked.partition("=")
        if name not in ROWS:
            parser.error(f"{name} is none of {', '.join(ROWS)}")
        row = ROWS[name]
        minutes = options.minutes if row.unit == "minutes" else None
        broken += not _is_held(name, row, float(amount or minutes or row.amount))
    return 1 if broken else 0


def _is_held(name: str, row: Row, amount: float) -> bool:
    began = time.monotonic()
    verdict = row.run(amount)
    state = "NOT held" if verdict.faults else "held"
    print(f"{name}: {state} ({time.monotonic() - began:.0f} s): {verdict.figures}", flush=True)
    for fault in verdict.faults:
        print(f"  {fault}", flush=True)
    return not verdict.faults


if __name__ == "__main__":
    sys.exit(main())
