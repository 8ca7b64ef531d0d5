"""200 clients of 64 MiB each need twelve times the budget: the process lives."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from bench.load_generator.generator import LoadGenerator
from bench.measuring.processes import family, reset_peaks

from support.services.server import Service

from .load import exchanges
from .metrics import MIB, ProcessMetrics, milliseconds
from .report import Report

CLIENTS = 200
TENSOR_BYTES = 64 * MIB
BUDGET = 1024 * MIB
#: What a service may need beside its budget.
BESIDE = 200 * MIB
_CGROUPS = Path("/sys/fs/cgroup")


@contextmanager
def memory_limit(limit_bytes: int) -> Iterator[Callable[[list[int]], bool]]:
    """A control group in which a process is killed if it takes more memory.

    Yields what puts processes into it, and says whether the limit is real: that takes root, and a
    writable /sys/fs/cgroup. What they had before does not count.
    """
    # Version 1 has a tree for each resource.
    tree = _CGROUPS / "memory" if (_CGROUPS / "memory/memory.limit_in_bytes").exists() else _CGROUPS
    group = tree / f"tensor-round-stress-{os.getpid()}"

    def confine(pids: list[int]) -> bool:
        try:
            group.mkdir()
            name = "memory.max" if tree is _CGROUPS else "memory.limit_in_bytes"
            (group / name).write_text(str(limit_bytes))
        except OSError:
            return False
        for pid in pids:
            (group / "cgroup.procs").write_text(str(pid))
        return True

    try:
        yield confine
    finally:
        if group.exists():
            time.sleep(0.2)  # the group of a process that has just ended is busy for a moment
        with suppress(OSError):
            group.rmdir()


def run(minutes: float) -> Report:
    """Refused clients try again at once; beyond the limit the system would kill the service."""
    with (
        memory_limit(BUDGET + BESIDE) as confine,
        Service("--max-bytes-in-flight", str(BUDGET)) as service,
    ):
        is_real = confine(family(service.pid))
        reset_peaks(service.pid)
        with LoadGenerator(
            service.port,
            exchanges(TENSOR_BYTES, 2),
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
        f"MiB and {metrics.files / MIB:.0f} of code, "
        + ("under a real limit" if is_real else "(no limit could be set here)"),
        outcome.faults(503),
    )
    report.expect("the process died", lives)
    report.expect(f"{outcome.resets} connections ended without a response", outcome.resets == 0)
    report.expect("no request was served", outcome.right_in_time > 0)
    report.expect("no request was refused: it was no overload", "503" in outcome.statuses)
    report.expect("more memory than the budget and 200 MiB", metrics.own_peak < BUDGET + BESIDE)
    return report
