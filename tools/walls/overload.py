"""Four times the requests that can be served: so many are served as before, the rest told.

Capacity is what the service does for as many connections as its budget has room for, each
asking again as soon as it has its answer. Overload is four times that rate, whatever becomes of
the requests: nobody waits the second that Retry-After asks for. One generator process offers
either; it and the service share the machine's cores.
"""

from __future__ import annotations

import statistics
import threading
import time

from gauges.quantiles import milliseconds, quantile
from gauges.vitals import MIB, Vitals, forget_peaks
from support.services.server import Service

from .storm import BUSIEST, Outcome, Storm, exchanges
from .verdict import Verdict

MINUTES = 2.0
TENSOR_BYTES = 64 * MIB
#: Tensors that there is room for: enough to keep two cores busy.
ROOM = 4
TIMES = 4
#: Connections of the overload at the most; as many as have a request under way are open.
CONNECTIONS = 200
#: Measurements of capacity and overload, in turn: the machine's own noise comes and goes.
ROUNDS = 4
#: What a service may need beside its budget.
BESIDE = 200 * MIB
#: Seconds between two looks at /livez.
PROBE_INTERVAL = 0.02


class Probe(threading.Thread):
    """Asks for /livez on a fresh connection, again and again, as an orchestrator does."""

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
        """The last answer is in."""
        self._over.set()
        self.join()


def run(minutes: float) -> Verdict:
    """Capacity for a fifth of the time, overload for the rest."""
    # A sixteenth is kept for small requests.
    budget = ROOM * TENSOR_BYTES * 16 // 15 + MIB
    pairs = exchanges(TENSOR_BYTES, 3)
    peaks: list[Outcome] = []
    overloads: list[Outcome] = []
    with Service("--max-bytes-in-flight", str(budget)) as service:

        def storm(connections: int, seconds: float, rate: float = 0) -> tuple[Outcome, Probe]:
            # The probe asks in either case: what it costs is in both.
            probe = Probe(service)
            probe.start()
            with Storm(
                service.port, pairs, connections=connections, seconds=seconds, rate=rate
            ) as running:
                outcome = running.outcome()
            probe.stop()
            return outcome, probe

        forget_peaks(service.pid)
        durations: list[float] = []
        failures = 0
        for _ in range(ROUNDS):
            peaks.append(storm(ROOM, minutes * 15 / ROUNDS)[0])
            rate = TIMES * statistics.mean(each.rate for each in peaks)
            outcome, probe = storm(CONNECTIONS, minutes * 60 / ROUNDS, rate)
            overloads.append(outcome)
            durations += probe.durations
            failures += probe.failures
        vitals = Vitals.of(service.pid)
    return _judged(peaks, overloads, durations, failures, vitals, budget)


def _judged(
    peaks: list[Outcome],
    overloads: list[Outcome],
    durations: list[float],
    failures: int,
    vitals: Vitals,
    budget: int,
) -> Verdict:
    capacity = sum(each.right_in_time for each in peaks) / sum(each.seconds for each in peaks)
    seconds = sum(each.seconds for each in overloads)
    goodput = sum(each.right_in_time for each in overloads) / seconds
    offered = sum(each.offered for each in overloads)
    refused = sum(each.statuses.get("503", 0) for each in overloads)
    resets = sum(each.resets for each in overloads)
    busiest = max(each.busy for each in (*peaks, *overloads))
    own_memory = vitals.peak_rss - vitals.files
    livez = quantile(durations, 0.99)
    refusal = max(each.refusal_p99 for each in overloads)
    verdict = Verdict(
        f"{ROOM} x {TENSOR_BYTES // MIB} MiB at a time: {capacity:,.1f} a second; "
        f"{offered / seconds / capacity:.1f} times that offered: {goodput:,.1f} a second right "
        f"({goodput / capacity:.0%}), {refused / seconds:,.1f} told 503 (p99 "
        f"{milliseconds(refusal)}), {resets} resets; livez p99 {milliseconds(livez)}; peak memory "
        f"{own_memory / MIB:.0f} MiB and {vitals.files / MIB:.0f} of code; generator at "
        f"{busiest:.0%} of a core at the most",
        [fault for each in peaks for fault in each.faults()]
        + [fault for each in overloads for fault in each.faults(503)],
    )
    verdict.hold("goodput below 90 % of capacity", goodput >= 0.9 * capacity)
    verdict.hold("fewer were offered than four times capacity", offered >= 3.6 * capacity * seconds)
    verdict.hold("1 % resets or more", resets < offered / 100)
    verdict.hold(f"{failures} times /livez did not answer", failures == 0)
    verdict.hold("livez p99 of 100 ms or more", livez < 0.1)
    verdict.hold("more memory than the budget and 200 MiB", own_memory < budget + BESIDE)
    verdict.hold("it is the generator that has no more to give", busiest < BUSIEST)
    return verdict
