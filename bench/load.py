"""Many connections: requests a second, by a load generator written in C."""

from __future__ import annotations

import json
import statistics
import subprocess
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

from . import faces
from .client import Arena
from .processes import LOGS, Server
from .servers.floor import LENGTH
from .targets import KIB, MIB, UNDER_LOAD, Target

GENERATOR = Path("build/bench-load")
#: Connections, and bytes of each of their tensors.
LOADS = ((1, KIB), (8, KIB), (64, KIB), (8, 64 * KIB), (64, 64 * KIB), (8, MIB))
SECONDS = 0.6
ROUNDS = 3


class Stalled(Exception):
    """The load generator did not get its answers; it says how far they came."""


def measure(
    running: Mapping[str, Server],
    targets: Collection[Target],
    arena: Arena,
    rounds: int,
    missing: dict[str, str],
) -> list[dict[str, Any]]:
    """Every load on every target: a block each, round after round.

    Which target did not stand which load is put in ``missing``.
    """
    rows: list[dict[str, Any]] = []
    if not GENERATOR.exists():
        missing["many connections"] = "the load generator needs a C compiler"
        return rows
    for connections, nbytes in LOADS:
        blocks: dict[Target, list[dict[str, float]]] = {
            target: [] for target in UNDER_LOAD if target in targets and nbytes <= target.to_bytes
        }
        for _ in range(rounds):
            for target, results in blocks.items():
                try:
                    result = block(running[target.program], target, arena, connections, nbytes)
                except Stalled as stall:
                    missing[f"{target.name}, {connections} x {nbytes} bytes"] = str(stall)
                else:
                    results.append(result)
        for target, results in blocks.items():
            if not results:
                continue
            rates = [result["requests"] / result["seconds"] for result in results]
            rows.append(
                {
                    "target": target.name,
                    "connections": connections,
                    "bytes": nbytes,
                    "best": max(rates),
                    "median": statistics.median(rates),
                    "p99": min(result["p99"] for result in results),
                    "rounds": rates,
                }
            )
    return rows


def block(
    server: Server, target: Target, arena: Arena, connections: int, nbytes: int
) -> dict[str, float]:
    assert target.head is not None
    request = LOGS / "request"
    request.write_bytes(arena.request(target.head(nbytes), nbytes))
    raw = target.face is faces.raw
    command = [
        str(GENERATOR),
        str(server.port),
        str(connections),
        str(SECONDS),
        str(request),
        str(nbytes if raw else 0),
        str(LENGTH.size if raw else 0),
    ]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        raise Stalled(done.stderr.strip())
    result: dict[str, float] = json.loads(done.stdout)
    return result
