"""The statistics extension: counts and durations of the inferences of each model.

Each worker has its own counters. Several workers keep them in mapped files in a shared folder, so
that each can report the sum over all, workers that died included. A worker that cannot create its
file uses private memory, and only it includes these counts.
"""

from __future__ import annotations

import errno
import logging
import mmap
import os
import time
from collections.abc import Iterator
from pathlib import Path
from tempfile import NamedTemporaryFile

from ..documents import BatchStatistics, Duration, ModelStatistics
from .models import MODELS, Model

#: The durations of each model: a count and a sum of nanoseconds for each.
_DURATIONS = ("success", "fail", "queue", "compute_input", "compute_infer", "compute_output")
#: The duration of cache accesses: the service has no response cache.
_ZERO: Duration = {"count": 0, "ns": 0}
#: Counters of a model: the time of the last inference, then count and sum of each duration.
_ROW = 1 + 2 * len(_DURATIONS)
_FIRST = {model: position * _ROW for position, model in enumerate(MODELS)}
_BYTES = 8 * _ROW * len(MODELS)
_PREFIX = "statistics-"

logger = logging.getLogger(__name__)


class Statistics:
    """The counters of this process, and the sums over all workers.

    ``folder`` is the shared folder of the workers; None for a single process.
    """

    def __init__(self, folder: Path | None = None) -> None:
        self._folder = folder
        file = None if folder is None else _map_file(folder)
        #: Whether the counters are in private memory.
        self._is_unshared = file is None
        self._counters = memoryview(bytearray(_BYTES) if file is None else file).cast("q")

    def succeeded(self, model: Model, *, queue: int, input: int, infer: int, output: int) -> None:
        """Count an inference. The durations of its stages are nanoseconds."""
        counters, at = self._counters, _FIRST[model]
        counters[at] = time.time_ns() // 1_000_000
        # Without a loop: this takes a tenth of the time of a small request.
        counters[at + 1] += 1
        counters[at + 2] += queue + input + infer + output
        counters[at + 5] += 1
        counters[at + 6] += queue
        counters[at + 7] += 1
        counters[at + 8] += input
        counters[at + 9] += 1
        counters[at + 10] += infer
        counters[at + 11] += 1
        counters[at + 12] += output

    def failed(self, model: Model, duration: int) -> None:
        """Count a failed inference; ``duration`` is nanoseconds."""
        at = _FIRST[model]
        self._counters[at + 3] += 1
        self._counters[at + 4] += duration

    def describe(self, model: Model) -> ModelStatistics:
        """The statistics of a model, summed over all workers."""
        last, *totals = self._summed(model)
        success, fail, queue, compute_input, compute_infer, compute_output = (
            Duration(count=count, ns=nanoseconds)
            for count, nanoseconds in zip(totals[0::2], totals[1::2], strict=True)
        )
        batch: BatchStatistics = {
            "batch_size": 1,  # each inference is a batch
            "compute_input": compute_input,
            "compute_infer": compute_infer,
            "compute_output": compute_output,
        }
        count = success["count"]
        return {
            "name": model.name,
            "version": model.version,
            "last_inference": last,
            "inference_count": count,
            "execution_count": count,
            "inference_stats": {
                "success": success,
                "fail": fail,
                "queue": queue,
                "compute_input": compute_input,
                "compute_infer": compute_infer,
                "compute_output": compute_output,
                "cache_hit": _ZERO,
                "cache_miss": _ZERO,
            },
            "batch_stats": [batch] if count else [],
        }

    def _summed(self, model: Model) -> list[int]:
        first = _FIRST[model]
        rows = [counters[first : first + _ROW].tolist() for counters in self._all()]
        last, *totals = zip(*rows, strict=True)
        return [max(last), *map(sum, totals)]

    def _all(self) -> Iterator[memoryview]:
        if self._is_unshared:
            yield self._counters
        if self._folder is None:
            return
        for file in self._folder.glob(_PREFIX + "*"):
            yield memoryview(file.read_bytes()).cast("q")


def _map_file(folder: Path) -> mmap.mmap | None:
    """Map a new file of zeros; None, with a warning, if it cannot be created.

    The file gets its final name when it is complete. Its bytes are written, not only its length
    set: on a full disk, the first access to a missing page would end the process (SIGBUS).
    """
    try:
        with NamedTemporaryFile(dir=folder, buffering=0, delete=False) as file:
            try:
                if file.write(bytes(_BYTES)) < _BYTES:
                    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
                memory = mmap.mmap(file.fileno(), _BYTES)
                os.rename(file.name, folder / (_PREFIX + Path(file.name).name))
            except OSError:
                os.unlink(file.name)
                raise
    except OSError as error:
        logger.warning("statistics: %s; this worker uses private counters", error.strerror)
        return None
    return memory
