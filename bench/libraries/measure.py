"""What the service makes by hand beside the library that does it: the rows of docs/decisions.md."""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from functools import partial
from typing import Any

from ..measuring import grpc, latency
from ..measuring.blocks import in_turn, summary
from ..measuring.client import Arena
from ..measuring.processes import Server
from ..peers import protocols, targets
from ..peers.targets import KIB, LIBRARIES, MIB, Target

CLIENT = (LIBRARIES, "bench.libraries.grpcio_client")
OWN, THEIRS = "own", "theirs"
#: The servers that are asked over gRPC.
PROGRAMS = {OWN: "service-unix", THEIRS: "grpcio"}
CALLS = tuple(
    load for load in grpc.LOADS if load.streams == 1 and load.nbytes in (KIB, MIB, 16 * MIB)
)
TRANSPORTS = (
    Target(OWN, "service", partial(protocols.sdk, into=False)),
    Target(THEIRS, "service", protocols.sdk_by_httpx2),
)
SIZES = tuple(size for size in latency.SIZES if size.nbytes in (KIB, MIB, 64 * MIB))


def measure(arena: Arena, missing: dict[str, str], *, quick: bool) -> list[dict[str, Any]]:
    """The seconds of both, in pairs; what could not be measured is put in ``missing``."""
    if not LIBRARIES.exists():
        missing["libraries"] = "not installed: make bench ARGS='--only libraries'"
        return []
    rounds = 3 if quick else 15
    with targets.servers({*PROGRAMS.values(), "service"}) as (running, others):
        missing |= others
        return [
            *inside(rounds),
            *over_grpc(running, rounds, missing),
            *transports(running, arena, rounds, missing),
        ]


def inside(rounds: int) -> list[dict[str, Any]]:
    """Those that need no other process."""
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run(
            [LIBRARIES, "-m", "bench.libraries.inside", str(rounds)],
            env={**os.environ, "PROMETHEUS_MULTIPROC_DIR": folder},
            stdout=subprocess.PIPE,
            check=True,
        )
    rows: list[dict[str, Any]] = json.loads(done.stdout)
    return rows


def over_grpc(
    running: Mapping[str, Server], rounds: int, missing: dict[str, str]
) -> Iterator[dict[str, Any]]:
    """Calls on a Unix socket by grpcio's client, and the core time that each costs the server."""
    library = "grpcio's asyncio server, Unix socket"
    for load in CALLS:
        with ExitStack() as stack:
            blocks = {}
            for name, program in PROGRAMS.items():
                if server := running.get(program):
                    client = stack.enter_context(
                        grpc.connected(server.address, load.nbytes, 1, load.warm_up, CLIENT)
                    )
                    placement = load.placements[0]
                    blocks[name,] = partial(grpc.block, client, server, placement, load.seconds)
            found = {
                name: summary(rows) for (name,), rows in in_turn(blocks, rounds, missing).items()
            }
        for what, column in (
            ("a call", "median"),
            ("the server's core time, a call", "server_cpu"),
        ):
            seconds = {name: row[column] for name, row in found.items()}
            yield {"library": library, "what": f"{what} of {size(load.nbytes)}", **seconds}


def transports(
    running: Mapping[str, Server], arena: Arena, rounds: int, missing: dict[str, str]
) -> Iterator[dict[str, Any]]:
    """``client.round`` by the client's own transport, and by httpx2's."""
    server = running.get("service")
    for each in SIZES if server else ():
        placement = latency.placements(each.nbytes)[0]
        blocks = {
            (target.name,): partial(latency.block, target, server, placement, arena, each)
            for target in TRANSPORTS
        }
        found = in_turn(blocks, rounds, missing)
        seconds = {name: summary(rows)["median"] for (name,), rows in found.items()}
        yield {"library": "httpx2", "what": f"client.round of {size(each.nbytes)}", **seconds}


def size(nbytes: int) -> str:
    return f"{nbytes // MIB} MiB" if nbytes >= MIB else f"{nbytes // KIB} KiB"
