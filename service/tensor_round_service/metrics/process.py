"""What the system says of this process, by the names that Prometheus' clients have for it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

from prometheus_client import ProcessCollector
from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily, Metric

from .counts import CPU, PROCESS, Gauges, Rows

_COLLECTOR = ProcessCollector(registry=None)
#: Help of each gauge, and what becomes of the values of several workers.
_GAUGES: dict[str, tuple[str, Callable[[Iterable[float]], float]]] = {
    "process_resident_memory_bytes": ("Resident memory of the workers; shared pages of each.", sum),
    "process_virtual_memory_bytes": ("Virtual memory of the workers.", sum),
    "process_open_fds": ("Open file descriptors of the workers.", sum),
    "process_max_fds": ("File descriptors that the workers may open, each its part.", sum),
    "process_start_time_seconds": ("When the oldest worker started, in Unix time.", min),
}


def process_gauges() -> Gauges:
    """The gauges of this process, in whole numbers; none on systems other than Linux.

    Those whose files cannot be opened are missing. It takes some 0.2 ms, or more with many open
    files.
    """
    return {
        (PROCESS, family.name): (int(family.samples[0].value),)
        for family in _COLLECTOR.collect()
        if family.name in _GAUGES
    }


def process_families(totals: Rows, live: Sequence[Rows]) -> Iterator[Metric]:
    """The metrics of all workers: CPU time of those that have ended, too."""
    text = "User and system CPU time of all workers so far."
    yield CounterMetricFamily("process_cpu_seconds", text, totals[CPU][0] / 1e9)
    for name, (help_text, combined) in _GAUGES.items():
        values = [rows[PROCESS, name][0] for rows in live if (PROCESS, name) in rows]
        if values:
            yield GaugeMetricFamily(name, help_text, combined(values))
