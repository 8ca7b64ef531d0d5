"""Inference over gRPC, by a raw client and by tritonclient: the service beside Triton.

Connections stay open while a size is measured. A block goes to each server from each client in
turn, the other way round in every second round; a row's figure is the median of its blocks'.
Clients and servers run where :mod:`.latency` has them.
"""

from __future__ import annotations

import json
import statistics
import subprocess
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import product
from typing import Any, TypeAlias

import numpy as np

from ..peers.grpc import over_grpc
from ..peers.targets import KIB, MIB, OVER_GRPC, TRITON, Target
from .blocks import at_once, block
from .client import Arena, Refused
from .latency import FREE, pin_this, placed, placements
from .processes import LOGS, Server, pin

RAW = "raw client"
TRITONCLIENT = "tritonclient.grpc"
#: Where tritonclient is: it wants another protobuf than the tests do.
PYTHON = TRITON / "bin" / "python"
PACKAGES = ("tritonclient", "grpcio", "protobuf")
#: What fails with a server that does not do its part.
FAULTS = (Refused, OSError)


@dataclass(frozen=True)
class Connected:
    """A client's connection to a server."""

    #: For so many seconds: the seconds of a request, and how many there were.
    ask: Callable[[float], tuple[float, int]]
    #: Has the client run on these cores only.
    pin: Callable[[Iterable[int]], None]


@dataclass(frozen=True)
class Load:
    """A tensor's size, how many calls are under way at once, and how long that is measured."""

    nbytes: int
    streams: int
    seconds: float
    rounds: int
    warm_up: int

    @property
    def placements(self) -> tuple[str, ...]:
        """Calls at once run where the system puts them, as connections under load do."""
        return placements(self.nbytes) if self.streams == 1 else (FREE,)


#: Connects a client to a server, for a load.
Client: TypeAlias = Callable[[Server, Arena, Load], AbstractContextManager[Connected]]
#: What is asked in turn: a client, a target, and where they run.
Turn: TypeAlias = tuple[str, Target, str]

LOADS = (
    Load(KIB, 1, 0.12, 15, 50),
    Load(64 * KIB, 1, 0.12, 15, 30),
    Load(MIB, 1, 0.2, 11, 10),
    Load(16 * MIB, 1, 0.4, 9, 3),
    Load(64 * MIB, 1, 0.8, 9, 2),
    Load(MIB, 16, 0.4, 11, 10),
)
#: What the memory of a call is measured with.
PAYLOAD = 64 * MIB
QUICK_ROUNDS = 3


@dataclass
class Row:
    """What one client got of one server: in each round, the median of a block."""

    client: str
    target: str
    placement: str
    load: Load
    seconds: list[float] = field(default_factory=list)
    #: The server's time on a core for one request.
    server_cpu: list[float] = field(default_factory=list)

    def result(self) -> dict[str, Any]:
        return {
            "client": self.client,
            "target": self.target,
            "bytes": self.load.nbytes,
            "streams": self.load.streams,
            "placement": self.placement,
            "median": statistics.median(self.seconds),
            "best": min(self.seconds),
            "server_cpu": statistics.median(self.server_cpu),
            "rounds": self.seconds,
        }


def measure(
    running: Mapping[str, Server],
    targets: Collection[Target],
    arena: Arena,
    missing: dict[str, str],
    *,
    quick: bool,
) -> list[dict[str, Any]]:
    """Every load on every server by every client.

    Who did not stand which load is put in ``missing``.
    """
    clients: dict[str, Client] = {RAW: raw}
    if PYTHON.exists():
        clients[TRITONCLIENT] = by_tritonclient
    else:
        missing[TRITONCLIENT] = "not installed: make bench PEERS=1"
    there = [target for target in OVER_GRPC if target in targets]
    found: list[dict[str, Any]] = []
    for load in LOADS:
        asked = replace(load, rounds=QUICK_ROUNDS) if quick else load
        with ExitStack() as stack:
            connections: dict[tuple[str, Target], Connected] = {}
            for (client, opened), target in product(clients.items(), there):
                connected = opened(running[target.program], arena, load)
                try:
                    connections[client, target] = stack.enter_context(connected)
                except FAULTS as fault:
                    missing[name(client, target, load)] = str(fault)
            found += in_turn(connections, running, asked, missing)
    return found


def versions() -> dict[str, str]:
    """Of tritonclient and what it stands on; none where it is not installed."""
    if not PYTHON.exists():
        return {}
    program = f"""
import json
from importlib.metadata import version
print(json.dumps({{name: version(name) for name in {PACKAGES}}}))
"""
    done = subprocess.run([PYTHON, "-c", program], capture_output=True, check=True)
    found: dict[str, str] = json.loads(done.stdout)
    return found


def name(client: str, target: Target, load: Load) -> str:
    return f"{target.name}, {client}, {load.streams} x {load.nbytes} bytes"


def in_turn(
    connections: Mapping[tuple[str, Target], Connected],
    running: Mapping[str, Server],
    load: Load,
    missing: dict[str, str],
) -> list[dict[str, Any]]:
    """A block of each in turn, in every second round the other way round."""
    rows: dict[Turn, Row] = {
        (client, target, placement): Row(client, target.name, placement, load)
        for placement, (client, target) in product(load.placements, connections)
    }
    for number in range(load.rounds):
        for turn in list(rows)[:: 1 if number % 2 == 0 else -1]:
            client, target, placement = turn
            server, connection = running[target.program], connections[client, target]
            try:
                with placed(server, placement, connection.pin):
                    busy = server.cpu_seconds()
                    seconds, count = connection.ask(load.seconds)
                    busy = server.cpu_seconds() - busy
            except FAULTS as fault:
                missing[name(client, target, load)] = str(fault)
                del rows[turn]
            else:
                rows[turn].seconds.append(seconds)
                rows[turn].server_cpu.append(busy / count)
    return [row.result() for row in rows.values()]


@contextmanager
def raw(server: Server, arena: Arena, load: Load) -> Iterator[Connected]:
    """The client of :mod:`..peers.grpc`, in this process."""
    expected = np.rint(arena.tensor(load.nbytes)).view(np.uint8)
    with over_grpc(server.address, arena, load.nbytes, load.streams) as calls:
        for _ in range(load.warm_up):
            calls()
        at_once(calls, load.streams, 0)
        for place in range(load.streams):
            response = np.frombuffer(calls.response(place), np.uint8)[-load.nbytes :]
            if not np.array_equal(response, expected):
                raise SystemExit(f"{server.name} gives wrong responses of {load.nbytes} bytes")
        yield Connected(partial(block, calls, load.streams), pin_this)


@contextmanager
def by_tritonclient(server: Server, arena: Arena, load: Load) -> Iterator[Connected]:
    """:mod:`..peers.triton_client`, a process of its own."""
    arguments = (server.address, load.nbytes, load.streams, load.warm_up)
    log = LOGS / f"{server.name}-client.log"
    with (
        log.open("wb") as errors,
        subprocess.Popen(
            [PYTHON, "-m", "bench.peers.triton_client", *map(str, arguments)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
        ) as process,
    ):
        assert process.stdin is not None
        assert process.stdout is not None
        requests, answers = process.stdin, process.stdout

        def told() -> Any:
            if line := answers.readline():
                return json.loads(line)
            raise Refused(f"{TRITONCLIENT} ended; see {log}")

        def ask(seconds: float) -> tuple[float, int]:
            print(seconds, file=requests, flush=True)
            median, number = told()
            return median, number

        told()
        yield Connected(ask, partial(pin, process.pid))
