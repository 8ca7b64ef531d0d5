"""Both clients and a service with network faults between them: each call is held to its promises.

Whatever happens between client and service:

- a call ends by its deadline, in a result or in a :class:`tr.TensorRoundError`;
- with ``digest=True`` a result is right to the last bit; without it, right but for at most
  as many elements as bytes were garbled on the way;
- an operand rounded in place has only old and new elements, after an error too.
"""

from __future__ import annotations

import itertools
import math
import random
import time
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np

import tensor_round as tr
from support.cases.array_cases import Array, DrawnTensor
from support.clients import KINDS, AnyClient
from support.http.proxy import FAULTLESS, Fault, Proxy
from support.services.server import Service, tracebacks

from .metrics import Report

#: Seconds that a call may take past its deadline on a machine that runs other work too.
GRACE = 2.0
#: Calls of one client.
CALLS = 12
#: Bytes of the largest tensor.
MAX_BYTES = 240_000
#: Seconds that a call may take.
TIMEOUTS = (0.5, 2.0, 5.0)


@dataclass
class Findings:
    """The outcomes of calls by their faults, and broken promises."""

    outcomes: Counter[tuple[str, str]] = field(default_factory=Counter)
    violations: list[str] = field(default_factory=list)
    #: The call with the least left of its time: its seconds, and those it had.
    slowest: tuple[float, float] = (0.0, TIMEOUTS[-1])

    def took(self, seconds: float, timeout: float) -> None:
        """Keep the call with the least left of its time."""
        self.slowest = min(self.slowest, (seconds, timeout), key=lambda call: call[1] - call[0])

    def add(self, other: Findings) -> None:
        """Add those of another."""
        self.outcomes += other.outcomes
        self.violations += other.violations
        self.took(*other.slowest)


def outcome_of(client: AnyClient, tensor: DrawnTensor, *, in_place: bool) -> tuple[str, int]:
    """The outcome of a call, and how many elements are what they may not be."""
    given = tensor.x.copy()
    try:
        y: Array = client.round(given, tensor.rounding, out=given if in_place else None)
    except tr.TensorRoundError as error:
        wrong = tensor.wrong_elements(given, or_unchanged=True) if in_place else 0
        return type(error).__name__, wrong
    except Exception as error:
        return f"foreign {error!r}", given.size + 1
    if (y.shape, y.dtype) != (given.shape, given.dtype):
        return f"{y.dtype} of shape {y.shape}", given.size + 1
    wrong = tensor.wrong_elements(y)
    return "garbled elements" if wrong else "right", wrong


def session(port: int, seed: str, kind: str, *, digest: bool, most: float) -> Findings:
    """Some calls of one client to the service at that port, through a proxy of their own.

    Each may take up to ``most`` seconds.
    """
    found = Findings()
    source = random.Random(seed)
    timeout = source.choice([timeout for timeout in TIMEOUTS if timeout <= most])
    options: dict[str, Any] = {
        "digest": digest,
        "timeout": timeout,
        "tile_bytes": source.choice((64 << 20, 20_000)),
        "retries": source.choice((0, 3, 8)),
    }
    with Proxy(port, plan(seed)) as proxy, KINDS[kind](proxy.url, **options) as client:
        for number in range(CALLS):
            tensor = DrawnTensor.drawn(source, MAX_BYTES)
            in_place = source.random() < 0.5
            before = len(proxy.strikes)
            began = time.monotonic()
            outcome, wrong = outcome_of(client, tensor, in_place=in_place)
            seconds = time.monotonic() - began
            faults = proxy.strikes[before:]
            garbled = 0 if digest else sum(fault.startswith("garbled") for fault in faults)
            found.outcomes[", ".join(sorted(set(faults))) or "nothing", outcome] += 1
            found.took(seconds, timeout)
            if wrong > garbled or seconds > timeout + GRACE:
                found.violations.append(
                    f"{outcome}, {wrong} wrong elements of {tensor} "
                    f"for {garbled} garbled bytes, after {seconds:.2f} s of {timeout} s; call "
                    f"{number} of {kind} session {seed!r} {options}: {faults[-20:]}"
                )
    return found


#: The most garbled bytes in a run: fewer than lie between a request's digest and its payload, as
#: without the digest a changed payload is not detected.
LONGEST_RUN = 16
#: Heads are a few hundred bytes, payloads up to some hundred thousand: both are met.
FURTHEST = 600_000


def response(status: int, reason: str, kind: str = "text/plain", content: str = "busy") -> bytes:
    """A response of a proxy itself."""
    head = f"HTTP/1.1 {status} {reason}\r\nContent-Type: {kind}\r\nConnection: close\r\n"
    return f"{head}Retry-After: 0\r\nContent-Length: {len(content)}\r\n\r\n{content}".encode()


RESPONSES = (
    response(502, "Bad Gateway", "text/html", "<h1>502 Bad Gateway</h1>"),
    response(503, "Service Unavailable"),
    response(504, "Gateway Timeout"),
    response(200, "OK", "text/html", "<h1>Please log in</h1>"),
    b"\x16\x03\x01 this is no HTTP at all\r\n\r\n",
)


def plan(seed: str) -> Callable[[int], Fault]:
    """From a connection's number its fault; one in three has none."""

    def fault(number: int) -> Fault:
        source = random.Random(f"{seed} {number}")
        chosen = FAULTLESS
        if source.random() < 1 / 3:
            return chosen
        for draw in source.sample(FAULTS, source.choice((1, 1, 2, 3))):
            chosen = replace(chosen, **draw(source))
        return chosen

    return fault


def _offset(source: random.Random) -> int:
    """As often among the first hundred bytes as among the last hundred thousand."""
    return int(FURTHEST ** source.random())


def _cut(way: str, source: random.Random) -> dict[str, Any]:
    return {f"cut_{way}": _offset(source) - 1, "reset": source.random() < 0.5}


def _garble(way: str, source: random.Random) -> dict[str, Any]:
    start, length = _offset(source) - 1, source.choice((1, 1, 1, 2, LONGEST_RUN))
    mask = source.choice((1 << source.randrange(8), source.randrange(1, 256)))
    return {f"garble_{way}": frozenset(range(start, start + length)), "mask": mask}


def _throttle(way: str, source: random.Random) -> dict[str, Any]:
    return {f"pieces_{way}": source.choice((100, 5000, 50_000)), f"pause_{way}": 0.01}


def _delay(source: random.Random) -> dict[str, Any]:
    seconds = source.choice((0.02, 0.3, 60.0))
    return {source.choice(("delay_up", "delay_down")): seconds}


def _respond(source: random.Random) -> dict[str, Any]:
    return {"answer": source.choice(RESPONSES), "early": source.random() < 0.5}


#: What may befall a connection: members of its :class:`Fault`.
FAULTS: list[Callable[[random.Random], dict[str, Any]]] = [
    *(partial(kind, way) for kind in (_cut, _garble, _throttle) for way in ("up", "down")),
    _delay,
    _respond,
]

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
