"""Load tests, stress tests and fuzzers: rows of the table in docs/reliability.md.

    python -m stress [ROW[=AMOUNT]]...

Amounts are in each row's own unit. Prints each row's figures; ends with 1 if one was not held.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from fuzz import guided, openapi, parsers, raw_http
from fuzz.http2 import run as http2
from fuzz.mixes import run as mixes

from . import edge, loads, network, slow_clients, stops, streams, traffic
from .metrics import Report


@dataclass(frozen=True)
class Row:
    """How a row runs, and how much of it by default, in which unit."""

    run: Callable[[float], Report]
    amount: float
    unit: str


def table(seed: int, workers: int) -> dict[str, Row]:
    """Every row, by name."""
    return {
        "load": Row(loads.load, 10, "minutes"),
        "overload": Row(loads.overload, 2, "minutes"),
        "memory": Row(loads.memory, 1, "minutes"),
        "slow-clients": Row(slow_clients.run, 1000, "connections"),
        "shutdown": Row(stops.shutdown, 50, "rounds"),
        "stops-grpc": Row(partial(stops.stops_grpc, seed=seed), 1000, "stops"),
        "edge": Row(edge.run, 5, "seconds an attack"),
        "streams": Row(partial(streams.run, seed=seed), 1000, "connections"),
        "traffic": Row(partial(traffic.run, seed=seed, workers=workers), 20, "minutes"),
        "network": Row(partial(network.run, seed=seed), 3, "minutes"),
        "payloads": Row(partial(parsers.run, seed=seed), 1_000_000, "inputs"),
        "coverage": Row(partial(guided.run, seed=seed), 30, "seconds a reader"),
        "http": Row(partial(raw_http.run, seed=seed), 200_000, "requests"),
        "http2": Row(partial(http2.run, seed=seed, workers=workers), 1_000_000, "sequences"),
        "mixes": Row(partial(mixes.run, seed=seed), 4000, "connections"),
        "api": Row(partial(openapi.run, seed=seed), 300, "examples an operation"),
    }


def main() -> int:
    rows = ", ".join(f"{name}={row.amount:.0f} {row.unit}" for name, row in table(1, 1).items())
    parser = argparse.ArgumentParser(prog="stress", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("rows", nargs="*", metavar="ROW[=AMOUNT]", help=rows)
    parser.add_argument("--seed", type=int, default=1, help="of what is drawn by chance")
    parser.add_argument(
        "--workers", type=int, default=1, help="of the service in traffic, and processes of http2"
    )
    options = parser.parse_args()
    known = table(options.seed, options.workers)
    reports = []
    for name, _, amount in (asked.partition("=") for asked in options.rows or known):
        if name not in known:
            parser.error(f"{name} is none of {', '.join(known)}")
        began = time.monotonic()
        reports.append(known[name].run(float(amount or known[name].amount)))
        print(reports[-1].text(f"{name} ({time.monotonic() - began:.0f} s)"), flush=True)
    return 1 if any(report.faults for report in reports) else 0


if __name__ == "__main__":
    sys.exit(main())
