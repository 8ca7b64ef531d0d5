"""One connection: how long a round trip takes, target by target, in alternating rounds."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from ..peers.targets import KIB, MIB, TARGETS, Target
from .blocks import in_turn, on_cores, one_by_one, summary
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


def measure(
    running: Mapping[str, Server],
    targets: Collection[Target],
    arena: Arena,
    sizes: tuple[Size, ...],
    missing: dict[str, str],
) -> list[dict[str, Any]]:
    """Every target with every size: a block of requests each, round after round."""
    rows = []
    for size in sizes:
        blocks = {
            (target.name, size.nbytes, placement): partial(
                block, target, running[target.program], placement, arena, size
            )
            for placement in placements(size.nbytes)
            for target in TARGETS
            if target in targets and size.nbytes <= target.to_bytes
        }
        for (name, nbytes, placement), found in in_turn(blocks, size.rounds, missing).items():
            about = {"target": name, "bytes": nbytes, "placement": placement}
            rows.append({**about, **summary(found)})
    return rows


def block(
    target: Target, server: Server, placement: str, arena: Arena, size: Size
) -> tuple[float, float]:
    """One block of requests, of which the first is compared with NumPy's result."""
    with (
        target.connect(server.address, arena, size.nbytes) as call,
        placed(server, placement),
    ):
        response = np.frombuffer(call(), np.uint8)[-size.nbytes :]
        if not np.array_equal(response, np.rint(arena.tensor(size.nbytes)).view(np.uint8)):
            raise SystemExit(f"{target.name} gives wrong responses of {size.nbytes} bytes")
        for _ in range(size.warm_up):
            call()
        return on_cores(server, partial(one_by_one, call, size.seconds))


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
