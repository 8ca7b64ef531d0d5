"""A replica on a Ray cluster beside the plain service, and what Ray takes itself.

    python -m bench.measuring.fleet [ROUNDS]

Both serve with one worker, are started with the same settings and are asked in turn, in blocks.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.request import urlopen

from ray.cluster_utils import Cluster

from ..load_generator.generator import LoadGenerator, Outcome
from ..peers.protocols import native_head
from ..peers.targets import KIB, MIB
from .client import Arena
from .proc import family, status, threads
from .processes import LOGS, free_port, wait_until_listening

#: Connections, bytes of their tensors, seconds of a block.
LOADS = ((1, KIB, 0.4), (8, KIB, 0.4), (1, MIB, 0.4), (8, MIB, 0.4), (1, 64 * MIB, 1.0))
NODE = {"num_cpus": 1, "object_store_memory": 80 << 20}
IDLE_SECONDS = 20.0
SETTINGS = {
    "TENSOR_ROUND_BACKEND": "numpy",
    "TENSOR_ROUND_MAX_BYTES_IN_FLIGHT": "1GiB",
    "RAY_USAGE_STATS_ENABLED": "0",
}


def main() -> None:
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 25
    os.environ.update(SETTINGS)
    LOGS.mkdir(parents=True, exist_ok=True)
    cluster = Cluster(initialize_head=True, head_node_args={**NODE, "include_dashboard": False})
    try:
        cluster.add_node(**NODE)
        with fleet(cluster.address) as replica, plain(replica.rpartition(":")[0]) as beside:
            table({"plain": beside, "replica": replica}, rounds)
            idle(family(os.getpid()))
    finally:
        cluster.shutdown()


@contextmanager
def fleet(address: str) -> Iterator[str]:
    """A fleet of one replica; its address and port."""
    port = free_port()
    command = [sys.executable, "-m", "tensor_round_service", "ray", "--address", address]
    with (LOGS / "fleet.log").open("wb") as log:
        controller = subprocess.Popen(
            [*command, "--directory-port", str(port)], stdout=log, stderr=log
        )
    try:
        while not (urls := replicas(port)):
            assert controller.poll() is None, "see the log"
            time.sleep(0.1)
        yield urls[0].removeprefix("http://")
    finally:
        controller.terminate()
        controller.wait()


def replicas(port: int) -> list[str]:
    try:
        with urlopen(f"http://127.0.0.1:{port}/replicas") as response:
            return [replica["url"] for replica in json.load(response)["replicas"]]
    except OSError:
        return []


@contextmanager
def plain(host: str) -> Iterator[str]:
    """The service as such; its address and port.

    In this session, as Ray is: Linux shares cores among sessions before it does among processes.
    """
    port = free_port()
    options = ("--host", "0.0.0.0", "--port", str(port))
    path = LOGS / "plain.log"
    with path.open("wb") as log:
        command = [sys.executable, "-m", "tensor_round_service", *options]
        process = subprocess.Popen(command, stdout=log, stderr=log)
    try:
        wait_until_listening(process, port, path)
        yield f"{host}:{port}"
    finally:
        process.terminate()
        process.wait()


def table(addresses: dict[str, str], rounds: int) -> None:
    """Medians of all rounds: requests a second, and the server's CPU time for each.

    The rates are only comparable on a quiet machine; the CPU time nearly always is.
    """
    arena = Arena(64 * MIB)
    pids = {name: listening_on(address) for name, address in addresses.items()}
    print("| connections | tensor | plain | replica | ratio | plain, CPU | replica | ratio |")
    print("|---|---|---|---|---|---|---|---|", flush=True)
    for connections, nbytes, seconds in LOADS:
        exchanges = [(bytes(arena.request(native_head(nbytes), nbytes)), b"")]
        rates: dict[str, list[float]] = {name: [] for name in addresses}
        costs: dict[str, list[float]] = {name: [] for name in addresses}
        for turn in range(rounds):
            # Each is first as often as the other.
            for name in sorted(addresses, reverse=turn % 2 == 1):
                before = cpu_seconds(pids[name])
                outcome = asked(addresses[name], exchanges, connections, seconds)
                rates[name].append(outcome.rate)
                responses = sum(outcome.statuses.values())
                costs[name].append((cpu_seconds(pids[name]) - before) / responses * 1e6)
        size = f"{nbytes // MIB} MiB" if nbytes >= MIB else f"{nbytes // KIB} KiB"
        cells = [*compared(rates, ""), *compared(costs, " µs")]
        print(f"| {connections} | {size} | {' | '.join(cells)} |", flush=True)


def asked(
    address: str, exchanges: list[tuple[bytes, bytes]], connections: int, seconds: float
) -> Outcome:
    """What came of a block of requests, all of which were served."""
    with LoadGenerator(address, exchanges, connections=connections, seconds=seconds) as generator:
        outcome = generator.outcome()
    assert not outcome.faults(), outcome
    return outcome


def compared(measured: dict[str, list[float]], unit: str) -> list[str]:
    plain, replica = measured["plain"], measured["replica"]
    # Of two blocks beside each other: other processes disturb both.
    ratio = statistics.median(b / a for a, b in zip(plain, replica, strict=True))
    medians = (f"{statistics.median(values):,.0f}{unit}" for values in (plain, replica))
    return [*medians, f"{ratio:.0%}"]


def listening_on(address: str) -> int:
    """The process of this one's family that serves there."""
    port = address.rpartition(":")[2]
    for pid in family(os.getpid()):
        command = Path(f"/proc/{pid}/cmdline").read_text()
        variables = Path(f"/proc/{pid}/environ").read_text().split("\0")
        is_replica = "fleet.child" in command and f"TENSOR_ROUND_PORT={port}" in variables
        if is_replica or f"--port\0{port}\0" in command:
            return pid
    raise LookupError(address)


def idle(pids: list[int]) -> None:
    """CPU time and resident memory of each process, while nobody asks."""
    before = {pid: cpu_seconds(pid) for pid in pids}
    time.sleep(IDLE_SECONDS)
    print("\n| process | part of a core | resident MiB |\n|---|---|---|")
    for pid in pids:
        command = Path(f"/proc/{pid}/cmdline").read_text().split("\0")
        name = " ".join(Path(word).name for word in command[:5] if word and word[0] != "-")
        busy = (cpu_seconds(pid) - before[pid]) / IDLE_SECONDS
        print(f"| {name[:60]} | {busy:.1%} | {status(pid)['VmRSS'] >> 10} |")


def cpu_seconds(pid: int) -> float:
    ticks = (
        int(Path(f"/proc/{pid}/task/{thread}/schedstat").read_text().split()[0])
        for thread in threads(pid)
    )
    return sum(ticks) / 1e9


if __name__ == "__main__":
    main()
