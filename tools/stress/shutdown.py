"""SIGTERM under load loses nothing, and a worker that is killed is replaced.

``stops`` has callers that open a connection for each request: then connections always wait.
"""

from __future__ import annotations

import time
from itertools import product

from support.http.callers import Call, Fates, interrupted, stopped
from support.services.server import Service
from support.services.workers import replaced_after, serving

from .report import Report

#: Each number of callers meets each number of workers.
CALLERS, WORKERS = (8, 48), (1, 2, 3)
KILLS = 10
#: Seconds in which there must be another worker.
REPLACED = 3.0


def run(rounds: float) -> Report:
    """So many shutdowns, of one process and of two workers in turn; then workers are killed."""
    calls: list[Call] = []
    under_way = 0
    for turn in range(int(rounds)):
        # Leaving asserts the exit code.
        with Service("--workers", str(1 + turn % 2)) as service:
            begun, interrupted_calls = interrupted(service, 0.3 + 0.037 * (turn % 10))
        calls += begun
        under_way += interrupted_calls
    lost = [call.fault for call in calls if call.fault]
    seconds = _replacements(KILLS)
    report = Report(
        f"SIGTERM {rounds:g} times: {len(calls):,} requests begun before it, {under_way} under "
        f"way, {len(lost)} lost; a killed worker was replaced {len(seconds)} times, "
        f"after {max(seconds):.1f} s at the most",
        [f"lost: {fault}" for fault in lost],
    )
    report.expect("no request was under way that could have been lost", under_way >= rounds)
    report.expect("a worker was not replaced in time", max(seconds) < REPLACED)
    return report


def stops(rounds: float) -> Report:
    """So many stops for each number of callers and workers."""
    lines, faults, late = [], [], 0
    for callers, workers in product(CALLERS, WORKERS):
        fates = Fates()
        for turn in range(int(rounds)):
            with Service("--workers", str(workers)) as service:
                fates += stopped(service, callers, 0.5 + 0.037 * (turn % 10))
        late += fates.answered_late
        lost = fates.lost.total()
        lines.append(
            f"{callers} callers, {workers} workers: {fates.answered:,} answered, "
            f"{fates.answered_late} of them after SIGTERM, {fates.refused} refused, {lost} lost"
        )
        faults += [f"{lines[-1]}: {fault}" for fault in fates.lost]
    report = Report("\n".join(lines), faults)
    report.expect("no request was answered after SIGTERM", late >= rounds)
    return report


def _replacements(kills: int) -> list[float]:
    with Service("--workers", "2") as service:
        seconds = []
        for turn in range(kills):
            while serving(service) < 2 + turn:
                time.sleep(0.01)
            seconds.append(replaced_after(service))
        return seconds
