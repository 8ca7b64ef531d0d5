"""Both clients and a service with network faults between them, for minutes."""

from __future__ import annotations

import itertools
import math
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor

import numpy as np

import tensor_round as tr
from stress.report import Report
from support.clients import KINDS
from support.services.server import Service, tracebacks

from .calls import GRACE, TIMEOUTS, Findings, session

#: So that a body that was cut, or is too slow, is given up within a session.
OPTIONS = ("--receive-timeout", "1", "--max-tensor-bytes", "64MiB")


def network(
    seed: int, *, seconds: float = math.inf, sessions: int | None = None, most: float = TIMEOUTS[-1]
) -> Findings:
    """Sessions of both clients, with digests and without, for so long or so many of each.

    A call may take up to ``most`` seconds. Afterwards the service must serve at once, have
    failed nowhere, and end with exit code 0.
    """
    found = Findings()
    end = time.monotonic() + seconds
    with Service(*OPTIONS) as service, ThreadPoolExecutor(4) as threads:

        def sessions_of(kind: str, digest: bool) -> Findings:
            own = Findings()
            for number in itertools.count() if sessions is None else range(sessions):
                name = f"{seed} {kind} {digest} {number}"
                own.add(session(service.port, name, kind, digest=digest, most=most))
                if time.monotonic() > end:
                    break
            return own

        kinds, digests = zip(*itertools.product(KINDS, (False, True)), strict=True)
        for own in threads.map(sessions_of, kinds, digests):
            found.add(own)
        with tr.Client(service.url, retries=0) as client:
            if client.round(np.float32(2.5)) != 2.0:
                found.violations.append("the service rounds wrongly afterwards")
    found.violations += tracebacks(service.log)
    return found


def run(minutes: float, seed: int) -> Report:
    """The row of the table: outcomes by single fault, and each broken promise."""
    found = network(seed, seconds=minutes * 60)
    seconds, timeout = found.slowest
    lines = [
        f"{found.outcomes.total():,} calls: {len(found.violations)} broken promises; the slowest "
        f"against its deadline took {seconds:.2f} s of {timeout:g} s (at most {GRACE:g} s more)"
    ]
    for fault in sorted({fault for faults, _ in found.outcomes for fault in faults.split(", ")}):
        by_outcome: Counter[str] = Counter()
        for (faults, outcome), times in found.outcomes.items():
            if fault in faults.split(", "):
                by_outcome[outcome] += times
        told = ", ".join(f"{outcome} {times:,}" for outcome, times in by_outcome.most_common())
        lines.append(f"{fault:15}{by_outcome.total():8,}: {told}")
    return Report("\n".join(lines), found.violations)
