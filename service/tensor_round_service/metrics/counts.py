"""Counters of one process: requests, bytes, and seconds by phase.

A request costs a few look-ups and additions. Nothing takes a lock: only the event loop counts.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from time import perf_counter
from typing import Any

from ..engine.job import Job

#: Labels of a request: route, dialect, dtype, backend, status, code. Each has few values.
Labels = tuple[str, str, str, str, str, str]

PHASES = ("receive", "queue", "execute", "send")
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
    next((name for name, most in SIZES if 1 << bits <= most), _LARGEST) for bits in range(26)
)


class Counts:
    """Counters of one process; they can be added up and serialized as JSON."""

    def __init__(self) -> None:
        self.requests: defaultdict[Labels, int] = defaultdict(int)
        #: By route: bytes of requests' bodies, and of responses'.
        self.received: defaultdict[str, int] = defaultdict(int)
        self.sent: defaultdict[str, int] = defaultdict(int)
        #: By size class: of each phase the count of each bucket.
        self.buckets: defaultdict[str, list[list[int]]] = defaultdict(
            lambda: [[0] * (len(BUCKETS) + 1) for _ in PHASES]
        )
        #: By size class: the seconds of each phase.
        self.seconds: defaultdict[str, list[float]] = defaultdict(lambda: [0.0] * len(PHASES))

    def request(self, labels: Labels, received: int, sent: int) -> None:
        """Count a request, and the bytes of its body and of the response's."""
        self.requests[labels] += 1
        self.received[labels[0]] += received
        self.sent[labels[0]] += sent

    def job_ended(self, job: Job) -> None:
        """Count a successful request with a tensor, and the seconds of its phases.

        One function, as it is a tenth of what a small request takes.
        """
        route, received, sent = job.traffic
        dialect, dtype = job.labels
        self.requests[route, dialect, dtype, job.executed_by, "200", ""] += 1
        self.received[route] += received
        self.sent[route] += sent
        size = _CLASS_OF_BITS[min(max(sent - 1, 0).bit_length(), 25)]
        receive, queue, execute = job.receive_seconds, job.queue_seconds, job.execute_seconds
        send = perf_counter() - job.sending_since
        of_receive, of_queue, of_execute, of_send = self.buckets[size]
        of_receive[bisect_left(BUCKETS, receive)] += 1
        of_queue[bisect_left(BUCKETS, queue)] += 1
        of_execute[bisect_left(BUCKETS, execute)] += 1
        of_send[bisect_left(BUCKETS, send)] += 1
        seconds = self.seconds[size]
        seconds[0] += receive
        seconds[1] += queue
        seconds[2] += execute
        seconds[3] += send

    def as_data(self) -> dict[str, Any]:
        """The counts as JSON values."""
        return {
            "requests": [[*labels, count] for labels, count in self.requests.items()],
            "received": dict(self.received),
            "sent": dict(self.sent),
            "buckets": dict(self.buckets),
            "seconds": dict(self.seconds),
        }

    def add(self, data: dict[str, Any]) -> None:
        """Add the counters of another process, in the form of :meth:`as_data`."""
        for *labels, count in data["requests"]:
            route, dialect, dtype, backend, status, code = labels
            self.requests[route, dialect, dtype, backend, status, code] += count
        for route, nbytes in data["received"].items():
            self.received[route] += nbytes
        for route, nbytes in data["sent"].items():
            self.sent[route] += nbytes
        for name, phases in data["buckets"].items():
            for mine, others in zip(self.buckets[name], phases, strict=True):
                mine[:] = map(sum, zip(mine, others, strict=True))
        for name, seconds in data["seconds"].items():
            self.seconds[name] = list(map(sum, zip(self.seconds[name], seconds, strict=True)))
