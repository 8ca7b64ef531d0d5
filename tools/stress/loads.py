"""The load generator at a service: for minutes, against its budget, and beyond its capacity."""

from __future__ import annotations

import statistics
import threading
import time

from bench.load_generator.generator import Exchange, LoadGenerator, Outcome
from bench.measuring.processes import reset_peaks

from support.cases.array_cases import DrawnTensor
from support.http.native_form import ieee754
from support.services.server import Service

from .metrics import MIB, ProcessMetrics, Report, milliseconds, quantile

#: Of the row ``load``.
CONNECTIONS = 32
SMALL_BYTES = 64 << 10


def exchanges(nbytes: int, count: int) -> list[Exchange]:
    """Requests to round different float32 tensors, and the bodies of their responses."""
    made = []
    for number in range(count):
        x = DrawnTensor.of("float32", "ties_to_even", nbytes // 4, 997 * number, finite=True)
        head = (
            f"POST /round HTTP/1.1\r\nHost: x\r\nContent-Length: {nbytes}\r\n"
            f"Operator-Descriptor: {ieee754('float32', [x.x.size])}\r\n\r\n"
        )
        made.append((head.encode() + x.payload, x.result))
    return made


def load(minutes: float) -> Report:
    """Every connection sends other tensors than its neighbours; every response is compared."""
    with Service() as service:
        with LoadGenerator(
            service.port,
            exchanges(SMALL_BYTES, 2 * CONNECTIONS - 1),
            connections=CONNECTIONS,
            seconds=minutes * 60,
        ) as generator:
            outcome = generator.outcome()
        metrics = ProcessMetrics.of(service.pid)
    report = Report(
        f"{outcome.offered:,} requests in {minutes:g} min, {outcome.rate:,.0f} a second: "
        f"{outcome.right_in_time:,} right, {outcome.wrong} wrong, {outcome.resets} lost; "
        f"p50 {milliseconds(outcome.p50)}, p99 {milliseconds(outcome.p99)}; "
        f"peak memory {metrics.peak_rss / MIB:.0f} MiB; generator at {outcome.busy:.0%} of a core",
        outcome.faults(),
    )
    report.expect(f"{outcome.resets} connections ended before their response", outcome.resets == 0)
    report.expect("no request was sent", outcome.offered > 0)
    return report


#: Of the rows ``memory`` and ``overload``: the most connections, those with a request are open.
CLIENTS = 200
LARGE_BYTES = 64 * MIB
BUDGET = 1024 * MIB
#: What a service may need beside its budget.
BESIDE = 200 * MIB


def memory(minutes: float) -> Report:
    """Refused clients try again at once."""
    with Service("--max-bytes-in-flight", str(BUDGET)) as service:
        reset_peaks(service.pid)
        with LoadGenerator(
            service.port,
            exchanges(LARGE_BYTES, 2),
            connections=CLIENTS,
            seconds=minutes * 60,
        ) as generator:
            outcome = generator.outcome()
        lives = service.process.poll() is None
        metrics = ProcessMetrics.of(service.pid)
    report = Report(
        f"{outcome.offered:,} requests in {minutes:g} min: {outcome.right_in_time:,} right, "
        f"{outcome.statuses.get('503', 0):,} told 503 (p50 {milliseconds(outcome.refusal_p50)}), "
        f"{outcome.wrong} wrong, {outcome.resets} lost; peak memory {metrics.own_peak / MIB:.0f} "
        f"MiB and {metrics.files / MIB:.0f} of code",
        outcome.faults(503),
    )
    report.expect("the process died", lives)
    report.expect(f"{outcome.resets} connections ended without a response", outcome.resets == 0)
    report.expect("no request was served", outcome.right_in_time > 0)
    report.expect("no request was refused: it was no overload", "503" in outcome.statuses)
    report.expect("more memory than the budget and 200 MiB", metrics.own_peak < BUDGET + BESIDE)
    return report


#: Tensors that the budget has room for: enough to keep two cores busy.
ROOM = 4
TIMES = 4
#: Measurements of capacity and overload, in turn, as the machine's own noise comes and goes.
ROUNDS = 4
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


def overload(minutes: float) -> Report:
    """Four times the requests that can be served: the goodput stays, the others get 503.

    Capacity is what the service does for as many connections as its budget has room for, each
    sending its next request as soon as it has its response. Overload is four times that rate,
    whatever becomes of the requests: no client waits the second of Retry-After.
    """
    # A sixteenth is kept for small requests.
    budget = ROOM * LARGE_BYTES * 16 // 15 + MIB
    requests = exchanges(LARGE_BYTES, 3)
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
            outcome, probe = loaded(CLIENTS, minutes * 60 / ROUNDS, rate)
            overloads.append(outcome)
            durations += probe.durations
            failures += probe.failures
        metrics = ProcessMetrics.of(service.pid)
    return _of_overload(peaks, overloads, durations, failures, metrics, budget)


def _of_overload(
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
        f"{ROOM} x {LARGE_BYTES // MIB} MiB at a time: {capacity:,.1f} a second; "
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
