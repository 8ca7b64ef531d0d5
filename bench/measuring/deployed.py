"""What is deployed: the rows of :mod:`.variants`, block by block in turn, over many rounds.

A busy moment then hits all of them alike. A block gives its median; a row's figure is the
median of its blocks'.
"""

from __future__ import annotations

import random
import ssl
import statistics
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from ..load_generator.generator import LoadFailed
from ..peers.targets import CERTIFICATES, KIB
from ..peers.variants import ON_ONE_CORE, UNDER_LOAD, Variant
from . import load
from .client import Arena, Connection, Refused
from .latency import ONE_CORE, placed
from .load import DIGITS, Wire
from .processes import Server

CONNECTIONS = 64
WARM_UP = 20

#: One block of one variant: seconds of a request, or requests a second.
Block: TypeAlias = Callable[[Variant, Server], float]


@dataclass(frozen=True)
class Effort:
    """Seconds of a block, and how many rounds there are."""

    seconds: float
    rounds: int


ONE = Effort(0.05, 40)
MANY = Effort(0.4, 9)
QUICK_ONE = Effort(0.03, 5)
QUICK_MANY = Effort(0.15, 3)


class Rows:
    """The rows of a run, as far as their servers are there and do their part."""

    def __init__(self, running: Mapping[str, Server], missing: dict[str, str]) -> None:
        self._running = running
        self._missing = missing

    def measure(
        self, variants: Sequence[Variant], block: Block, number: int, **about: Any
    ) -> Iterator[dict[str, Any]]:
        """A block of each in turn, in every second round the other way round."""
        blocks: dict[Variant, list[float]] = {
            variant: [] for variant in variants if variant.program in self._running
        }
        for turn in range(number):
            for variant in list(blocks)[:: 1 if turn % 2 == 0 else -1]:
                try:
                    figure = block(variant, self._running[variant.program])
                except (Refused, LoadFailed, OSError) as fault:
                    self._missing[variant.name] = str(fault)
                    del blocks[variant]
                else:
                    blocks[variant].append(figure)
        for variant, figures in blocks.items():
            yield {
                "target": variant.target.name,
                "requests": variant.requests,
                "bytes": KIB,
                **about,
                "median": statistics.median(figures),
                "best": min(figures) if about["connections"] == 1 else max(figures),
                "rounds": figures,
            }


def measure(
    running: Mapping[str, Server], arena: Arena, missing: dict[str, str], *, quick: bool
) -> list[dict[str, Any]]:
    """One connection on one core, then many on any."""
    one, many = (QUICK_ONE, QUICK_MANY) if quick else (ONE, MANY)

    def seconds(variant: Variant, server: Server) -> float:
        return round_trip(variant, server, arena, one.seconds)

    def rate(variant: Variant, server: Server) -> float:
        wire = variant.wire(arena)
        return load.block(server.address, wire, CONNECTIONS, many.seconds).rate

    rows = Rows(running, missing)
    found = list(rows.measure(ON_ONE_CORE, seconds, one.rounds, connections=1))
    if load.is_there(missing):
        found += rows.measure(UNDER_LOAD, rate, many.rounds, connections=CONNECTIONS)
    return found


def round_trip(variant: Variant, server: Server, arena: Arena, seconds: float) -> float:
    """The median of one block of requests, client and server on one core."""
    wire = variant.wire(arena)
    request = bytearray(wire.data)
    times: list[float] = []
    clock = time.perf_counter
    with asked(variant, server, arena) as ask, placed(server, ONE_CORE):
        check(ask(memoryview(request)), arena, variant)
        for _ in range(WARM_UP):
            renumber(request, wire)
            ask(memoryview(request))
        end = clock() + seconds
        began = 0.0
        while began < end:
            renumber(request, wire)
            view = memoryview(request)
            began = clock()
            ask(view)
            times.append(clock() - began)
    return statistics.median(times)


@contextmanager
def asked(
    variant: Variant, server: Server, arena: Arena
) -> Iterator[Callable[[memoryview], memoryview]]:
    """Over a connection: a request in, the tensor of the response out."""
    wire = variant.wire(arena)
    tls = ssl.create_default_context(cafile=CERTIFICATES / "ca.pem") if variant.tls else None
    connection = Connection(server.address, arena, tls)

    def raw(request: memoryview) -> memoryview:
        connection.send(request)
        return connection.receive(wire.response_bytes)

    try:
        connection.send(wire.prefix)
        yield raw if wire.response_bytes else connection.exchange
    finally:
        connection.close()


def renumber(request: bytearray, wire: Wire) -> None:
    """Give the request ids of its own, where it has any."""
    for offset in wire.offsets:
        request[offset : offset + DIGITS] = b"%016x" % random.getrandbits(64)


def check(response: memoryview, arena: Arena, variant: Variant) -> None:
    if bytes(response) != np.rint(arena.tensor(KIB)).tobytes():
        raise SystemExit(f"{variant.name} gives wrong responses")
