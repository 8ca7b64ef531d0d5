"""One connection: how long a round trip takes, target by target, in alternating rounds."""

from __future__ import annotations

import os
import statistics
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ..peers.protocols import Call
from ..peers.targets import KIB, MIB, TARGETS, Target
from .blocks import one_by_one
from .client import Arena
from .processes import ALL_CORES, Server


@dataclass(frozen=True)
class Size:
    """A tensor's size, and how long one block of requests of it takes."""

    nbytes: int
    seconds: float
    rounds: int
    warm_up: int


SIZES: tuple[Size, ...] = (
    Size(KIB, 0.12, 6, 50),
    Size(64 * KIB, 0.12, 6, 30),
    Size(MIB, 0.15, 6, 10),
    Size(16 * MIB, 0.3, 5, 3),
    Size(64 * MIB, 0.5, 5, 2),
    Size(256 * MIB, 1.0, 2, 1),
)
#: Where client and server run. To wake a sleeper on another core takes longer than a small
#: round trip, and in a shared cache a copy is cheap: left to the scheduler, results would
#: have two humps. So small sizes are measured both ways, and only large ones left free.
ONE_CORE = "one core"
OWN_CORES = "own cores"
FREE = "free"
PLACED_BYTES = MIB


@dataclass
class Row:
    """What one target did with one size."""

    target: str
    nbytes: int
    placement: str
    #: The median of each round, in seconds.
    medians: list[float] = field(default_factory=list)
    #: The server's time on a core for one request, in each round, in seconds.
    server_cpu: list[float] = field(default_factory=list)

    def result(self) -> dict[str, Any]:
        return {
            "target": self.target,
            "bytes": self.nbytes,
            "placement": self.placement,
            "best": min(self.medians),
            "median": statistics.median(self.medians),
            "server_cpu": min(self.server_cpu),
            "rounds": self.medians,
        }


def measure(
    running: Mapping[str, Server],
    targets: Collection[Target],
    arena: Arena,
    sizes: tuple[Size, ...],
) -> list[dict[str, Any]]:
    """Every target with every size: a block of requests each, round after round."""
    rows: dict[tuple[str, int, str], Row] = {}
    for size in sizes:
        expected = np.rint(arena.tensor(size.nbytes)).view(np.uint8)
        for number in range(size.rounds):
            for placement, target in turns(targets, size):
                key = (target.name, size.nbytes, placement)
                row = rows.setdefault(key, Row(*key))
                server = running[target.program]
                with (
                    target.connect(server.address, arena, size.nbytes) as call,
                    placed(server, placement),
                ):
                    if number == 0:
                        check(call, expected, target)
                    block(call, size, server, row)
    return [row.result() for row in rows.values()]


def turns(targets: Collection[Target], size: Size) -> Iterator[tuple[str, Target]]:
    """Who is measured in a round, in turn."""
    for placement in placements(size.nbytes):
        for target in TARGETS:
            if target in targets and target.from_bytes <= size.nbytes <= target.to_bytes:
                yield placement, target


def placements(nbytes: int) -> tuple[str, ...]:
    """Where client and server run with tensors of that size."""
    return (ONE_CORE, OWN_CORES) if nbytes <= PLACED_BYTES else (FREE,)


def pin_this(cores: Iterable[int]) -> None:
    """Let the client in this process run on these cores only."""
    os.sched_setaffinity(0, cores)


@contextmanager
def placed(
    server: Server, placement: str, pin_client: Callable[[Iterable[int]], None] = pin_this
) -> Iterator[None]:
    """Client and server on these cores, for a while."""
    first, *others = sorted(ALL_CORES)
    client_cores = ALL_CORES if placement == FREE else {first}
    server_cores = set(others) or ALL_CORES if placement == OWN_CORES else client_cores
    pin_client(client_cores)
    server.pin(server_cores)
    try:
        yield
    finally:
        pin_client(ALL_CORES)
        server.pin(ALL_CORES)


def block(call: Call, size: Size, server: Server, row: Row) -> None:
    """One block of requests; its median goes to the row."""
    for _ in range(size.warm_up):
        call()
    busy = server.cpu_seconds()
    times = one_by_one(call, size.seconds)
    row.medians.append(statistics.median(times))
    row.server_cpu.append((server.cpu_seconds() - busy) / len(times))


def check(call: Call, expected: np.ndarray[Any, Any], target: Target) -> None:
    response = np.frombuffer(call(), np.uint8)[-expected.size :]
    if not np.array_equal(response, expected):
        raise SystemExit(f"{target.name} gives wrong responses of {expected.size} bytes")
