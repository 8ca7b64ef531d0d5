"""Names and values of the metrics, in Prometheus' text format or OpenMetrics.

prometheus-client serializes them: it is the reference implementation, without dependencies.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any, TypeVar

from prometheus_client import CollectorRegistry
from prometheus_client.exposition import choose_encoder
from prometheus_client.metrics_core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    InfoMetricFamily,
    Metric,
)
from prometheus_client.registry import Collector

from ..engine.job import PHASES
from .counts import BUCKETS, Gauges, Totals

PREFIX = "tensor_round"
#: The labels of a request, in the order of :data:`.counts.Labels`.
REQUEST_LABELS = ("route", "dialect", "dtype", "backend", "status", "code")

Family = TypeVar("Family", CounterMetricFamily, GaugeMetricFamily)


@dataclass(frozen=True, slots=True)
class Workers:
    """The workers of a service: how many there should be, have been started, and the live ones."""

    configured: int
    starts: int
    live: list[Gauges]


def exposition(
    totals: Totals, workers: Workers, info: dict[str, str], accept: str
) -> tuple[bytes, str]:
    """The text of all metrics, in the format that ``accept`` prefers, and its media type."""
    registry = CollectorRegistry()
    registry.register(_Families(list(_families(totals, workers, info))))
    encode, media_type = choose_encoder(accept)
    return encode(registry), media_type


class _Families(Collector):
    def __init__(self, families: list[Metric]) -> None:
        self._families = families

    def collect(self) -> Iterable[Metric]:
        return self._families


def _families(totals: Totals, workers: Workers, info: dict[str, str]) -> Iterator[Metric]:
    yield InfoMetricFamily(f"{PREFIX}_build", "Version of the service, and its backend.", info)
    received: Counter[tuple[str]] = Counter()
    sent: Counter[tuple[str]] = Counter()
    for (route, *_), (_, nbytes, responded) in totals.requests.items():
        received[route,] += nbytes
        sent[route,] += responded
    yield _family(
        CounterMetricFamily,
        "requests",
        "Requests that had a response; status is 499 where the caller left before it. code is that "
        "of a refusal, else empty.",
        REQUEST_LABELS,
        {labels: row[0] for labels, row in totals.requests.items()},
    )
    for name, text, by_route in (
        ("received_bytes", "Bytes of requests' bodies.", received),
        ("sent_bytes", "Bytes of responses' bodies.", sent),
    ):
        yield _family(CounterMetricFamily, name, text, ("route",), by_route)
    yield _phases(totals)
    yield from _gauges(workers)
    yield from _devices(totals, workers.live)
    yield CounterMetricFamily(
        f"{PREFIX}_log_lines_dropped",
        "Lines of the log that were dropped, because nobody read them or a disk was full.",
        totals.dropped_lines,
    )


def _family(
    kind: type[Family], name: str, text: str, labels: Sequence[str], values: Mapping[Any, float]
) -> Family:
    """A counter or gauge, by the values of its labels."""
    family = kind(f"{PREFIX}_{name}", text, labels=labels)
    for key, value in values.items():
        family.add_metric(key, value)
    return family


def _phases(totals: Totals) -> Metric:
    family = HistogramMetricFamily(
        f"{PREFIX}_phase_seconds",
        "Seconds that tensors took to be received, to wait for a thread, to be rounded, and to be "
        "sent; size is the smallest of some sizes that the body does not exceed.",
        labels=("phase", "size"),
    )
    bounds = [*map(str, BUCKETS), "+Inf"]
    for size in totals.phases:
        for phase, (*buckets, seconds) in zip(PHASES, totals.phase_rows(size), strict=True):
            rows = list(zip(bounds, accumulate(buckets), strict=True))
            family.add_metric((phase, size), rows, seconds)
    return family


def _gauges(workers: Workers) -> Iterator[Metric]:
    live = workers.live
    yield CounterMetricFamily(
        f"{PREFIX}_worker_starts",
        "Worker processes that have served since the start of the service.",
        workers.starts,
    )
    held = sum(worker.bytes_in_flight for worker in live)
    limit = sum(worker.bytes_in_flight_limit for worker in live)
    ready = sum(worker.is_ready for worker in live)
    for name, text, value in (
        ("workers", "Worker processes that serve.", len(live)),
        ("workers_configured", "Worker processes that should serve.", workers.configured),
        ("bytes_in_flight", "Bytes that requests hold now.", held),
        (
            "bytes_in_flight_limit",
            "Bytes that requests may hold together (MAX_BYTES_IN_FLIGHT).",
            limit,
        ),
        ("ready", "Workers that take requests and whose device works.", ready),
    ):
        yield GaugeMetricFamily(f"{PREFIX}_{name}", text, value)
    connections: Counter[tuple[str]] = Counter()
    for worker in live:
        connections.update({(state,): count for state, count in worker.connections.items()})
    text = "Open connections, by what they wait for."
    by_state = dict(sorted(connections.items()))
    yield _family(GaugeMetricFamily, "connections", text, ("state",), by_state)


def _devices(totals: Totals, workers: list[Gauges]) -> Iterator[Metric]:
    text = "Events on devices: out_of_memory, failed, lost, and fallback: NumPy rounded the tensor."
    labels = ("device", "event")
    yield _family(CounterMetricFamily, "device_events", text, labels, totals.device_events)
    # Workers share devices, and each reports the memory of all processes.
    memory = {device: info for worker in workers for device, info in worker.device_memory.items()}
    for index, name in enumerate(("used", "total")):
        yield _family(
            GaugeMetricFamily,
            f"device_memory_{name}_bytes",
            f"Memory of the device in bytes, {name}, by all processes.",
            ("device",),
            {(device,): info[index] for device, info in memory.items()},
        )
