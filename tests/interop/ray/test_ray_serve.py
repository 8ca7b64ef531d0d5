"""deploy/ray/serve.py on a real local cluster, called by the default client."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import tensor_round as tr
from support.services.server import Service

ROOT = Path(__file__).parents[3]
URL = "http://127.0.0.1:8123"
#: Seconds under load before a replica is killed, and rounds of a measurement.
SECONDS, ROUNDS = 4.0, 5
PROGRAM = """
import signal, ray
from ray import serve
ray.init(include_dashboard=False, num_cpus=4, log_to_driver=False)
serve.start(http_options={"host": "127.0.0.1", "port": 8123})
from serve import app
serve.run(app)
print("ready", flush=True)
signal.pause()
"""


@pytest.fixture
def cluster(request: pytest.FixtureRequest) -> Iterator[str]:
    """A cluster with two replicas, behind Ray's own proxy or behind its HAProxy."""
    environment = {
        **{name: value for name, value in os.environ.items() if name != "PYTHONWARNINGS"},
        **{"RAY_ADDRESS": "local", "RAY_USAGE_STATS_ENABLED": "0"},
        # Where `serve run` finds the program, and takes it to the workers.
        "PYTHONPATH": str(ROOT / "deploy" / "ray"),
        "RAY_SERVE_ENABLE_HA_PROXY": str(int(request.param == "haproxy")),
    }
    process = subprocess.Popen(
        [sys.executable, "-c", PROGRAM], env=environment, stdout=subprocess.PIPE, text=True
    )
    try:
        assert process.stdout is not None
        assert any("ready" in line for line in process.stdout), "the cluster did not start"
        with tr.Client(URL) as client:
            deadline = time.monotonic() + 60
            while not client.ready():
                assert time.monotonic() < deadline
                time.sleep(0.2)
        yield request.param
    finally:
        process.terminate()
        process.wait(60)
        if process.stdout is not None:
            process.stdout.close()


def replicas() -> list[int]:
    """The processes of the replicas."""
    found = subprocess.run(["pgrep", "-f", "ray::ServeReplica"], capture_output=True, text=True)
    return [int(line) for line in found.stdout.split()]


class Callers:
    """Threads that round the same tensor again and again, each with the default client."""

    def __init__(self, url: str, count: int, elements: int) -> None:
        self.done, self.failures = [0] * count, list[BaseException]()
        self._url, self._stop = url, threading.Event()
        self._x = np.random.default_rng(1).normal(scale=9, size=elements).astype(np.float32)
        self._threads = [threading.Thread(target=self._call, args=(n,)) for n in range(count)]

    def __enter__(self) -> Callers:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join(60)

    def _call(self, caller: int) -> None:
        want = np.rint(self._x).tobytes()
        try:
            with tr.Client(self._url, timeout=30) as client:
                while not self._stop.is_set():
                    assert client.round(self._x).tobytes() == want
                    self.done[caller] += 1
        except BaseException as error:
            self.failures.append(error)


@pytest.mark.parametrize("cluster", ["haproxy"], indirect=True)
def test_no_call_is_lost_while_a_replica_is_killed(cluster: str) -> None:
    with Callers(URL, 8, 1 << 14) as callers:
        time.sleep(SECONDS)
        victims = replicas()
        assert len(victims) == 2
        os.kill(victims[0], signal.SIGKILL)
        time.sleep(2 * SECONDS)
    print(f"{sum(callers.done)} calls, {len(callers.failures)} lost")
    assert not callers.failures
    assert min(callers.done) > 10
    assert victims[0] not in replicas()


@pytest.mark.parametrize("cluster", ["haproxy", "proxy"], indirect=True)
def test_tensors_are_right_at_what_ray_costs(cluster: str) -> None:
    """With ``-s`` it prints the table of docs/deploy.md: calls a second, the median of rounds."""
    with Service() as plain:
        for count, elements in ((1, 256), (8, 256), (1, 1 << 18), (8, 1 << 18)):
            rates: dict[str, list[float]] = {"plain": [], cluster: []}
            for _ in range(ROUNDS):
                for name, url in (("plain", plain.url), (cluster, URL)):
                    began = time.monotonic()
                    with Callers(url, count, elements) as callers:
                        time.sleep(1)
                    rates[name].append(sum(callers.done) / (time.monotonic() - began))
                    assert not callers.failures
            medians = {name: round(float(np.median(some))) for name, some in rates.items()}
            print(f"{count} callers, {elements * 4} bytes: {medians} calls a second")
