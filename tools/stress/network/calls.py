"""Calls of a client through a proxy with network faults, each held to what is promised.

The promises, whatever happens between client and service:

- a call ends by its deadline, in a result or in a :class:`tr.TensorRoundError`;
- with ``digest=True`` a result is right to the last bit; without it, right but for at most
  as many elements as bytes were garbled on the way;
- an operand rounded in place has only old and new elements, after an error too.
"""

from __future__ import annotations

import random
import time
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

import tensor_round as tr
from support.cases.array_cases import Array
from support.cases.drawn_tensors import DrawnTensor
from support.clients import KINDS, AnyClient
from support.http.proxy import Proxy

from .faults import plan

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
