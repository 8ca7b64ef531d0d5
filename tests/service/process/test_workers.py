"""What a supervisor does about workers that fail, over and over or just once.

Run as a program with a kind of worker and a folder, this is such a supervisor.
"""

from __future__ import annotations

import functools
import logging
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tensor_round_service.process.listener import Listener
from tensor_round_service.process.workers import CannotServe, Supervisor, restart_delay
from tensor_round_service.settings import Settings


def dying(_folder: Path, _listener: Listener, _on_start: Callable[[], None]) -> None:
    """Dies in its start, always."""
    print("started", flush=True)
    os.kill(os.getpid(), signal.SIGKILL)


def unwilling(_folder: Path, _listener: Listener, _on_start: Callable[[], None]) -> None:
    """Says why it cannot start, always."""
    raise CannotServe("there is no such device")


def crashing(_folder: Path, _listener: Listener, _on_start: Callable[[], None]) -> None:
    """Has a fault in its start, always."""
    sys.exit(3)


def once(folder: Path, _listener: Listener, on_start: Callable[[], None]) -> None:
    """Serves, but a second of its kind says why it cannot."""
    if folder.joinpath("served").exists():
        print("started", flush=True)
        raise CannotServe("the device is gone")
    folder.joinpath("served").touch()
    on_start()
    print(f"serving {os.getpid()}", flush=True)
    threading.Event().wait()


@contextmanager
def supervised(kind: str, folder: Path) -> Iterator[subprocess.Popen[str]]:
    command = [sys.executable, __file__, kind, str(folder)]
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


if __name__ == "__main__":
    logging.basicConfig(level=logging.INFO)
    kind, folder = sys.argv[1:]
    settings = Settings(port=0, workers=1)
    try:
        with Listener(settings) as listener:
            work = functools.partial(globals()[kind], Path(folder))
            sys.exit(Supervisor(work, settings, listener, lambda: None).run())
    except CannotServe as reason:
        sys.exit(f"cannot serve: {reason}")
