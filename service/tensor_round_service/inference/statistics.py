"""How often each model was asked, and how long that took: the protocol's statistics.

Each process counts in memory of its own, which is a file where several workers share a
folder; what is told is the sum over all of them, those that died included. A worker for
whose file there is no room counts all the same, and only it tells of that.
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

#: What is counted of each model: how often, and for how many nanoseconds in all.
_DURATIONS = ("success", "fail", "queue", "compute_input", "compute_infer", "compute_output")
#: There is no cache here.
_NEVER: Duration = {"count": 0, "ns": 0}
#: Of each model the milliseconds of the last inference, then count and time of each duration.
_ROW = 1 + 2 * len(_DURATIONS)
_FIRST = {model: position * _ROW for position, model in enumerate(MODELS)}
_BYTES = 8 * _ROW * len(MODELS)
_PREFIX = "statistics-"

logger = logging.getLogger(__name__)


class Statistics:
    """The counters of this process, and the sum of all processes'.

    ``folder`` is where the workers of one service keep theirs; None if it has but one.
    """

    def __init__(self, folder: Path | None = None) -> None:
        self._folder = folder
        file = None if folder is None else _mapped(folder)
        #: Whether the counters are in no file.
        self._is_apart = file is None
        self._counters = memoryview(bytearray(_BYTES) if file is None else file).cast("q")

    def succeeded(self, model: Model, *, queue: int, input: int, infer: int, output: int) -> None:
        """Count an inference: the nanoseconds that it waited, received, rounded and encoded."""
        counters, at = self._counters, _FIRST[model]
        counters[at] = time.time_ns() // 1_000_000
        # Written out: this is a tenth of what a small request takes.
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
        """Count a request that was refused after so many nanoseconds."""
        at = _FIRST[model]
        self._counters[at + 3] += 1
        self._counters[at + 4] += duration

    def describe(self, model: Model) -> ModelStatistics:
        """The statistics of a model, as the protocol has them."""
        last, *totals = self._summed(model)
        success, fail, queue, compute_input, compute_infer, compute_output = (
            Duration(count=count, ns=nanoseconds)
            for count, nanoseconds in zip(totals[0::2], totals[1::2], strict=True)
        )
        batch: BatchStatistics = {
            "batch_size": 1,  # each is one
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
                "cache_hit": _NEVER,
                "cache_miss": _NEVER,
            },
            "batch_stats": [batch] if count else [],
        }

    def _summed(self, model: Model) -> list[int]:
        first = _FIRST[model]
        rows = [counters[first : first + _ROW].tolist() for counters in self._all()]
        last, *totals = zip(*rows, strict=True)
        return [max(last), *map(sum, totals)]

    def _all(self) -> Iterator[memoryview]:
        if self._is_apart:
            yield self._counters
        if self._folder is None:
            return
        for file in self._folder.glob(_PREFIX + "*"):
            yield memoryview(file.read_bytes()).cast("q")


def _mapped(folder: Path) -> mmap.mmap | None:
    """Memory that is a file's, by its name once it is whole; None, and a line, without room.

    The file is written, not only made that long: where the disk is full, the first access
    to a page that is not there yet would end the process (SIGBUS).
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
        logger.warning("statistics: %s; this process counts in memory of its own", error.strerror)
        return None
    return memory
