"""Metrics through the faults of a service's life: no counter falls, and none is forgotten."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
from prometheus_client.parser import text_string_to_metric_families

from support.http.native_form import ieee754
from support.services.server import Reply, Service
from support.services.workers import serving, workers_of
from support.small_disk import small_disk

pytestmark = pytest.mark.slow

X = np.linspace(-9, 9, 256, dtype="<f4")
FIELDS = {"Operator-Descriptor": ieee754("float32", [X.size])}


def value(service: Service, name: str, **labels: str) -> float:
    families = text_string_to_metric_families(service.get("/metrics").content.decode())
    return sum(
        sample.value
        for family in families
        for sample in family.samples
        if sample.name == f"tensor_round_{name}" and labels.items() <= sample.labels.items()
    )


def rounded(service: Service) -> float:
    return value(service, "requests_total", dtype="float32")


def round_some(service: Service, count: int) -> None:
    """Rounds on one connection; its worker has counted all when it reads the last request."""
    with contextlib.closing(service.connection()) as connection:
        for _ in range(count):
            connection.request("POST", "/round", X.tobytes(), FIELDS)
            assert Reply.read(connection).status == 200
        connection.request("GET", "/livez")
        assert Reply.read(connection).status == 200


def wait_until(is_so: Callable[[], bool], service: Service) -> None:
    deadline = time.monotonic() + 60
    while not is_so():
        assert time.monotonic() < deadline, service.log
        time.sleep(0.05)


def kill_all(service: Service) -> None:
    started = serving(service)
    for worker in workers_of(service):
        os.kill(worker, signal.SIGKILL)
    wait_until(lambda: serving(service) == started + 2, service)


def test_counts_of_killed_workers_are_kept_to_the_last(service_of_two: Service) -> None:
    """Right after their requests, every worker is killed, three times."""
    for count in range(1, 4):
        for _ in range(6):
            round_some(service_of_two, 3)
        kill_all(service_of_two)
        for _ in range(4):
            assert rounded(service_of_two) == 18 * count
    wait_until(lambda: value(service_of_two, "worker_starts_total") == 8, service_of_two)
    assert value(service_of_two, "workers") == 2


@pytest.fixture
def service_of_two() -> Iterator[Service]:
    with Service("--workers", "2") as service:
        wait_until(lambda: serving(service) == 2, service)
        yield service


def test_a_disk_that_is_full_for_a_while_changes_no_count(tmp_path: Path) -> None:
    with small_disk(tmp_path, 4 << 20) as disk:
        if not disk.is_mounted:
            pytest.skip("no disk may be mounted here, and a limit on files is one process's own")
        environment = {"TMPDIR": str(disk.folder)}
        with Service("--workers", "2", environment=environment) as service:
            wait_until(lambda: serving(service) == 2, service)
            with disk.full():
                for count in range(1, 4):
                    for _ in range(6):
                        round_some(service, 3)
                    for _ in range(4):
                        assert rounded(service) == 18 * count
                    time.sleep(1.2)  # longer than it takes to state gauges
                kill_all(service)
                assert rounded(service) == 54
                wait_until(lambda: value(service, "workers") == 2, service)
            round_some(service, 6)
            for _ in range(8):
                assert rounded(service) == 60
                assert value(service, "workers") == 2
        assert not any("Traceback" in line for line in service.log)


def test_the_folder_of_a_killed_supervisor_is_removed_by_the_next_start(tmp_path: Path) -> None:
    """But not those of running services, nor what is not a service's."""
    environment = {**os.environ, "TMPDIR": str(tmp_path)}
    command = [sys.executable, "-m", "tensor_round_service", "--port", "0", "--workers", "2"]
    (tmp_path / "tensor-round-of-mine").mkdir()

    def folders() -> set[Path]:
        return set(tmp_path.glob("tensor-round-workers-*"))

    with Service("--workers", "2", environment={"TMPDIR": str(tmp_path)}):
        (running,) = folders()
        with subprocess.Popen(
            command, env=environment, stderr=subprocess.PIPE, text=True
        ) as killed:
            assert killed.stderr is not None
            while not re.search("running on", killed.stderr.readline()):
                pass
            (abandoned,) = folders() - {running}
            killed.kill()
            killed.stderr.read()  # its workers have drained and ended, too
        assert folders() == {running, abandoned}
        with Service("--workers", "2", environment={"TMPDIR": str(tmp_path)}):
            assert abandoned not in folders()
            assert len(folders()) == 2
            assert running in folders()
        assert folders() == {running}
    assert folders() == set()
    assert [path.name for path in tmp_path.iterdir()] == ["tensor-round-of-mine"]


def test_without_a_folder_the_start_ends_with_one_line() -> None:
    program = (
        "import sys, tempfile\n"
        "from tensor_round_service.process.serve import run\n"
        "tempfile.tempdir = '/proc'\n"
        "sys.exit(run(['--port', '0', '--workers', '2']))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.returncode == 1
    assert done.stderr.startswith("tensor-round-service: no folder for workers in /proc: ")
    assert done.stderr.count("\n") == 1
