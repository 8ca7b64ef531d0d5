"""Counters of one worker: requests, bytes, and seconds by phase; its present state; sums of both.

A request costs a few look-ups and additions. Nothing takes a lock: only the event loop counts.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Mapping, Sequence
from functools import cache
from time import perf_counter

from ..counters import Counters, Key
from ..engine.job import PHASES, Job

#: Labels of a request: route, dialect, dtype, backend, status, code. Each has few values.
Labels = tuple[str, str, str, str, str, str]

#: Upper bounds of the buckets of a histogram, in seconds; what is above all has one more.
BUCKETS = (
    *(25e-6, 50e-6, 100e-6, 250e-6, 500e-6),
    *(1e-3, 2.5e-3, 5e-3, 10e-3, 25e-3, 50e-3, 100e-3, 250e-3, 500e-3, 1.0, 2.5, 10.0),
)
#: Size classes of tensors: a name, and the largest size in bytes.
SIZES = (("4KiB", 4 << 10), ("64KiB", 64 << 10), ("1MiB", 1 << 20), ("16MiB", 16 << 20))
_LARGEST = "over16MiB"
#: The class of a size, by the bit length of the size less one.
_CLASS_OF_BITS = tuple(
    next((name for name, most in SIZES if 1 << bits <= most), _LARGEST) for bits in range(65)
)


#: Numbers of a phase: the count of each bucket, then the sum in seconds.
PHASE_NUMBERS = len(BUCKETS) + 2
#: The first parts of the keys of rows. Of requests (then their labels): how many, and the bytes of
#: their bodies and of the responses' bodies. Of a size class: the numbers of each phase.
REQUESTS, SIZE_CLASS = "requests", "size class"
#: The row of a worker: how many have counted in it, and whether the last one serves.
WORKER: Key = ("worker",)
#: How often an event (then device and event) has happened; how many lines of the log were dropped.
EVENT, DROPPED = "device event", "dropped log lines"
#: Gauges: bytes in flight, their limit, and whether the worker is ready; the number of connections
#: in a state; used and total bytes of a device.
IN_FLIGHT, CONNECTIONS, MEMORY = "bytes in flight", "connections", "device memory"
#: The state of one worker.
Gauges = Mapping[Key, Sequence[int]]


class Counts:
    """Counts requests in the counters of this process."""

    def __init__(self, counters: Counters) -> None:
        self._counters = counters
        #: The row of a request's labels.
        self.requests = cache(lambda labels: counters.row((REQUESTS, *labels), 3))
        #: The numbers of each phase, by size class.
        self.phases = cache(self._phases)
        #: What was counted of others' counters.
        self._counted: Counter[Key] = Counter()

    def _phases(self, size: str) -> list[memoryview[float]]:
        row = self._counters.row((SIZE_CLASS, size), PHASE_NUMBERS * len(PHASES), "d")
        return [row[at : at + PHASE_NUMBERS] for at in range(0, len(row), PHASE_NUMBERS)]

    def follow(self, device_events: Mapping[tuple[str, str], int], dropped_lines: int) -> None:
        """Count what others have counted since the last call: events of devices, lines dropped."""
        totals: dict[Key, int] = {
            (EVENT, *key): count for key, count in list(device_events.items())
        }
        totals[DROPPED,] = dropped_lines
        for key, total in totals.items():
            self._counters.row(key, 1)[0] += total - self._counted[key]
            self._counted[key] = total

    def state(self, gauges: Gauges) -> None:
        """Let the other workers know the present state of this one; what is gone becomes zero."""
        for key in self._counters.own_keys():
            if key[0] in (CONNECTIONS, MEMORY) and key not in gauges:
                row = self._counters.row(key, 0)
                row[:] = memoryview(bytes(row.nbytes)).cast("q")
        for key, numbers in gauges.items():
            row = self._counters.row(key, len(numbers))
            for position, number in enumerate(numbers):
                row[position] = number

    def request(self, labels: Labels, received: int, sent: int) -> None:
        """Count a request, and the bytes of its body and of the response's."""
        row = self.requests(labels)
        row[0] += 1
        row[1] += received
        row[2] += sent

    def job_ended(self, job: Job) -> None:
        """Count a successful request with a tensor, and the seconds of its phases.

        One function, as it is a tenth of what a small request takes.
        """
        if not job.is_sent:
            return
        route, received, sent = job.traffic
        dialect, dtype = job.labels
        row = self.requests((route, dialect, dtype, job.executed_by, "200", ""))
        row[0] += 1
        row[1] += received
        row[2] += sent
        receiving, queueing, executing, sending = self.phases(
            _CLASS_OF_BITS[(sent - 1).bit_length()]
        )
        seconds = job.receive_seconds
        receiving[bisect_left(BUCKETS, seconds)] += 1
        receiving[-1] += seconds
        seconds = job.queue_seconds
        queueing[bisect_left(BUCKETS, seconds)] += 1
        queueing[-1] += seconds
        seconds = job.execute_seconds
        executing[bisect_left(BUCKETS, seconds)] += 1
        executing[-1] += seconds
        seconds = perf_counter() - job.sending_since
        sending[bisect_left(BUCKETS, seconds)] += 1
        sending[-1] += seconds


def add(totals: dict[Key, Sequence[float]], rows: Mapping[Key, Sequence[float]]) -> None:
    """Add the rows of a worker to the sums over several."""
    for key, numbers in rows.items():
        before = totals.get(key)
        totals[key] = numbers if before is None else [*map(sum, zip(before, numbers, strict=True))]
