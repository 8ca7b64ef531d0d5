"""Statistics of models: counters of calls and of their phases, summed over workers."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from tensor_round_service import counters
from tensor_round_service.backends.cpu.backend import NumpyBackend
from tensor_round_service.engine.job import Job
from tensor_round_service.engine.memory import Memory
from tensor_round_service.oip.models import MODELS, find
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
    counts.succeeded(ROUND, job(1, 20, 300), 4321e-9)
    counts.succeeded(ROUND, job(1, 20, 300), 4321e-9)
    counts.failed(ROUND, 7e-9)
    told, others = counts.report([ROUND, NEWEST])
    assert told["inference_count"] == told["execution_count"] == 2
    assert began <= told["last_inference"] <= time.time_ns() // 1_000_000
    expected = {
        "success": (2, 8642), "fail": (1, 7), "queue": (2, 2), "compute_input": (2, 40),
        "compute_infer": (2, 600), "compute_output": (2, 8000), "cache_hit": (0, 0),
        "cache_miss": (0, 0),
    }  # fmt: skip
    found = {name: (row["count"], row["ns"]) for name, row in told["inference_stats"].items()}
    assert found == expected
    assert (others["name"], others["version"]) == (NEWEST.name, NEWEST.version)
    assert others["last_inference"] == others["inference_count"] == others["execution_count"] == 0


def test_workers_are_summed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    workers = [Statistics(tmp_path) for _ in range(3)]
    for number, worker in enumerate(workers, 1):
        for _ in range(number):
            worker.succeeded(NEWEST, job(0, 1, 2), 6e-9)
    told = {str(worker.report([NEWEST])) for worker in workers}
    assert len(told) == 1
    reads, real = list[Path](), counters._read

    def read(path: Path, nbytes: int) -> counters.Worker:
        reads.append(path)
        return real(path, nbytes)

    monkeypatch.setattr(counters, "_read", read)
    *_, last = workers[0].report([*MODELS, NEWEST])
    assert last["inference_count"] == 6
    assert len(reads) == len(workers) - 1, "each other worker is read once for all models"
    assert last["inference_stats"]["success"] == {"count": 6, "ns": 36}
