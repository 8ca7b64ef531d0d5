"""Names and values of the metrics, in Prometheus' text format or OpenMetrics.

prometheus-client serializes them: it is the reference implementation, without dependencies.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import TypeVar

from prometheus_client.exposition import choose_encoder
from prometheus_client.metrics_core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    InfoMetricFamily,
    Metric,
)
from prometheus_client.registry import Collector

from ..counters import Key
from ..engine.job import PHASES
from .counts import (
    BUCKETS,
    CONNECTIONS,
    DROPPED,
    EVENT,
    IN_FLIGHT,
    MEMORY,
    PHASE_NUMBERS,
    REQUESTS,
    SIZE_CLASS,
    add,
)

PREFIX = "tensor_round"
#: The labels of a request, in the order of :data:`.counts.Labels`.
REQUEST_LABELS = ("route", "dialect", "dtype", "backend", "status", "code")

Rows = dict[Key, Sequence[float]]
Family = TypeVar("Family", CounterMetricFamily, GaugeMetricFamily)


@dataclass(frozen=True, slots=True)
class Workers:
    """The workers of a service: how many there should be, have started, and the rows of each."""

    configured: int
    starts: int
    live: list[Mapping[Key, Sequence[float]]]


def exposition(
    totals: Rows, workers: Workers, info: dict[str, str], accept: str
) -> tuple[bytes, str]:
    """The text of all metrics, in the format that ``accept`` prefers, and its media type."""
    encode, media_type = choose_encoder(accept)
    return encode(_Families(_families(totals, workers, info))), media_type


class _Families(Collector):
    """Families that are made already."""

    def __init__(self, families: Iterable[Metric]) -> None:
        self._families = families

    def collect(self) -> Iterable[Metric]:
        return self._families


def _families(totals: Rows, workers: Workers, info: dict[str, str]) -> Iterator[Metric]:
    yield InfoMetricFamily(f"{PREFIX}_build", "Version of the service, and its backend.", info)
    requests = _of(REQUESTS, totals)
    yield _family(
        CounterMetricFamily,
        "requests",
        "Requests that had a response; status is 499 where the caller left before it. code is that "
        "of a refusal, else empty.",
        REQUEST_LABELS,
        {labels: row[0] for labels, row in requests.items()},
    )
    for position, name, text in (
        (1, "received_bytes", "Bytes of requests' bodies."),
        (2, "sent_bytes", "Bytes of responses' bodies."),
    ):
        by_route: Counter[Key] = Counter()
        for (route, *_), row in requests.items():
            by_route[route,] += int(row[position])
        yield _family(CounterMetricFamily, name, text, ("route",), by_route)
    yield _phases(totals)
    yield from _gauges(workers)
    yield from _devices(totals, workers.live)
    yield CounterMetricFamily(
        f"{PREFIX}_log_lines_dropped",
        "Lines of the log that were dropped, because nobody read them or a disk was full.",
        totals[DROPPED,][0],
    )


def _of(kind: str, rows: Mapping[Key, Sequence[float]]) -> dict[Key, Sequence[float]]:
    """The rows of a kind, by the other parts of their keys."""
    return {key[1:]: numbers for key, numbers in rows.items() if key[0] == kind}


def _family(
    kind: type[Family], name: str, text: str, labels: Sequence[str], values: Mapping[Key, float]
) -> Family:
    """A counter or gauge, by the values of its labels."""
    family = kind(f"{PREFIX}_{name}", text, labels=labels)
    for key, value in values.items():
        family.add_metric(key, value)
    return family


def _phases(totals: Rows) -> Metric:
    family = HistogramMetricFamily(
        f"{PREFIX}_phase_seconds",
        "Seconds that tensors took to be received, to wait for a thread, to be rounded, and to be "
        "sent; size is the smallest of some sizes that the body does not exceed.",
        labels=("phase", "size"),
    )
    bounds = [*map(str, BUCKETS), "+Inf"]
    for (size,), numbers in _of(SIZE_CLASS, totals).items():
        for position, phase in enumerate(PHASES):
            *buckets, seconds = numbers[position * PHASE_NUMBERS :][:PHASE_NUMBERS]
            rows = list(zip(bounds, accumulate(buckets), strict=True))
            family.add_metric((phase, size), rows, seconds)
    return family


def _gauges(workers: Workers) -> Iterator[Metric]:
    yield CounterMetricFamily(
        f"{PREFIX}_worker_starts",
        "Worker processes that have served since the start of the service.",
        workers.starts,
    )
    sums: Rows = {}
    for rows in workers.live:
        add(sums, rows)
    in_flight, limit, ready = sums.get((IN_FLIGHT,), (0, 0, 0))
    for name, text, value in (
        ("workers", "Worker processes that serve.", len(workers.live)),
        ("workers_configured", "Worker processes that should serve.", workers.configured),
        ("bytes_in_flight", "Bytes that requests hold now.", in_flight),
        (
            "bytes_in_flight_limit",
            "Bytes that requests may hold together (MAX_BYTES_IN_FLIGHT).",
            limit,
        ),
        ("ready", "Workers that take requests and whose device works.", ready),
    ):
        yield GaugeMetricFamily(f"{PREFIX}_{name}", text, value)
    by_state = {state: row[0] for state, row in sorted(_of(CONNECTIONS, sums).items())}
    text = "Open connections, by what they wait for."
    yield _family(GaugeMetricFamily, "connections", text, ("state",), by_state)


def _devices(totals: Rows, live: Sequence[Mapping[Key, Sequence[float]]]) -> Iterator[Metric]:
    text = "Events on devices: out_of_memory, failed, lost, and fallback: NumPy rounded the tensor."
    events = {key: row[0] for key, row in _of(EVENT, totals).items()}
    yield _family(CounterMetricFamily, "device_events", text, ("device", "event"), events)
    # Workers share devices, and each reports the memory of all processes. A lost device has none.
    memory = {key: row for rows in live for key, row in _of(MEMORY, rows).items() if any(row)}
    for index, name in enumerate(("used", "total")):
        yield _family(
            GaugeMetricFamily,
            f"device_memory_{name}_bytes",
            f"Memory of the device in bytes, {name}, by all processes.",
            ("device",),
            {key: row[index] for key, row in memory.items()},
        )
