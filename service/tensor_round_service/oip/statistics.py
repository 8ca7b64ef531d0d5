"""The statistics extension: counts and durations of the inferences of each model.

Each worker has its own counters, and reports the sum over all, workers that died included.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import cast

from ..counters import Counters
from ..engine.job import Job
from .json_types import Duration, ModelStatistics
from .models import MODELS, Model

#: The durations of each model: a count and a sum of nanoseconds for each.
_DURATIONS = ("success", "fail", "queue", "compute_input", "compute_infer", "compute_output")
#: The duration of cache accesses: the service has no response cache.
_ZERO: Duration = {"count": 0, "ns": 0}
#: Counters of a model: the time of the last inference, then count and sum of each duration.
_ROW = 1 + 2 * len(_DURATIONS)


class Statistics:
    """The counters of this process, and the sums over all workers.

    ``folder`` is the shared folder of the workers; None for a single process.
    """

    def __init__(self, folder: Path | None = None) -> None:
        self._counters = Counters(folder, "statistics")
        self._rows = {model: self._counters.row(_key(model), _ROW) for model in MODELS}

    def succeeded(self, model: Model, job: Job, seconds: float) -> None:
        """Count an inference that took so many seconds; its stages are those of its job.

        What is left of the duration is the time of the output.
        """
        duration = round(seconds * 1e9)
        queue, input = int(job.queue_seconds * 1e9), int(job.receive_seconds * 1e9)
        infer = int(job.execute_seconds * 1e9)
        row = self._rows[model]
        row[0] = time.time_ns() // 1_000_000
        # Without a loop: this takes a tenth of the time of a small request.
        row[1] += 1
        row[2] += duration
        row[5] += 1
        row[6] += queue
        row[7] += 1
        row[8] += input
        row[9] += 1
        row[10] += infer
        row[11] += 1
        row[12] += duration - queue - input - infer

    def failed(self, model: Model, seconds: float) -> None:
        """Count an inference that failed after so many seconds."""
        row = self._rows[model]
        row[3] += 1
        row[4] += round(seconds * 1e9)

    def report(self, models: Iterable[Model]) -> list[ModelStatistics]:
        """The statistics of these models, summed over all workers."""
        workers = [worker.rows for worker in self._counters.workers()]
        return [
            _described(model, [rows[key] for rows in workers if (key := _key(model)) in rows])
            for model in models
        ]


def _described(model: Model, rows: Sequence[Sequence[float]]) -> ModelStatistics:
    """The statistics of a model, of which each worker has a row."""
    last, *counted = ([int(number) for number in column] for column in zip(*rows, strict=True))
    totals = [*map(sum, counted)]
    durations = {
        name: Duration(count=count, ns=nanoseconds)
        for name, count, nanoseconds in zip(_DURATIONS, totals[0::2], totals[1::2], strict=True)
    }
    count = durations["success"]["count"]
    stages = {name: durations[name] for name in _DURATIONS if name.startswith("compute")}
    described = {
        "name": model.name,
        "version": model.version,
        "last_inference": max(last),
        "inference_count": count,
        "execution_count": count,
        "inference_stats": {**durations, "cache_hit": _ZERO, "cache_miss": _ZERO},
        # Each inference is a batch.
        "batch_stats": [{"batch_size": 1, **stages}] if count else [],
    }
    return cast(ModelStatistics, described)


def _key(model: Model) -> tuple[str, str]:
    return model.name, model.version
