"""Metrics of this worker: requests, bytes, and seconds by phase; its present state; sums of both.

Each worker counts in memory that the others read and that outlives it (:mod:`..counters`). It
states its gauges there every second, so a scrape may be a second behind for the other workers.

A request costs a few look-ups and additions. Nothing takes a lock: only the event loop counts.
"""

from __future__ import annotations

import asyncio
from bisect import bisect_left
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from time import perf_counter

from ..counters import METRICS, METRICS_BYTES, Counters, Key
from ..engine.job import PHASES, Job

#: Upper bounds of the buckets of a histogram, in seconds; what is above all has one more.
BUCKETS = (
    25e-6,
    50e-6,
    100e-6,
    250e-6,
    500e-6,
    1e-3,
    2.5e-3,
    5e-3,
    10e-3,
    25e-3,
    50e-3,
    100e-3,
    250e-3,
    500e-3,
    1.0,
    2.5,
    10.0,
)
#: Size classes of tensors: a name, and the largest size in bytes.
SIZES = (("4KiB", 4 << 10), ("64KiB", 64 << 10), ("1MiB", 1 << 20), ("16MiB", 16 << 20))
_LARGEST = "over16MiB"
#: The class of a size, by the bit length of the size less one.
_CLASS_OF_BITS = tuple(
    next((name for name, most in SIZES if 1 << bits <= most), _LARGEST) for bits in range(65)
)


#: Numbers of a histogram: the count of each bucket, then the sum in seconds.
HISTOGRAM_NUMBERS = len(BUCKETS) + 2
#: The first parts of the keys of rows. Of requests (then their labels, each of which has few
#: values: route, dialect, dtype, backend, status, code): how many, and the bytes of
#: their bodies and of the responses' bodies. Of a route and a status: the whole duration of
#: requests. Of a size class: the numbers of each phase.
REQUESTS, DURATION, SIZE_CLASS = "requests", "request duration", "size class"
#: The row of a worker: how many have counted in it, and whether the last one serves.
WORKER: Key = ("worker",)
#: How many requests were let in with a key (then its label).
KEY_REQUESTS = "key requests"
#: How often an event (then device and event) has happened.
EVENT = "device event"
#: How many lines of the log were dropped, and how many connections were refused.
DROPPED: Key = ("dropped log lines",)
REFUSED: Key = ("refused connections",)
#: Nanoseconds of CPU time.
CPU: Key = ("cpu time",)
#: Gauges: bytes in flight, their limit, and whether the worker is ready; the number of connections
#: in a state; used and total bytes of a device; when the certificate expires; what the
#: system says of the process (then the metric's name).
IN_FLIGHT, CONNECTIONS, MEMORY = "bytes in flight", "connections", "device memory"
EXPIRY: Key = ("certificate expiry",)
PROCESS = "process"
#: What workers have counted.
Rows = Mapping[Key, Sequence[float]]
#: The state of one worker.
Gauges = Mapping[Key, Sequence[int]]
#: Seconds between two statements of the gauges.
INTERVAL = 1.0


