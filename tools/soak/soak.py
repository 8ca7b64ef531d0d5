"""A soak: traffic against a real service, what came of it, and what the service held meanwhile."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

from gauges.flatness import growth, risen
from gauges.vitals import MIB, REST_SECONDS, Vitals
from support.services.server import Service, tracebacks

from .ledger import Ledger
from .rude import OPTIONS
from .traffic import Traffic

#: Seconds between two looks at what the service holds.
LOOK_INTERVAL = 1.0
#: Fewer looks than that say nothing of growth.
FEWEST_LOOKS = 120
#: Descriptors above what there were before any traffic, once there is none any more.
REST_SLACK = 4


@dataclass
class Findings:
    """All that a soak came to."""

    ledger: Ledger
    seen: list[Vitals]
    before: Vitals
    after: Vitals
    #: What the service says that it did not foresee.
    tracebacks: list[str]

    @property
    def faults(self) -> list[str]:
        """What was not held."""
        found = [*self.ledger.faults, *self.tracebacks]
        if self.is_long:
            found += risen(self.seen)
        if self.after.descriptors > self.before.descriptors + REST_SLACK:
            found.append(f"descriptors at rest: {self.before} before, {self.after} after")
        return found

    @property
    def is_long(self) -> bool:
        """Whether it went on for long enough to tell growth from warm-up."""
        return len(self.seen) >= FEWEST_LOOKS

    def summary(self) -> str:
        """Totals, in a few lines."""
        lines = [*self.ledger.report()]
        lines.append(f"{self.ledger.wrong} wrong answers, {self.ledger.lost} lost")
        lines.append(f"at rest: {self.before} before, {self.after} after")
        if self.is_long:
            memory = growth([each.rss for each in self.seen]) / MIB
            descriptors = growth([each.descriptors for each in self.seen])
            lines.append(
                f"last quarter's median above the second's: {memory:+.1f} MiB, "
                f"{descriptors:+g} descriptors"
            )
        return "\n".join(lines)


def soak(
    seconds: float,
    seed: int,
    workers: int = 1,
    interval: float = 30.0,
    rest: float = REST_SECONDS,
    say: Callable[[str], None] = print,
) -> Findings:
    """Soak a service of its own for so long; ``say`` how it is once an interval.

    After it there is no traffic for as long as ``rest``, and then another look.
    """
    ledger = Ledger()
    seen: list[Vitals] = []
    with Service(*OPTIONS, "--workers", str(workers)) as service:
        before = Vitals.of(service.pid)
        began = time.monotonic()
        due = interval

        def look() -> None:
            nonlocal due
            seen.append(Vitals.of(service.pid))
            passed = time.monotonic() - began
            if passed >= due:
                due += interval
                say(f"{passed:6.0f} s: {seen[-1]}; {ledger.recent()}; {len(ledger.faults)} faults")

        Traffic(service, ledger, seed).run(seconds, LOOK_INTERVAL, look)
        after = Vitals.at_rest(service.pid, rest)
        if service.get("/readyz").status != 200:
            ledger.faults.append("the service is not ready afterwards")
    return Findings(ledger, seen, before, after, tracebacks(service.log))
