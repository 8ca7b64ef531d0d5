"""64 KiB of float32 on 32 connections, for minutes: no error, no wrong byte."""

from __future__ import annotations

from gauges.quantiles import milliseconds
from gauges.vitals import MIB, Vitals
from support.services.server import Service

from .storm import Storm, exchanges
from .verdict import Verdict

MINUTES = 10.0
CONNECTIONS = 32
TENSOR_BYTES = 64 << 10


def run(minutes: float) -> Verdict:
    """Every connection sends other tensors than its neighbours, and every answer is compared."""
    with Service() as service:
        pairs = exchanges(TENSOR_BYTES, 2 * CONNECTIONS - 1)
        with Storm(service.port, pairs, connections=CONNECTIONS, seconds=minutes * 60) as storm:
            outcome = storm.outcome()
        vitals = Vitals.of(service.pid)
    verdict = Verdict(
        f"{outcome.offered:,} requests in {minutes:g} min, {outcome.rate:,.0f} a second: "
        f"{outcome.right_in_time:,} right, {outcome.wrong} wrong, {outcome.resets} lost; "
        f"p50 {milliseconds(outcome.p50)}, p99 {milliseconds(outcome.p99)}; "
        f"peak memory {vitals.peak_rss / MIB:.0f} MiB; generator at {outcome.busy:.0%} of a core",
        outcome.faults(),
    )
    verdict.hold(f"{outcome.resets} connections ended before their answer", outcome.resets == 0)
    verdict.hold("nothing was asked", outcome.offered > 0)
    return verdict