@dataclass(eq=False)
class Metrics:
    """Counts requests in the counters of this process; observes jobs."""

    #: The paths that are counted by their own names, and the folders whose paths are counted
    #: together: labels have few values, whatever is asked for.
    routes: AbstractSet[str]
    folders: Sequence[str]
    gauges: Callable[[], Awaitable[Gauges]]
    #: How many workers there should be.
    workers: int
    #: What others have counted, by the keys of rows.
    totals: Callable[[], Mapping[Key, int]]
    #: Shared by the workers; None for a single one.
    folder: Path | None

    def __post_init__(self) -> None:
        counters = self._counters = Counters(self.folder, METRICS, METRICS_BYTES)
        #: The row of a request's labels, and the duration's of its route and status.
        self._requests = cache(self._rows_of_requests)
        #: The row of requests that were let in with a key, by its label.
        self.key_requests = cache(lambda label: counters.row((KEY_REQUESTS, label), 1))
        #: The numbers of each phase, by size class.
        self._phases = cache(self._numbers_of_phases)
        #: What was counted of others' counters.
        self._counted: Counter[Key] = Counter()
        self._serves = False
        counters.row(WORKER, 2)[1] = 0  # the row may be a predecessor's

    def _rows_of_requests(self, labels: Key) -> tuple[memoryview[int], memoryview[float]]:
        route, _dialect, _dtype, _backend, status, _code = labels
        duration = self._counters.row((DURATION, route, status), HISTOGRAM_NUMBERS, "d")
        return self._counters.row((REQUESTS, *labels), 3), duration

    def _numbers_of_phases(self, size: str) -> list[memoryview[float]]:
        row = self._counters.row((SIZE_CLASS, size), HISTOGRAM_NUMBERS * len(PHASES), "d")
        return [row[at : at + HISTOGRAM_NUMBERS] for at in range(0, len(row), HISTOGRAM_NUMBERS)]

    def route_of(self, path: str) -> str:
        """The label of a path, out of a few: that of a route or of a folder, or ``other``."""
        if path in self.routes:
            return path
        return next((name for name in self.folders if f"{path}/".startswith(f"{name}/")), "other")

    def responded(
        self, path: str, outcome: tuple[str, str], received: int, sent: int, seconds: float
    ) -> None:
        """Count a request without a job: status and code, bytes of both bodies, and duration."""
        row, duration = self._requests((self.route_of(path), "", "", "", *outcome))
        row[0] += 1
        row[1] += received
        row[2] += sent
        duration[bisect_left(BUCKETS, seconds)] += 1
        duration[-1] += seconds

    def job_ended(self, job: Job) -> None:
        """Count a successful request with a tensor, and its seconds, by phases and as a whole.

        One function, as it is a tenth of what a small request takes.
        """
        if not job.is_sent:
            return
        sent, dtype = job.response_bytes, "" if job.call is None else job.call.input.dtype.name
        row, duration = self._requests((job.route, job.dialect, dtype, job.executed_by, "200", ""))
        row[0] += 1
        row[1] += job.request_bytes
        row[2] += sent
        receiving, queueing, executing, sending = self._phases(
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
        now = perf_counter()
        seconds = now - job.sending_since
        sending[bisect_left(BUCKETS, seconds)] += 1
        sending[-1] += seconds
        seconds = now - job.request_began
        duration[bisect_left(BUCKETS, seconds)] += 1
        duration[-1] += seconds

    async def of_all_workers(self) -> tuple[Rows, list[Rows], int]:
        """The sums over all workers, the rows of those that serve, and how many there should be."""
        await self._state()
        totals: dict[Key, Sequence[float]] = {}
        live = []
        for worker in self._counters.workers():
            add(totals, worker.rows)
            if worker.is_alive and worker.rows.get(WORKER, (0, 0))[1]:
                live.append(worker.rows)
        return totals, live, self.workers

    async def share(self) -> None:
        """Let the other workers know the present state periodically, until cancelled."""
        try:
            while True:
                await self._state()
                await asyncio.sleep(INTERVAL)
        finally:
            self._follow()
            self._counters.row(WORKER, 2)[1] = 0

    async def _state(self) -> None:
        """State the gauges; what is gone becomes zero."""
        gauges = await self.gauges()
        for key in [*self._counters.rows]:
            if key[0] in (CONNECTIONS, MEMORY) and key not in gauges:
                row = self._counters.row(key, 0)
                row[:] = memoryview(bytes(row.nbytes)).cast("q")
        for key, numbers in gauges.items():
            row = self._counters.row(key, len(numbers))
            for position, number in enumerate(numbers):
                row[position] = number
        self._follow()
        row = self._counters.row(WORKER, 2)
        if not self._serves:
            self._serves = True
            row[0] += 1
        row[1] = 1

    def _follow(self) -> None:
        """Count what others have counted since the last call."""
        for key, total in self.totals().items():
            self._counters.row(key, 1)[0] += total - self._counted[key]
            self._counted[key] = total


def add(totals: dict[Key, Sequence[float]], rows: Rows) -> None:
    """Add the rows of a worker to the sums over several."""
    for key, numbers in rows.items():
        before = totals.get(key)
        totals[key] = numbers if before is None else [*map(sum, zip(before, numbers, strict=True))]
