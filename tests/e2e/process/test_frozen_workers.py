"""A worker that is stopped, or whose event loop hangs, is killed and replaced."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable

import numpy as np
import pytest

from support.http.native_form import ieee754, post
from support.services.server import Service
from support.services.variants import SECONDS, ImpatientService
from support.services.workers import serving, workers_of

pytestmark = pytest.mark.slow

X = np.linspace(-9, 9, 256, dtype="<f4")


def wait_until(is_so: Callable[[], bool], service: Service) -> None:
    deadline = time.monotonic() + 60
    while not is_so():
        assert time.monotonic() < deadline, service.log
        time.sleep(0.05)


def killed(service: Service) -> list[str]:
    return [line for line in service.log if "killing worker" in line]


def test_a_stopped_worker_is_replaced() -> None:
    with ImpatientService("--workers", "2") as service:
        wait_until(lambda: serving(service) == 2, service)
        frozen = min(workers_of(service))
        os.kill(frozen, signal.SIGSTOP)
        wait_until(lambda: serving(service) == 3, service)
        assert frozen not in workers_of(service)
        for _ in range(8):
            reply = post(service, ieee754("float32", [X.size]), X.tobytes())
            assert reply.content == np.rint(X).tobytes()
    (line,) = killed(service)
    assert f"worker {frozen}, which has not responded for {SECONDS:g} s" in line
    assert any(
        f"worker {frozen} ended with SIGKILL; it is replaced" in each for each in service.log
    )


def test_busy_workers_stay() -> None:
    """They compute for longer than a frozen one would be left alone."""
    large = np.linspace(-9, 9, 1 << 24, dtype="<f4")
    descriptor = ieee754("float32", [large.size])
    with ImpatientService("--workers", "2") as service:
        wait_until(lambda: serving(service) == 2, service)
        workers = workers_of(service)
        until = time.monotonic() + 3 * SECONDS
        while time.monotonic() < until:
            assert post(service, descriptor, large.data.cast("B")).status == 200
        assert workers_of(service) == workers
    assert not killed(service)


def test_a_service_that_was_stopped_as_a_whole_goes_on() -> None:
    """As by Ctrl-Z or the freezer of a container: nobody has reported in all that time."""
    with ImpatientService("--workers", "2") as service:
        wait_until(lambda: serving(service) == 2, service)
        processes = [service.pid, *workers_of(service)]
        for process in processes:
            os.kill(process, signal.SIGSTOP)
        time.sleep(2 * SECONDS)
        for process in processes:
            os.kill(process, signal.SIGCONT)
        time.sleep(2 * SECONDS)
        assert sorted([service.pid, *workers_of(service)]) == sorted(processes)
    assert not killed(service)
