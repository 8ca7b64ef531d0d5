"""What is deployed: the rows of :mod:`.variants`, block by block in turn, over many rounds.

A busy moment then hits all of them alike. A block gives its median; a row's figure is the
median of its blocks'.
"""

from __future__ import annotations

import random
import ssl
import statistics
import time
from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from ..peers.targets import CERTIFICATES, KIB
from ..peers.variants import ON_ONE_CORE, UNDER_LOAD, Variant
from . import load
from .blocks import in_turn
from .client import Arena, Connection
from .latency import ONE_CORE, placed
from .load import DIGITS
from .processes import Server

CONNECTIONS = 64
WARM_UP = 20


@dataclass(frozen=True)
class Effort:
    """Seconds of a block, and how many rounds there are."""

    seconds: float
    rounds: int


ONE = Effort(0.05, 40)
MANY = Effort(0.4, 9)
QUICK_ONE = Effort(0.03, 5)
QUICK_MANY = Effort(0.15, 3)


def measure(
    running: Mapping[str, Server], arena: Arena, missing: dict[str, str], *, quick: bool
) -> list[dict[str, Any]]:
    """One connection on one core, then many on any."""
    one, many = (QUICK_ONE, QUICK_MANY) if quick else (ONE, MANY)

    def seconds(variant: Variant) -> float:
        return round_trip(variant, running[variant.program], arena, one.seconds)

    def rate(variant: Variant) -> float:
        wire, server = variant.wire(arena), running[variant.program]
        return load.block(server, wire, CONNECTIONS, many.seconds).rate

    rows = []
    for variants, ask, rounds, connections, best in (
        (ON_ONE_CORE, seconds, one.rounds, 1, min),
        (UNDER_LOAD if load.is_there(missing) else (), rate, many.rounds, CONNECTIONS, max),
    ):
        blocks = {
            (variant.target.name, variant.requests, connections): partial(ask, variant)
            for variant in variants
            if variant.program in running
        }
        for (target, requests, _), figures in in_turn(blocks, rounds, missing).items():
            rows.append(
                {
                    "target": target,
                    "requests": requests,
                    "bytes": KIB,
                    "connections": connections,
                    "median": statistics.median(figures),
                    "best": best(figures),
                    "rounds": figures,
                }
            )
    return rows


def round_trip(variant: Variant, server: Server, arena: Arena, seconds: float) -> float:
    """The median of one block of requests, client and server on one core."""
    wire = variant.wire(arena)
    request = bytearray(wire.data)
    times: list[float] = []
    clock = time.perf_counter
    tls = ssl.create_default_context(cafile=CERTIFICATES / "ca.pem") if variant.tls else None
    connection = Connection(server.address, arena, tls)
    with closing(connection), placed(server, ONE_CORE):
        ask = connection.exchange
        if bytes(ask(memoryview(request))) != np.rint(arena.tensor(KIB)).tobytes():
            raise SystemExit(f"{variant.name} gives wrong responses")
        end = clock() + seconds
        began = 0.0
        while began < end or len(times) <= WARM_UP:
            for offset in wire.offsets:  # ids, where it has any
                request[offset : offset + DIGITS] = b"%016x" % random.getrandbits(64)
            view = memoryview(request)
            began = clock()
            ask(view)
            times.append(clock() - began)
    return statistics.median(times[WARM_UP:])
