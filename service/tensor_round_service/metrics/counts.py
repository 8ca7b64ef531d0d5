"""Counters of one process: requests, bytes, and seconds by phase; and its present state.

A request costs a few look-ups and additions. Nothing takes a lock: only the event loop counts.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from time import perf_counter
from typing import Any

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


class Counts:
    """Counters of one process; they can be added up and serialized as JSON."""

    def __init__(self, device_events: Counter[tuple[str, str]] | None = None) -> None:
        #: Number of requests, bytes of their bodies, bytes of the responses' bodies.
        self.requests: defaultdict[Labels, list[int]] = defaultdict(lambda: [0, 0, 0])
        #: By size class: of each phase the count of each bucket, then the sum in seconds.
        self.phases: defaultdict[str, list[list[float]]] = defaultdict(
            lambda: [[0.0] * (len(BUCKETS) + 2) for _ in PHASES]
        )
        #: By device and event, how often it happened; the backend counts.
        self.device_events = Counter() if device_events is None else device_events

    def request(self, labels: Labels, received: int, sent: int) -> None:
        """Count a request, and the bytes of its body and of the response's."""
        row = self.requests[labels]
        row[0] += 1
        row[1] += received
        row[2] += sent

    def job_ended(self, job: Job) -> None:
        """Count a successful request with a tensor, and the seconds of its phases.

        One function, as it is a tenth of what a small request takes.
        """
        route, received, sent = job.traffic
        dialect, dtype = job.labels
        row = self.requests[route, dialect, dtype, job.executed_by, "200", ""]
        row[0] += 1
        row[1] += received
        row[2] += sent
        receiving, queueing, executing, sending = self.phases[
            _CLASS_OF_BITS[(sent - 1).bit_length()]
        ]
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

    def as_data(self) -> dict[str, Any]:
        """The counts as JSON values."""
        requests = [[*labels, *row] for labels, row in self.requests.items()]
        events = [[*key, count] for key, count in self.device_events.items()]
        return {"requests": requests, "phases": dict(self.phases), "device_events": events}

    def add(self, data: dict[str, Any]) -> None:
        """Add the counters of another process, in the form of :meth:`as_data`."""
        for route, dialect, dtype, backend, status, code, *numbers in data["requests"]:
            row = self.requests[route, dialect, dtype, backend, status, code]
            row[:] = map(sum, zip(row, numbers, strict=True))
        for device, event, count in data["device_events"]:
            self.device_events[device, event] += count
        for name, phases in data["phases"].items():
            for mine, others in zip(self.phases[name], phases, strict=True):
                mine[:] = map(sum, zip(mine, others, strict=True))


@dataclass(frozen=True, slots=True)
class Gauges:
    """The state of one worker. Sizes are in bytes; ``connections`` are numbers by state."""

    bytes_in_flight: int = 0
    bytes_in_flight_limit: int = 0
    is_ready: bool = True
    connections: dict[str, int] = field(default_factory=dict)
    #: Used and total bytes by device.
    device_memory: Mapping[str, Sequence[int]] = field(default_factory=dict)
