"""What a supervisor does about workers that fail, over and over or just once."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tensor_round_service.process.workers import restart_delay

PROGRAM = Path(__file__).parents[2] / "support" / "services" / "supervised.py"


@contextmanager
def supervised(kind: str, folder: Path) -> Iterator[subprocess.Popen[str]]:
    command = [sys.executable, str(PROGRAM), kind, str(folder)]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def next_line(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return process.stdout.readline()


def test_restart_delay_stays_at_its_maximum() -> None:
    assert [restart_delay(failures) for failures in (1, 2, 3, 7, 10_000)] == [0, 1, 2, 30, 30]


def test_worker_that_dies_at_start_is_restarted_with_growing_delays(tmp_path: Path) -> None:
    with supervised("dying", tmp_path) as process:
        times = []
        for _ in range(3):
            assert next_line(process) == "started\n"
            times.append(time.monotonic())
        assert times[2] - times[1] > 1
        process.send_signal(signal.SIGTERM)
        # Nothing is started any more, and nobody waited for.
        assert process.wait(20) == 0
        assert next_line(process) == ""
        assert time.monotonic() - times[2] < 1.5


@pytest.mark.parametrize(
    ("kind", "says"),
    [
        ("unwilling", "cannot serve: there is no such device\n"),
        ("crashing", "cannot serve: a worker ended with exit code 3 at start\n"),
    ],
)
def test_supervisor_gives_up_if_no_worker_has_served(kind: str, says: str, tmp_path: Path) -> None:
    with supervised(kind, tmp_path) as process:
        _, errors = process.communicate(timeout=30)
        assert process.returncode == 1
        assert errors == says


def test_supervisor_goes_on_once_a_worker_has_served(tmp_path: Path) -> None:
    with supervised("once", tmp_path) as process:
        os.kill(int(next_line(process).removeprefix("serving ")), signal.SIGKILL)
        assert [next_line(process) for _ in range(2)] == ["started\n"] * 2
        process.send_signal(signal.SIGTERM)
        _, errors = process.communicate(timeout=30)
        assert process.returncode == 0
        assert "SIGKILL; it is replaced" in errors
        assert "the device is gone; it is replaced" in errors
