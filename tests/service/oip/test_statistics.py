"""Counters of models: one process's, and the sum over several."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from tensor_round_service.backends.cpu.backend import NumpyBackend
from tensor_round_service.engine.job import Job
from tensor_round_service.engine.memory import Memory
from tensor_round_service.oip.models import find
from tensor_round_service.oip.statistics import Statistics

ROUND, NEWEST = find("round"), find("directml_element_wise_round")


def job(queue: int, receive: int, execute: int) -> Job:
    """A job whose phases took so many nanoseconds."""
    done = Job(Memory(NumpyBackend().allocate, 0))
    done.queue_seconds, done.receive_seconds = queue / 1e9, receive / 1e9
    done.execute_seconds = execute / 1e9
    return done


@pytest.mark.parametrize("shared", [True, False])
def test_counting(tmp_path: Path, shared: bool) -> None:
    counts = Statistics(tmp_path if shared else None)
    began = time.time_ns() // 1_000_000
    counts.succeeded(ROUND, job(1, 20, 300), 4321)
    counts.succeeded(ROUND, job(1, 20, 300), 4321)
    counts.failed(ROUND, 7)
    told = counts.describe(ROUND)
    assert told["inference_count"] == told["execution_count"] == 2
    assert began <= told["last_inference"] <= time.time_ns() // 1_000_000
    expected = {
        "success": (2, 8642), "fail": (1, 7), "queue": (2, 2), "compute_input": (2, 40),
        "compute_infer": (2, 600), "compute_output": (2, 8000), "cache_hit": (0, 0),
        "cache_miss": (0, 0),
    }  # fmt: skip
    found = {name: (row["count"], row["ns"]) for name, row in told["inference_stats"].items()}
    assert found == expected
    others = counts.describe(NEWEST)
    assert (others["name"], others["version"]) == (NEWEST.name, NEWEST.version)
    assert others["last_inference"] == others["inference_count"] == others["execution_count"] == 0


def test_workers_are_summed(tmp_path: Path) -> None:
    workers = [Statistics(tmp_path) for _ in range(3)]
    for number, worker in enumerate(workers, 1):
        for _ in range(number):
            worker.succeeded(NEWEST, job(0, 1, 2), 6)
    told = {str(worker.describe(NEWEST)) for worker in workers}
    assert len(told) == 1
    last = workers[0].describe(NEWEST)
    assert last["inference_count"] == 6
    assert last["inference_stats"]["success"] == {"count": 6, "ns": 36}
