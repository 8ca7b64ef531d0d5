"""Inference over gRPC by tritonclient, a process of its own: the service beside Triton.

Connections stay open while a size is measured. Clients and servers run where :mod:`.latency` has
them.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

from ..peers.protocols import Call
from ..peers.targets import KIB, MIB, TRITON
from .blocks import FAULTS, in_turn, on_cores, summary
from .client import Address, Arena, Refused
from .latency import FREE, placed, placements
from .memory import growth
from .processes import LOGS, Server, pin

TRITONCLIENT = "tritonclient.grpc"
#: Where tritonclient is: it wants another protobuf than the tests do.
PYTHON = TRITON / "bin" / "python"
PACKAGES = ("tritonclient", "grpcio", "protobuf")
#: Those that are asked, and their programs.
SERVICE, TRITON_GRPC = "the service, gRPC", "Triton 2.51, Python backend, gRPC"
OVER_GRPC = {SERVICE: "service", TRITON_GRPC: "triton-grpc"}


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


@dataclass(frozen=True)
class Client:
    """A client's connection to a server."""

    #: For so many seconds: the seconds of a request, and how many there were.
    ask: Callable[[float], tuple[float, int]]
    #: Has the client run on these cores only.
    pin: Callable[[Iterable[int]], None]


def measure(
    running: Mapping[str, Server], missing: dict[str, str], *, quick: bool
) -> list[dict[str, Any]]:
    """Every load on every server; what did not stand a load is put in ``missing``."""
    rows = []
    there = {name: running[program] for name, program in OVER_GRPC.items() if program in running}
    for load in LOADS:
        with ExitStack() as stack:
            clients: dict[str, Client] = {}
            for name, server in there.items():
                try:
                    clients[name] = stack.enter_context(
                        connected(server.address, load.nbytes, load.streams, load.warm_up)
                    )
                except FAULTS as fault:
                    missing[f"{name}, {load.streams} x {load.nbytes} bytes"] = str(fault)
            blocks = {
                (name, load.nbytes, load.streams, placement): partial(
                    block, clients[name], there[name], placement, load.seconds
                )
                for placement, name in product(load.placements, clients)
            }
            rounds = QUICK_ROUNDS if quick else load.rounds
            for (name, nbytes, streams, placement), found in in_turn(
                blocks, rounds, missing
            ).items():
                about = {"client": TRITONCLIENT, "target": name, "bytes": nbytes}
                rows.append({**about, "streams": streams, "placement": placement, **summary(found)})
    return rows


def block(client: Client, server: Server, placement: str, seconds: float) -> tuple[float, float]:
    with placed(server, placement, client.pin):
        return on_cores(server, partial(client.ask, seconds))


def memory(running: Mapping[str, Server], arena: Arena) -> list[dict[str, Any]]:
    """How far each server's peak rises with a call."""

    @contextmanager
    def connect(address: Address, _: Arena, nbytes: int) -> Iterator[Call]:
        with connected(address, nbytes, 1, 1) as client:
            yield partial(client.ask, 0)

    return [
        growth(name, program, connect, arena, PAYLOAD)
        for name, program in OVER_GRPC.items()
        if program in running
    ]


def versions() -> dict[str, str]:
    """Of tritonclient and what it stands on."""
    program = f"""
import json
from importlib.metadata import version
print(json.dumps({{name: version(name) for name in {PACKAGES}}}))
"""
    done = subprocess.run([PYTHON, "-c", program], capture_output=True, check=True)
    found: dict[str, str] = json.loads(done.stdout)
    return found


@contextmanager
def connected(
    address: Address,
    nbytes: int,
    streams: int,
    warm_up: int,
    program: tuple[Path, str] = (PYTHON, "bench.peers.triton_client"),
) -> Iterator[Client]:
    """A client in a process of its own, an interpreter's module, that has had right answers."""
    python, module = program
    log = LOGS / f"{module}-{Path(str(address)).name}.log"
    arguments = map(str, (address, nbytes, streams, warm_up))
    with (
        log.open("wb") as errors,
        subprocess.Popen(
            [python, "-m", module, *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
        ) as process,
    ):
        requests, answers = process.stdin, process.stdout
        assert requests is not None
        assert answers is not None

        def told() -> Any:
            if line := answers.readline():
                return json.loads(line)
            raise Refused(f"{module} ended; see {log}")

        def ask(seconds: float) -> tuple[float, int]:
            print(seconds, file=requests, flush=True)
            median, number = told()
            return median, number

        told()
        yield Client(ask, partial(pin, process.pid))
