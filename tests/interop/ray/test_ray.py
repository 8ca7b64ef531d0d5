"""deploy/ray/serve.py on a real local cluster, and Ray Data and dask with the engine in them."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import tensor_round as tr
from support.clients import Load
from support.pages import EXAMPLES
from support.services.server import Service

ROOT = Path(__file__).parents[3]
URL = "http://127.0.0.1:8123"
#: A program has a cluster of its own. Ray Data sets options that it has deprecated itself: that
#: is no error here.
ENVIRONMENT = {
    **{name: value for name, value in os.environ.items() if name != "PYTHONWARNINGS"},
    **{"RAY_ADDRESS": "local", "RAY_USAGE_STATS_ENABLED": "0"},
}
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
        **ENVIRONMENT,
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


def tensor(elements: int) -> np.ndarray[tuple[int], np.dtype[np.float32]]:
    return np.random.default_rng(1).normal(scale=9, size=elements).astype(np.float32)


@pytest.mark.parametrize("cluster", ["haproxy"], indirect=True)
def test_no_call_is_lost_while_a_replica_is_killed(cluster: str) -> None:
    with Load(URL, 8, tensor(1 << 14)) as load:
        time.sleep(SECONDS)
        victims = replicas()
        assert len(victims) == 2
        os.kill(victims[0], signal.SIGKILL)
        time.sleep(2 * SECONDS)
    print(f"{sum(load.right)} calls, {len(load.faults)} lost")
    assert not load.faults
    assert min(load.right) > 10
    assert victims[0] not in replicas()


@pytest.mark.parametrize("cluster", ["haproxy", "proxy"], indirect=True)
def test_tensors_are_right_at_the_cost_of_ray(cluster: str) -> None:
    """With ``-s`` it prints the table of docs/deploy.md: calls a second, the median of rounds."""
    with Service() as plain:
        for count, elements in ((1, 256), (8, 256), (1, 1 << 18), (8, 1 << 18)):
            rates: dict[str, list[float]] = {"plain": [], cluster: []}
            for _ in range(ROUNDS):
                for name, url in (("plain", plain.url), (cluster, URL)):
                    began = time.monotonic()
                    with Load(url, count, tensor(elements)) as load:
                        time.sleep(1)
                    rates[name].append(sum(load.right) / (time.monotonic() - began))
                    assert not load.faults
            medians = {name: round(float(np.median(some))) for name, some in rates.items()}
            print(f"{count} callers, {elements * 4} bytes: {medians} calls a second")


@pytest.mark.parametrize(
    ("example", "printed"),
    [("ray_data.py", "10000 True\n"), ("dask_blocks.py", "(4, 1) True\n")],
)
def test_an_engine(example: str, printed: str) -> None:
    command = [sys.executable, str(EXAMPLES / example)]
    done = subprocess.run(command, capture_output=True, text=True, env=ENVIRONMENT)
    assert done.returncode == 0, done.stderr
    assert done.stdout == printed
