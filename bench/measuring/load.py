"""Many connections: requests a second, by a load generator written in C."""

from __future__ import annotations

import statistics
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from ..load_generator.generator import GENERATOR, LoadFailed, LoadGenerator, Outcome
from ..peers.targets import KIB, MIB, UNDER_LOAD, Target
from .blocks import in_turn
from .client import Arena
from .processes import Server

#: Connections, and bytes of each of their tensors.
LOADS = ((1, KIB), (8, KIB), (64, KIB), (8, 64 * KIB), (64, 64 * KIB), (8, MIB))
#: Of an id, in the load generator too.
DIGITS = 16
SECONDS = 0.6
ROUNDS = 3


@dataclass(frozen=True)
class Wire:
    """A request as it goes over the wire."""

    data: bytes
    #: Where in the data are DIGITS hex digits that differ from request to request.
    offsets: tuple[int, ...] = ()


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
    for connections, nbytes in LOADS if is_there(missing) else ():

        def ask(target: Target, connections: int = connections, nbytes: int = nbytes) -> Outcome:
            assert target.head is not None
            requests = Wire(bytes(arena.request(target.head(nbytes), nbytes)))
            return block(running[target.program], requests, connections, SECONDS)

        blocks = {
            (target.name, f"{connections} x {nbytes} bytes"): partial(ask, target)
            for target in UNDER_LOAD
            if target in targets and nbytes <= target.to_bytes
        }
        for (name, _), results in in_turn(blocks, rounds, missing).items():
            rates = [result.rate for result in results]
            rows.append(
                {
                    "target": name,
                    "connections": connections,
                    "bytes": nbytes,
                    "best": max(rates),
                    "median": statistics.median(rates),
                    "p99": min(result.p99 for result in results),
                    "rounds": rates,
                }
            )
    return rows


def is_there(missing: dict[str, str]) -> bool:
    """Whether the load generator was compiled."""
    if not GENERATOR.exists():
        missing["many connections"] = "the load generator needs a C compiler"
    return GENERATOR.exists()


def block(server: Server, wire: Wire, connections: int, seconds: float) -> Outcome:
    """What the load generator counts in so many seconds."""
    with LoadGenerator(
        server.address,
        [(wire.data, b"")],
        connections=connections,
        seconds=seconds,
        raw=(0, 0, *wire.offsets),
    ) as generator:
        outcome = generator.outcome()
    if set(outcome.statuses) != {"200"} or outcome.resets or outcome.unanswered:
        raise LoadFailed(f"{outcome}")
    return outcome
