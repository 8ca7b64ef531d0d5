"""SIGTERM under load loses nothing, and a worker that is killed is replaced."""

from __future__ import annotations

import time

from support.http.callers import Call, interrupted
from support.services.server import Service
from support.services.workers import replaced_after, serving

from .metrics import Report

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


def _replacements(kills: int) -> list[float]:
    with Service("--workers", "2") as service:
        seconds = []
        for turn in range(kills):
            while serving(service) < 2 + turn:
                time.sleep(0.01)
            seconds.append(replaced_after(service))
        return seconds
