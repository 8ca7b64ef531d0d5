"""A real service, and clients of both kinds that call it for a while through faults."""

from __future__ import annotations

import itertools
import math
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np

import tensor_round as tr
from support.clients import KINDS
from support.services.server import Service, tracebacks

from .calls import TIMEOUTS, Findings, session

#: So that a body that was cut, or comes too slowly, is given up within a session.
OPTIONS = ("--receive-timeout", "1", "--max-tensor-bytes", "64MiB")


def storm(
    seed: int, *, seconds: float = math.inf, sessions: int | None = None, most: float = TIMEOUTS[-1]
) -> Findings:
    """Sessions of both clients, with digests and without, for so long or so many of each.

    A call may take up to ``most`` seconds. Afterwards the service must serve at once, have
    failed nowhere, and end in order.
    """
    found = Findings()
    end = time.monotonic() + seconds
    with Service(*OPTIONS) as service, ThreadPoolExecutor(4) as lanes:

        def lane(kind: str, digest: bool) -> Findings:
            own = Findings()
            for number in itertools.count() if sessions is None else range(sessions):
                name = f"{seed} {kind} {digest} {number}"
                own.add(session(service.port, name, kind, digest=digest, most=most))
                if time.monotonic() > end:
                    break
            return own

        for own in lanes.map(lane, *zip(*itertools.product(KINDS, (False, True)), strict=True)):
            found.add(own)
        with tr.Client(service.url, retries=0) as client:
            if client.round(np.float32(2.5)) != 2.0:
                found.violations.append("the service rounds wrongly afterwards")
    found.violations += tracebacks(service.log)
    return found
