"""Mixed traffic for minutes: mixes, mutated requests and slow clients, all at once.

A response that is wrong or missing is a fault, and so is what the service holds more and more of.
"""

from __future__ import annotations

import asyncio
import itertools
import time
from dataclasses import dataclass, field

from fuzz import raw_http
from fuzz.mixes import run as mixes
from support.services.server import Service, tracebacks

from .metrics import MIB, REST_SECONDS, ProcessMetrics, Report, growth, risen
from .slow_clients import TOLERANCE, Closings, run_slow_clients

#: Of the service: a script that sends byte by byte takes up to 3 s for a head, and several times
#: that where other tests keep the cores busy.
RECEIVE_TIMEOUT = 12.0
OPTIONS = (
    "--keep-alive=5",
    f"--receive-timeout={RECEIVE_TIMEOUT}",
    f"--max-bytes-in-flight={mixes.BUDGET}",
)
#: Of each kind in a turn, all at once.
SCRIPTS, MUTATED, SLOW = 300, 200, 50
#: The fewest turns that tell growth from warm-up.
FEWEST = 40
#: How many more descriptors an idle service may have than before any traffic.
REST_SLACK = 4


@dataclass
class Found:
    """What became of all requests, and what the service held after each turn.

    In a turn is one in ``part`` of each kind.
    """

    part: int = 1
    mixed: mixes.Findings = field(default_factory=mixes.Findings)
    mutated: raw_http.Findings = field(default_factory=raw_http.Findings)
    slow: Closings = field(default_factory=lambda: Closings(RECEIVE_TIMEOUT + TOLERANCE))
    measured: list[ProcessMetrics] = field(default_factory=list)

    async def turn(self, port: int, seed: int, number: int) -> None:
        """Some of each kind, all at once."""
        some = 2 * SCRIPTS // self.part
        scripts = range(some * number, some * (number + 1), 2)  # plain ones
        own_seed = 1000 * seed + number
        self.mixed += (
            await asyncio.gather(
                mixes.play_all(port, None, seed, scripts),
                raw_http.fuzz(port, MUTATED // self.part, own_seed, self.mutated),
                run_slow_clients(port, SLOW // self.part, self.slow, own_seed),
            )
        )[0]

    @property
    def faults(self) -> list[str]:
        slow = [f"{count} times {what}" for what, count in self.slow.faults.items()]
        return [*self.mixed.faults, *self.mutated.faults, *slow]


def run(
    minutes: float, seed: int, workers: int, rest: float = REST_SECONDS, part: int = 1
) -> Report:
    """Turns for so long, then a last measurement after ``rest`` seconds without traffic."""
    found = Found(part)
    with Service(*OPTIONS, "--workers", str(workers)) as service:
        before = ProcessMetrics.of(service.pid)
        end = time.monotonic() + 60 * minutes
        for number in itertools.count():
            asyncio.run(found.turn(service.port, seed, number))
            found.measured.append(ProcessMetrics.of(service.pid))
            if time.monotonic() > end:
                break
        after = ProcessMetrics.at_rest(service.pid, rest)
        is_ready = service.get("/readyz").status == 200
    slow, mutated = sum(found.slow.ends.values()), found.mutated.statuses.total()
    report = Report(
        f"{found.mixed.statuses.total():,} responses on {found.mixed.connections:,} connections, "
        f"{mutated:,} mutated requests and {slow:,} slow clients; at rest {before} before, "
        f"{after} after",
        [*found.faults, *tracebacks(service.log)],
    )
    if len(found.measured) >= FEWEST:
        memory = growth([each.rss for each in found.measured]) / MIB
        report.figures += f"; last quarter's median above the second's: {memory:+.1f} MiB"
        report.faults += risen(found.measured)
    is_back = after.descriptors <= before.descriptors + REST_SLACK
    report.expect("descriptors are still open", is_back)
    report.expect("the service is not ready afterwards", is_ready)
    report.expect(
        "a kind of traffic had no turn", min(len(found.mixed.statuses), mutated, slow) > 0
    )
    return report
