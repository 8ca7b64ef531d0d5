"""Calls of a client through a proxy that misbehaves, and the judgement of each.

What is promised of a call, whatever happens between client and service:

- it is over by its deadline, in a result or in a :class:`tr.TensorRoundError`;
- with ``digest=True`` a result is right to the last bit; without it, right but for at most
  as many elements as bytes were garbled on the way;
- an operand rounded in place has only old and new elements, after an error too.
"""

from __future__ import annotations

import functools
import random
import time
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

import numpy as np

import tensor_round as tr
from support.cases.array_cases import Array, bits, expected_bits, patterns
from support.clients import KINDS, AnyClient
from support.http.proxy import Proxy
from tensor_round.conformance.reference import ROUNDINGS, WIDTHS

from .plans import plan

#: Seconds past its deadline in which a call may still be on its way out: a machine shared
#: with others does not always run who is to run.
GRACE = 2.0
#: Calls of one client before the next one comes.
CALLS = 12
#: Elements of the largest tensor.
MOST = 60_000
#: Seconds that a call may take.
TIMEOUTS = (0.5, 2.0, 5.0)


@dataclass
class Findings:
    """What became of the calls, by what was done to them, and what broke a promise."""

    outcomes: Counter[tuple[str, str]] = field(default_factory=Counter)
    violations: list[str] = field(default_factory=list)
    #: How long the call took that came nearest to its deadline, or went furthest past it.
    slowest: tuple[float, float] = (0.0, TIMEOUTS[-1])

    def took(self, seconds: float, timeout: float) -> None:
        """Keep the call with the least left of its time."""
        self.slowest = min(self.slowest, (seconds, timeout), key=lambda call: call[1] - call[0])

    def add(self, other: Findings) -> None:
        """Those of another, too."""
        self.outcomes += other.outcomes
        self.violations += other.violations
        self.took(*other.slowest)


@dataclass(frozen=True)
class Call:
    """A tensor, and what rounding it must give."""

    x: Array
    rounding: str
    expected: Array
    in_place: bool

    @classmethod
    def by(cls, chance: random.Random) -> Call:
        """Any dtype, direction and size, the large ones rare."""
        dtype, rounding = chance.choice(list(WIDTHS)), chance.choice(ROUNDINGS)
        x, expected = _known(dtype, rounding)
        start = chance.randrange(1000)
        part = slice(start, start + int(MOST ** chance.random()) - 1)
        return cls(x[part].copy(), rounding, expected[part], chance.random() < 0.5)

    def made(self, client: AnyClient) -> tuple[str, int]:
        """What came of it, and how many elements are what they may not be."""
        given = self.x.copy()
        try:
            y = client.round(given, self.rounding, out=given if self.in_place else None)
        except tr.TensorRoundError as error:
            return type(error).__name__, self._wrong(given, or_old=True) if self.in_place else 0
        except Exception as error:
            return f"foreign {error!r}", self.x.size + 1
        if (y.shape, y.dtype) != (self.x.shape, self.x.dtype):
            return f"{y.dtype} of shape {y.shape}", self.x.size + 1
        wrong = self._wrong(y, or_old=False)
        return "garbled elements" if wrong else "right", wrong

    def _wrong(self, got: Array, *, or_old: bool) -> int:
        """How many elements are neither right nor, ``or_old``, as they were."""
        off = bits(got) != self.expected
        if or_old:
            off &= bits(got) != bits(self.x)
        return int(np.count_nonzero(off))


@functools.cache
def _known(dtype: str, rounding: str) -> tuple[Array, Array]:
    x = patterns(dtype, MOST + 1000)
    return x, expected_bits(x, rounding)


def session(port: int, seed: str, kind: str, *, digest: bool, most: float) -> Findings:
    """Some calls of one client to the service at that port, through a proxy of their own.

    Each may take up to ``most`` seconds.
    """
    found = Findings()
    chance = random.Random(seed)
    timeout = chance.choice([timeout for timeout in TIMEOUTS if timeout <= most])
    options: dict[str, Any] = {
        "digest": digest,
        "timeout": timeout,
        "tile_bytes": chance.choice((64 << 20, 20_000)),
        "retries": chance.choice((0, 3, 8)),
    }
    with Proxy(port, plan(seed)) as proxy, KINDS[kind](proxy.url, **options) as client:
        for number in range(CALLS):
            call = Call.by(chance)
            before = len(proxy.strikes)
            began = time.monotonic()
            outcome, wrong = call.made(client)
            seconds = time.monotonic() - began
            strikes = proxy.strikes[before:]
            garbled = 0 if digest else sum(strike.startswith("garbled") for strike in strikes)
            found.outcomes[", ".join(sorted(set(strikes))) or "nothing", outcome] += 1
            found.took(seconds, timeout)
            if wrong > garbled or seconds > timeout + GRACE:
                found.violations.append(
                    f"{outcome}, {wrong} wrong of {call.x.size} {call.x.dtype} {call.rounding} "
                    f"for {garbled} garbled bytes, after {seconds:.2f} s of {timeout} s; call "
                    f"{number} of {kind} session {seed!r} {options}: {strikes[-20:]}"
                )
    return found
