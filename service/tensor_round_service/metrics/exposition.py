"""Names and values of the metrics, in Prometheus' text format or OpenMetrics.

prometheus-client serializes them: it is the reference implementation, without dependencies.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import accumulate

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
from .counts import BUCKETS, Counts, Gauges

PREFIX = "tensor_round"
#: The labels of a request, in the order of :data:`.counts.Labels`.
REQUEST_LABELS = ("route", "dialect", "dtype", "backend", "status", "code")


@dataclass(frozen=True, slots=True)
class Workers:
    """The workers of a service: how many there should be, have been started, and the live ones."""

    configured: int
    starts: int
    live: list[Gauges]


def exposition(
    counts: Counts, workers: Workers, info: dict[str, str], accept: str
) -> tuple[bytes, str]:
    """The text of all metrics, in the format that ``accept`` prefers, and its media type."""
    registry = CollectorRegistry()
    registry.register(_Families(list(_families(counts, workers, info))))
    encode, media_type = choose_encoder(accept)
    return encode(registry), media_type


class _Families(Collector):
    def __init__(self, families: list[Metric]) -> None:
        self._families = families

    def collect(self) -> Iterable[Metric]:
        return self._families


def _families(counts: Counts, workers: Workers, info: dict[str, str]) -> Iterator[Metric]:
    yield InfoMetricFamily(f"{PREFIX}_build", "Version of the service, and its backend.", info)
    requests = CounterMetricFamily(
        f"{PREFIX}_requests",
        "Requests that had a response. code is that of a refusal, else empty.",
        labels=REQUEST_LABELS,
    )
    received: Counter[str] = Counter()
    sent: Counter[str] = Counter()
    for labels, (count, nbytes, responded) in counts.requests.items():
        requests.add_metric(labels, count)
        received[labels[0]] += nbytes
        sent[labels[0]] += responded
    yield requests
    for name, text, by_route in (
        ("received_bytes", "Bytes of requests' bodies.", received),
        ("sent_bytes", "Bytes of responses' bodies.", sent),
    ):
        traffic = CounterMetricFamily(f"{PREFIX}_{name}", text, labels=("route",))
        for route, total in by_route.items():
            traffic.add_metric((route,), total)
        yield traffic
    yield _phases(counts)
    yield from _gauges(workers)
    yield from _devices(counts, workers.live)


def _phases(counts: Counts) -> Metric:
    family = HistogramMetricFamily(
        f"{PREFIX}_phase_seconds",
        "Seconds that tensors took to be received, to wait for a thread, to be rounded, and to be "
        "sent; size is the smallest of some sizes that the body does not exceed.",
        labels=("phase", "size"),
    )
    bounds = [*map(str, BUCKETS), "+Inf"]
    for size, phases in counts.phases.items():
        for phase, (*buckets, seconds) in zip(PHASES, phases, strict=True):
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
    sums: dict[str, tuple[str, int]] = {
        "workers": ("Worker processes that serve.", len(live)),
        "workers_configured": ("Worker processes that should serve.", workers.configured),
        "bytes_in_flight": (
            "Bytes that requests hold now.",
            sum(worker.bytes_in_flight for worker in live),
        ),
        "bytes_in_flight_limit": (
            "Bytes that requests may hold together (MAX_BYTES_IN_FLIGHT).",
            sum(worker.bytes_in_flight_limit for worker in live),
        ),
        "ready": (
            "Workers that take requests and whose device works.",
            sum(worker.is_ready for worker in live),
        ),
    }
    for name, (text, value) in sums.items():
        yield GaugeMetricFamily(f"{PREFIX}_{name}", text, value)
    connections = GaugeMetricFamily(
        f"{PREFIX}_connections", "Open connections, by what they wait for.", labels=("state",)
    )
    states = sorted({state for worker in live for state in worker.connections})
    for state in states:
        total = sum(worker.connections.get(state, 0) for worker in live)
        connections.add_metric((state,), total)
    yield connections


def _devices(counts: Counts, workers: list[Gauges]) -> Iterator[Metric]:
    events = CounterMetricFamily(
        f"{PREFIX}_device_events",
        "Events on devices: out_of_memory, failed, lost, and fallback: NumPy rounded the tensor.",
        labels=("device", "event"),
    )
    for key, count in counts.device_events.items():
        events.add_metric(key, count)
    yield events
    # Workers share devices, and each reports the memory of all processes.
    memory = {device: info for worker in workers for device, info in worker.device_memory.items()}
    for index, name in enumerate(("used", "total")):
        family = GaugeMetricFamily(
            f"{PREFIX}_device_memory_{name}_bytes",
            f"Memory of the device in bytes, {name}, by all processes.",
            labels=("device",),
        )
        for device, info in memory.items():
            family.add_metric((device,), info[index])
        yield family
