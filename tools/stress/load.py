"""64 KiB of float32 on 32 connections, for minutes: no error, no wrong byte."""

from __future__ import annotations

from bench.load_generator.generator import Exchange, LoadGenerator

from support.cases.drawn_tensors import DrawnTensor
from support.http.native_form import ieee754
from support.services.server import Service

from .metrics import MIB, ProcessMetrics, milliseconds
from .report import Report

CONNECTIONS = 32
TENSOR_BYTES = 64 << 10


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


def run(minutes: float) -> Report:
    """Every connection sends other tensors than its neighbours; every response is compared."""
    with Service() as service:
        with LoadGenerator(
            service.port,
            exchanges(TENSOR_BYTES, 2 * CONNECTIONS - 1),
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
