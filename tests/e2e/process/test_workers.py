"""Several workers: forked from one process, replaced if they die or hang, none left behind."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from support.http.native_form import ieee754, post
from support.services.server import Service, until
from support.services.variants import SECONDS, ImpatientService
from support.services.workers import children_of, is_running, replaced_after, workers_of

X = np.array([0.5, 1.5, -2.5], "<f4")


def answers(service: Service) -> bool:
    with contextlib.closing(service.connection(timeout=0.2)) as connection:
        try:
            connection.request("GET", "/livez")
            return connection.getresponse().status == 200
        except TimeoutError:  # a stopped one had taken it
            return False


def assert_rounds(service: Service) -> None:
    assert post(service, ieee754("float32", [3]), X.tobytes()).content == np.rint(X).tobytes()


@pytest.mark.slow
@pytest.mark.usefixtures("each_started")
def test_killed_worker_is_replaced_while_the_other_serves() -> None:
    with Service("--workers", "2") as service:
        for _ in range(3):
            replaced_after(service)  # how soon, ``make stress ARGS=shutdown`` measures
        assert any("SIGKILL" in line for line in service.log)
        # Both do serve: each takes connections while the other is stopped.
        for stopped in workers_of(service):
            os.kill(stopped, signal.SIGSTOP)
            until(lambda: answers(service))
            os.kill(stopped, signal.SIGCONT)


@pytest.mark.usefixtures("each_started")
@pytest.mark.skipif(sys.platform != "linux", reason="workers are forked only on Linux")
def test_killed_forking_process_is_replaced() -> None:
    with Service("--workers", "2") as service:
        workers = workers_of(service)
        for child in children_of(service.pid):
            if children_of(child):
                os.kill(child, signal.SIGKILL)
        until(lambda: not workers_of(service), 5)  # another one's children
        service.process.send_signal(signal.SIGHUP)
        assert answers(service)
        os.kill(min(workers), signal.SIGKILL)
        until(lambda: service.counted("serves") == 3)
        service.process.send_signal(signal.SIGTERM)
        assert service.process.wait(10) == 0
        assert not is_running(max(workers))


@pytest.mark.usefixtures("each_started")
def test_workers_end_with_their_supervisor_and_an_heir_takes_its_socket(tmp_path: Path) -> None:
    path = tmp_path / "round.sock"
    with Service("--workers", "2", "--uds", str(path)) as killed:
        workers = workers_of(killed)
        assert len(workers) == 2
        killed.process.kill()
        killed.process.wait(20)
        until(lambda: not any(map(is_running, workers)))
        assert path.is_socket()
        with Service("--uds", str(path), "--workers", "2") as heir:
            assert_rounds(heir)
    assert not path.exists()


@pytest.mark.skipif(sys.platform != "linux", reason="workers are forked only on Linux")
def test_service_is_imported_once_for_all_workers() -> None:
    """Each process that imports by itself says so: Python's variable has it."""
    with Service("--workers", "3", environment={"PYTHONPROFILEIMPORTTIME": "1"}) as service:
        pass
    imported = [line.split("|")[-1].strip() for line in service.log if "import time:" in line]
    assert imported.count("tensor_round_service.app") == 1
    assert imported.count("numpy") == 1


def test_supervisor_needs_no_framework() -> None:
    program = "import sys, tensor_round_service.process.serve; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert {"pydantic", "tensor_round_service.process.workers"} <= {*done.stdout.split()}
    assert not {"fastapi", "uvicorn", "tensor_round_service.app"} & {*done.stdout.split()}


def killed(service: Service) -> list[str]:
    return [line for line in service.log if "killing worker" in line]


@pytest.mark.slow
def test_hanging_worker_is_killed_and_replaced() -> None:
    with ImpatientService("--workers", "2") as service:
        frozen = min(workers_of(service))
        os.kill(frozen, signal.SIGSTOP)
        until(lambda: service.counted("serves") == 3)
        assert frozen not in workers_of(service)
        for _ in range(8):
            assert_rounds(service)
    (line,) = killed(service)
    assert f"worker {frozen}, which has not responded for {SECONDS:g} s" in line
    replaced = f"worker {frozen} ended with SIGKILL; it is replaced"
    assert any(replaced in each for each in service.log)


@pytest.mark.slow
def test_busy_worker_is_not_killed() -> None:
    """They compute for longer than a hanging one would be left alone."""
    large = np.linspace(-9, 9, 1 << 24, dtype="<f4")
    descriptor = ieee754("float32", [large.size])
    with ImpatientService("--workers", "2") as service:
        workers = workers_of(service)
        end = time.monotonic() + 2 * SECONDS
        while time.monotonic() < end:
            assert post(service, descriptor, large.data.cast("B")).status == 200
        assert workers_of(service) == workers
    assert not killed(service)


@pytest.mark.slow
def test_service_that_was_stopped_as_a_whole_goes_on() -> None:
    """As by Ctrl-Z or the freezer of a container: nobody has reported in all that time."""
    with ImpatientService("--workers", "2") as service:
        processes = [service.pid, *workers_of(service)]
        for number in (signal.SIGSTOP, signal.SIGCONT):
            for process in processes:
                os.kill(process, number)
            time.sleep(1.4 * SECONDS)
        assert sorted([service.pid, *workers_of(service)]) == sorted(processes)
    assert not killed(service)
