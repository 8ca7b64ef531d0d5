"""Counters of one worker: requests, bytes, and seconds by phase; its present state; sums of both.

A request costs a few look-ups and additions. Nothing takes a lock: only the event loop counts.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
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
_PHASE = len(BUCKETS) + 2
#: The first parts of the keys of rows.
_REQUESTS, _PHASES, _EVENT, _DROPPED = "requests", "phases", "device event", "dropped log lines"
_GAUGES, _CONNECTIONS, _MEMORY = "gauges", "connections", "device memory"
#: What a gauge has whose subject is gone.
_GONE = -1


class _Requests(dict[Labels, "memoryview[int]"]):
    """Number of requests, bytes of their bodies, bytes of the responses' bodies."""

    def __init__(self, counters: Counters) -> None:
        super().__init__()
        self._counters = counters

    def __missing__(self, labels: Labels) -> memoryview[int]:
        row = self[labels] = self._counters.row((_REQUESTS, *labels), 3)
        return row


class _Phases(dict[str, "list[memoryview[float]]"]):
    """By size class, the numbers of each phase."""

    def __init__(self, counters: Counters) -> None:
        super().__init__()
        self._counters = counters

    def __missing__(self, size: str) -> list[memoryview[float]]:
        row = self._counters.row((_PHASES, size), _PHASE * len(PHASES), "d")
        phases = self[size] = [row[at : at + _PHASE] for at in range(0, len(row), _PHASE)]
        return phases


class Counts:
    """Counts requests in the counters of this process."""

    def __init__(self, counters: Counters) -> None:
        self._counters = counters
        self.requests = _Requests(counters)
        self.phases = _Phases(counters)
        #: What was counted of others' counters.
        self._counted: Counter[Key] = Counter()

    def follow(self, device_events: Mapping[tuple[str, str], int], dropped_lines: int) -> None:
        """Count what others have counted since the last call: events of devices, lines dropped."""
        totals: dict[Key, int] = {
            (_EVENT, *key): count for key, count in list(device_events.items())
        }
        totals[_DROPPED,] = dropped_lines
        for key, total in totals.items():
            self._counters.row(key, 1)[0] += total - self._counted[key]
            self._counted[key] = total

    def state(self, gauges: Gauges) -> None:
        """Let the other workers know the present state of this one."""
        present: dict[Key, Sequence[int]] = {
            (_GAUGES,): (gauges.bytes_in_flight, gauges.bytes_in_flight_limit, gauges.is_ready),
            **{(_CONNECTIONS, state): (count,) for state, count in gauges.connections.items()},
            **{(_MEMORY, device): sizes for device, sizes in gauges.device_memory.items()},
        }
        for key in self._counters.own_keys():
            if key[0] in (_CONNECTIONS, _MEMORY) and key not in present:
                self._counters.row(key, 1)[0] = _GONE
        for key, numbers in present.items():
            row = self._counters.row(key, len(numbers))
            for position, number in enumerate(numbers):
                row[position] = number

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
        if not job.is_sent:
            return
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


@dataclass(frozen=True, slots=True)
class Gauges:
    """The state of one worker. Sizes are in bytes; ``connections`` are numbers by state."""

    bytes_in_flight: int = 0
    bytes_in_flight_limit: int = 0
    is_ready: bool = True
    connections: dict[str, int] = field(default_factory=dict)
    #: Used and total bytes by device.
    device_memory: Mapping[str, Sequence[int]] = field(default_factory=dict)

    @classmethod
    def of(cls, rows: Mapping[Key, Sequence[float]]) -> Gauges:
        """The state that a worker has let the others know by :meth:`Counts.state`."""
        in_flight, limit, is_ready = rows.get((_GAUGES,), (0, 0, 0))
        connections, memory = (
            {key[1]: row for key, row in rows.items() if key[0] == kind and row[0] != _GONE}
            for kind in (_CONNECTIONS, _MEMORY)
        )
        return cls(
            bytes_in_flight=int(in_flight),
            bytes_in_flight_limit=int(limit),
            is_ready=bool(is_ready),
            connections={state: int(count) for state, (count,) in connections.items()},
            device_memory={device: [int(n) for n in sizes] for device, sizes in memory.items()},
        )


class Totals:
    """The sums of what several workers have counted."""

    def __init__(self) -> None:
        #: Number of requests, bytes of their bodies, bytes of the responses' bodies.
        self.requests: defaultdict[Labels, list[int]] = defaultdict(lambda: [0, 0, 0])
        #: By size class: of each phase the count of each bucket, then the sum in seconds.
        self.phases: defaultdict[str, list[float]] = defaultdict(
            lambda: [0.0] * (_PHASE * len(PHASES))
        )
        #: By device and event, how often it happened.
        self.device_events: Counter[tuple[str, str]] = Counter()
        #: Lines of the log for which there was no room.
        self.dropped_lines = 0

    def add(self, rows: Mapping[Key, Sequence[float]]) -> None:
        """Add the rows of a worker."""
        for key, numbers in rows.items():
            match key:
                case (kind, *labels) if kind == _REQUESTS:
                    route, dialect, dtype, backend, status, code = labels
                    row = self.requests[route, dialect, dtype, backend, status, code]
                    for position, number in enumerate(numbers):
                        row[position] += int(number)
                case (kind, size) if kind == _PHASES:
                    phases = self.phases[size]
                    for position, number in enumerate(numbers):
                        phases[position] += number
                case (kind, device, event) if kind == _EVENT:
                    self.device_events[device, event] += int(numbers[0])
                case (kind,) if kind == _DROPPED:
                    self.dropped_lines += int(numbers[0])

    def phase_rows(self, size: str) -> list[list[float]]:
        """The numbers of each phase of a size class."""
        row = self.phases[size]
        return [row[at : at + _PHASE] for at in range(0, len(row), _PHASE)]
