"""SIGTERM under load loses nothing, and a worker that is killed is replaced."""

from __future__ import annotations

import time

from support.http.callers import Call, interrupted
from support.services.server import Service
from support.services.workers import replaced_after, serving

from .verdict import Verdict

ROUNDS = 50
KILLS = 10
#: Seconds in which there must be another worker.
REPLACED = 3.0


def run(rounds: float) -> Verdict:
    """That many ends, of one process and of two workers in turn; then workers are killed."""
    calls: list[Call] = []
    met = 0
    for turn in range(int(rounds)):
        # Leaving asserts the exit code.
        with Service("--workers", str(1 + turn % 2)) as service:
            begun, under_way = interrupted(service, 0.3 + 0.037 * (turn % 10))
        calls += begun
        met += under_way
    lost = [call.fault for call in calls if call.fault]
    gaps = _gaps(KILLS)
    verdict = Verdict(
        f"SIGTERM {rounds:g} times: {len(calls):,} requests begun before it, {met} under way, "
        f"{len(lost)} lost; a killed worker was replaced {len(gaps)} times, "
        f"after {max(gaps):.1f} s at the most",
        [f"lost: {fault}" for fault in lost],
    )
    verdict.hold("nothing was under way that could have been lost", met >= rounds)
    verdict.hold("a worker was not replaced in time", max(gaps) < REPLACED)
    return verdict


def _gaps(kills: int) -> list[float]:
    with Service("--workers", "2") as service:
        gaps = []
        for turn in range(kills):
            while serving(service) < 2 + turn:
                time.sleep(0.01)
            gaps.append(replaced_after(service))
        return gaps
