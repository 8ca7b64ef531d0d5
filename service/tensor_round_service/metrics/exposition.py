"""Names and values of the metrics, in Prometheus' text format or OpenMetrics.

prometheus-client serializes them: it is the reference implementation, without dependencies.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import accumulate, chain

from prometheus_client.exposition import choose_encoder
from prometheus_client.metrics_core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    InfoMetricFamily,
    Metric,
)
from prometheus_client.registry import Collector

from ..counters import REPLACEMENTS, Key
from ..engine.job import PHASES
from .counts import (
    BUCKETS,
    CONNECTIONS,
    DROPPED,
    DURATION,
    EVENT,
    EXPIRY,
    HISTOGRAM_NUMBERS,
    IN_FLIGHT,
    KEY_REQUESTS,
    MEMORY,
    REFUSED,
    REQUESTS,
    SIZE_CLASS,
    WORKER,
    Rows,
    add,
)
from .process import process_families

PREFIX = "tensor_round"
_BOUNDS = (*map(str, BUCKETS), "+Inf")
#: Labels and help of each counter. Those of a request have the order of the keys of rows.
_COUNTERS: dict[str, tuple[Key, str]] = {
    "requests": (
        ("route", "dialect", "dtype", "backend", "status", "code"),
        "Requests that had a response; status is 499 where the caller left before it. code is that "
        "of a refusal, else empty.",
    ),
    "key_requests": (("key",), "Requests that were let in with an API key, by its label."),
    "received_bytes": (("route",), "Bytes of requests' bodies."),
    "sent_bytes": (("route",), "Bytes of responses' bodies."),
    "worker_starts": ((), "Worker processes that have served since the start of the service."),
    "worker_replacements": (
        (),
        "Worker processes that have died, hung or failed to start, and were replaced.",
    ),
    "connections_refused": ((), "Connections that were refused for lack of file descriptors."),
    "device_events": (
        ("device", "event"),
        "Events on devices: out_of_memory, failed, lost, and fallback: NumPy rounded the tensor.",
    ),
    "log_lines_dropped": (
        (),
        "Lines of the log that were dropped because of a slow reader or a full disk.",
    ),
}
#: The same of each gauge.
_GAUGES: dict[str, tuple[Key, str]] = {
    "workers": ((), "Worker processes that serve."),
    "workers_configured": ((), "Worker processes that should serve."),
    "bytes_in_flight": ((), "Bytes that requests hold now."),
    "bytes_in_flight_limit": ((), "Bytes that requests may hold together (MAX_BYTES_IN_FLIGHT)."),
    "ready": ((), "Workers that take requests and whose device works."),
    "connections": (("state",), "Open connections, by state."),
    "certificate_expiry_timestamp_seconds": (
        (),
        "When the first certificate of SSL_CERTFILE expires, in Unix time; without TLS no value.",
    ),
    "device_memory_used_bytes": (("device",), "Memory in use on the device, by all processes."),
    "device_memory_total_bytes": (("device",), "Memory of the device."),
}


def exposition(
    totals: Rows, live: Sequence[Rows], configured: int, info: dict[str, str], accept: str
) -> tuple[bytes, str]:
    """The text of all metrics, in the format that ``accept`` prefers, and its media type.

    ``totals`` are the sums over all workers, ``live`` the rows of those that serve, of which there
    should be ``configured``.
    """
    encode, media_type = choose_encoder(accept)
    values = _values(totals, live, configured)
    families = chain(_families(totals, values, info), process_families(totals, live))
    return encode(_Families(families)), media_type


class _Families(Collector):
    """Families that are made already."""

    def __init__(self, families: Iterable[Metric]) -> None:
        self._families = families

    def collect(self) -> Iterable[Metric]:
        return self._families


def _families(
    totals: Rows, values: Mapping[str, Mapping[Key, float]], info: dict[str, str]
) -> Iterator[Metric]:
    yield InfoMetricFamily(f"{PREFIX}_build", "Version of the service, and its backend.", info)
    yield _durations(totals)
    yield _phases(totals)
    for kind, table in ((CounterMetricFamily, _COUNTERS), (GaugeMetricFamily, _GAUGES)):
        for name, (labels, text) in table.items():
            family = kind(f"{PREFIX}_{name}", text, labels=labels)
            for key, value in values[name].items():
                family.add_metric(key, value)
            yield family


def _values(totals: Rows, live: Sequence[Rows], configured: int) -> dict[str, Mapping[Key, float]]:
    """The values of counters and gauges, by the values of their labels."""
    requests = _of(REQUESTS, totals)
    received, sent = Counter[Key](), Counter[Key]()
    for (route, *_), (_, received_bytes, sent_bytes) in requests.items():
        received[route,] += int(received_bytes)
        sent[route,] += int(sent_bytes)
    sums: dict[Key, Sequence[float]] = {}
    for rows in live:
        add(sums, rows)
    in_flight, limit, ready = sums.get((IN_FLIGHT,), (0, 0, 0))
    # Workers share devices, and each reports the memory of all processes. A lost device has none.
    expiries = [rows[EXPIRY][0] for rows in live if EXPIRY in rows]
    memory = {key: row for rows in live for key, row in _of(MEMORY, rows).items() if any(row)}
    return {
        "requests": {labels: row[0] for labels, row in requests.items()},
        "key_requests": {label: row[0] for label, row in _of(KEY_REQUESTS, totals).items()},
        "received_bytes": received,
        "sent_bytes": sent,
        "worker_starts": {(): totals[WORKER][0]},
        "worker_replacements": {(): totals.get(REPLACEMENTS, (0,))[0]},
        "connections_refused": {(): totals[REFUSED][0]},
        "workers": {(): len(live)},
        "workers_configured": {(): configured},
        "bytes_in_flight": {(): in_flight},
        "bytes_in_flight_limit": {(): limit},
        "ready": {(): ready},
        "connections": {key: row[0] for key, row in sorted(_of(CONNECTIONS, sums).items())},
        "device_events": {key: row[0] for key, row in _of(EVENT, totals).items()},
        "certificate_expiry_timestamp_seconds": {(): min(expiries)} if expiries else {},
        "device_memory_used_bytes": {device: row[0] for device, row in memory.items()},
        "device_memory_total_bytes": {device: row[1] for device, row in memory.items()},
        "log_lines_dropped": {(): totals[DROPPED][0]},
    }


def _of(kind: str, rows: Rows) -> dict[Key, Sequence[float]]:
    """The rows of a kind, by the other parts of their keys."""
    return {key[1:]: numbers for key, numbers in rows.items() if key[0] == kind}


def _durations(totals: Rows) -> Metric:
    family = HistogramMetricFamily(
        f"{PREFIX}_request_duration_seconds",
        "Seconds from the end of a request's head until its response was sent, or its caller left.",
        labels=("route", "status"),
    )
    for labels, numbers in _of(DURATION, totals).items():
        family.add_metric(labels, *_histogram(numbers))
    return family


def _phases(totals: Rows) -> Metric:
    family = HistogramMetricFamily(
        f"{PREFIX}_phase_seconds",
        "Seconds that tensors took to be received, to wait for a thread, to be rounded, and to be "
        "sent; size is an upper bound of the body's bytes.",
        labels=("phase", "size"),
    )
    for (size,), numbers in _of(SIZE_CLASS, totals).items():
        for position, phase in enumerate(PHASES):
            own = numbers[position * HISTOGRAM_NUMBERS :][:HISTOGRAM_NUMBERS]
            family.add_metric((phase, size), *_histogram(own))
    return family


def _histogram(numbers: Sequence[float]) -> tuple[list[tuple[str, float]], float]:
    """The buckets of a histogram by their upper bounds, and its sum."""
    *buckets, seconds = numbers
    return list(zip(_BOUNDS, accumulate(buckets), strict=True)), seconds
