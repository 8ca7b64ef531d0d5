"""200 clients of 64 MiB each want twelve times the budget: the process lives, nobody is misled."""

from __future__ import annotations

from gauges.quantiles import milliseconds
from gauges.vitals import MIB, Vitals, family, forget_peaks
from support.services.server import Service

from .confinement import Confinement
from .storm import Storm, exchanges
from .verdict import Verdict

MINUTES = 1.0
CLIENTS = 200
TENSOR_BYTES = 64 * MIB
BUDGET = 1024 * MIB
#: What a service may need beside its budget.
BESIDE = 200 * MIB


def run(minutes: float) -> Verdict:
    """Refused clients come again at once; beyond the limit the system would kill the service."""
    with (
        Confinement(BUDGET + BESIDE) as confinement,
        Service("--max-bytes-in-flight", str(BUDGET)) as service,
    ):
        confinement.take_in(family(service.pid))
        forget_peaks(service.pid)
        pairs = exchanges(TENSOR_BYTES, 2)
        with Storm(service.port, pairs, connections=CLIENTS, seconds=minutes * 60) as storm:
            outcome = storm.outcome()
        lives = service.process.poll() is None
        vitals = Vitals.of(service.pid)
    # What the system has once for all processes, and takes back when it wants to, is not counted.
    peak = vitals.peak_rss - vitals.files
    verdict = Verdict(
        f"{outcome.offered:,} requests in {minutes:g} min: {outcome.right_in_time:,} right, "
        f"{outcome.statuses.get('503', 0):,} told 503 (p50 {milliseconds(outcome.refusal_p50)}), "
        f"{outcome.wrong} wrong, {outcome.resets} lost; peak memory {peak / MIB:.0f} MiB "
        f"and {vitals.files / MIB:.0f} of code, "
        + ("under a real limit" if confinement.is_real else "(no limit could be set here)"),
        outcome.faults(503),
    )
    verdict.hold("the process died", lives)
    verdict.hold(f"{outcome.resets} connections ended without an answer", outcome.resets == 0)
    verdict.hold("nobody was served", outcome.right_in_time > 0)
    verdict.hold("nobody was refused: it was no overload", "503" in outcome.statuses)
    verdict.hold("more memory than the budget and 200 MiB", peak < BUDGET + BESIDE)
    return verdict
