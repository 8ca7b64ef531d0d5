"""Four times the requests that can be served: the goodput stays, the others get 503.

Capacity is what the service does for as many connections as its budget has room for, each sending
its next request as soon as it has its response. Overload is four times that rate, whatever becomes
of the requests: no client waits the second of Retry-After. One load generator does both; it and the
service share the machine's cores.
"""

from __future__ import annotations

import statistics
import threading
import time

from bench.load_generator.generator import LoadGenerator, Outcome
from bench.measuring.processes import reset_peaks

from support.services.server import Service

from .load import exchanges
from .metrics import MIB, ProcessMetrics, milliseconds, quantile
from .report import Report

TENSOR_BYTES = 64 * MIB
#: Tensors that the budget has room for: enough to keep two cores busy.
ROOM = 4
TIMES = 4
#: The most connections of the overload; those with a request under way are open.
CONNECTIONS = 200
#: Measurements of capacity and overload, in turn, as the machine's own noise comes and goes.
ROUNDS = 4
#: What a service may need beside its budget.
BESIDE = 200 * MIB
#: Seconds between two requests for /livez.
PROBE_INTERVAL = 0.02
#: Of one core, beyond which the load generator is the limit.
BUSIEST = 0.9


class Probe(threading.Thread):
    """Gets /livez on a fresh connection, again and again, as an orchestrator does."""

    def __init__(self, service: Service) -> None:
        super().__init__(daemon=True)
        self._service = service
        self._over = threading.Event()
        self.durations: list[float] = []
        self.failures = 0

    def run(self) -> None:
        """Until :meth:`stop`."""
        while not self._over.wait(PROBE_INTERVAL):
            began = time.monotonic()
            try:
                self.failures += self._service.get("/livez").status != 200
            except OSError:
                self.failures += 1
            self.durations.append(time.monotonic() - began)

    def stop(self) -> None:
        """Wait for the last response."""
        self._over.set()
        self.join()


def run(minutes: float) -> Report:
    """Capacity for a fifth of the time, overload for the rest."""
    # A sixteenth is kept for small requests.
    budget = ROOM * TENSOR_BYTES * 16 // 15 + MIB
    requests = exchanges(TENSOR_BYTES, 3)
    peaks: list[Outcome] = []
    overloads: list[Outcome] = []
    with Service("--max-bytes-in-flight", str(budget)) as service:

        def loaded(connections: int, seconds: float, rate: float = 0) -> tuple[Outcome, Probe]:
            # The probe runs in either case: its cost is in both.
            probe = Probe(service)
            probe.start()
            with LoadGenerator(
                service.port, requests, connections=connections, seconds=seconds, rate=rate
            ) as generator:
                outcome = generator.outcome()
            probe.stop()
            return outcome, probe

        reset_peaks(service.pid)
        durations: list[float] = []
        failures = 0
        for _ in range(ROUNDS):
            peaks.append(loaded(ROOM, minutes * 15 / ROUNDS)[0])
            rate = TIMES * statistics.mean(each.rate for each in peaks)
            outcome, probe = loaded(CONNECTIONS, minutes * 60 / ROUNDS, rate)
            overloads.append(outcome)
            durations += probe.durations
            failures += probe.failures
        metrics = ProcessMetrics.of(service.pid)
    return _report(peaks, overloads, durations, failures, metrics, budget)


def _report(
    peaks: list[Outcome],
    overloads: list[Outcome],
    durations: list[float],
    failures: int,
    metrics: ProcessMetrics,
    budget: int,
) -> Report:
    capacity = sum(each.right_in_time for each in peaks) / sum(each.seconds for each in peaks)
    if not capacity:
        return Report("no request was served in time", ["there is no capacity to compare with"])
    seconds = sum(each.seconds for each in overloads)
    goodput = sum(each.right_in_time for each in overloads) / seconds
    offered = sum(each.offered for each in overloads)
    refused = sum(each.statuses.get("503", 0) for each in overloads)
    resets = sum(each.resets for each in overloads)
    busiest = max(each.busy for each in (*peaks, *overloads))
    livez = quantile(durations, 0.99)
    refusal = max(each.refusal_p99 for each in overloads)
    report = Report(
        f"{ROOM} x {TENSOR_BYTES // MIB} MiB at a time: {capacity:,.1f} a second; "
        f"{offered / seconds / capacity:.1f} times that offered: {goodput:,.1f} a second right "
        f"({goodput / capacity:.0%}), {refused / seconds:,.1f} told 503 (p99 "
        f"{milliseconds(refusal)}), {resets} resets; livez p99 {milliseconds(livez)}; peak memory "
        f"{metrics.own_peak / MIB:.0f} MiB and {metrics.files / MIB:.0f} of code; generator at "
        f"{busiest:.0%} of a core at the most",
        [fault for each in peaks for fault in each.faults()]
        + [fault for each in overloads for fault in each.faults(503)],
    )
    report.expect("goodput below 90 % of capacity", goodput >= 0.9 * capacity)
    report.expect("fewer requests than four times capacity", offered >= 3.6 * capacity * seconds)
    report.expect("1 % resets or more", resets < offered / 100)
    report.expect(f"{failures} times no response from /livez", failures == 0)
    report.expect("livez p99 of 100 ms or more", livez < 0.1)
    report.expect("more memory than the budget and 200 MiB", metrics.own_peak < budget + BESIDE)
    report.expect("the load generator is the limit", busiest < BUSIEST)
    return report
