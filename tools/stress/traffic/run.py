"""Mixed traffic for minutes: callers with valid requests, with bad ones, and misbehaving clients.

A response that is wrong, a request without a response, and what the service holds more and more of
are faults.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from fuzz import mutation, raw_http, seeds
from http_requests.draw import Source
from http_requests.message import Request
from http_requests.reader import Fault
from http_requests.refused import KINDS, REFUSED, last, with_a_body
from http_requests.valid import VALID
from stress.metrics import MIB, REST_SECONDS, ProcessMetrics, growth, risen
from stress.report import Report
from support.services.server import Service, tracebacks

from . import clients, misbehaving
from .caller import Caller
from .record import Record

#: Seconds between two measurements of the service.
INTERVAL = 1.0
#: Seconds between two lines of progress.
PROGRESS = 30.0
#: The fewest measurements that tell growth from warm-up.
FEWEST = 120
#: How many more descriptors an idle service may have than before any traffic.
REST_SLACK = 4
#: Bytes of the largest tensor.
MAX_BYTES = 4 << 20

Kind = Callable[[Caller], None]


def _of(kind: Callable[[Source], Request]) -> Kind:
    return lambda caller: caller.exchange(kind(caller.source))


def mutated(caller: Caller) -> None:
    """A valid request mutated anywhere, as the fuzzer does: any documented response is right."""
    caller.disconnect()  # an incomplete request takes its time, in which the connection would idle
    message = mutation.mutate(caller.source, caller.source.choice(_SEEDS), _SEEDS)
    response = asyncio.run(raw_http.exchange(caller.service.port, message))
    caller.record.responded(int(response[9:12] or 0))
    if what := raw_http.complaint(response, message):
        raise Fault("mutated", f"{what}: {response[:300]!r} to {message[:1000]!r}")


_SEEDS = seeds.requests()
GOOD: dict[str, Kind] = {
    **{kind.__name__: _of(kind) for kind in VALID},
    "client": clients.client,
    "async client": clients.async_client,
    "tiled client": clients.tiled_client,
}
BAD: dict[str, Kind] = {
    **{name: _of(partial(refused.request, name)) for name, refused in REFUSED.items()},
    **{kind.__name__: _of(kind) for kind in (*KINDS, last) if kind is not with_a_body},
}
#: Incomplete ones have their response after a deadline, so they have a thread of their own.
MUTATED: dict[str, Kind] = {"mutated": mutated}
MISBEHAVING: dict[str, Kind] = {
    "slow sender": misbehaving.slow_sender,
    "slow reader": misbehaving.slow_reader,
    "stopped reader": misbehaving.stopped_reader,
    "disconnecting": misbehaving.disconnecting,
    "no HTTP": misbehaving.no_http,
}
#: How often one has its turn beside the others; slow ones take seconds each.
_WEIGHTS = {"disconnecting": 20, "no HTTP": 10, "slow reader": 5}


def _good(caller: Caller, name: str, kind: Kind) -> None:
    began = time.monotonic()
    with caller.record.entry(name):
        kind(caller)
        caller.record.took(name, time.monotonic() - began)


def _bad(caller: Caller, name: str, kind: Kind) -> None:
    """One bad request, and a valid one behind it, on the same connection if it is still open."""
    with caller.record.entry(f"bad: {name}"):
        kind(caller)
    with caller.record.entry("after a bad one", name):
        caller.check_service()


def _misbehaving(caller: Caller, name: str, kind: Kind) -> None:
    """One misbehaving client, and a valid request behind it."""
    with caller.record.entry(f"misbehaving: {name}"):
        kind(caller)
    with caller.record.entry("after a bad one", name):
        caller.disconnect()  # the last connection may have been idle for too long
        caller.check_service()


class Traffic:
    """Threads of callers, each with random numbers of its own; a seed makes the same again."""

    def __init__(self, service: Service, record: Record, seed: int) -> None:
        self._service = service
        self._record = record
        self._end = threading.Event()
        # Of two cores callers and checks take one: three threads keep it busy.
        roles = [(_good, GOOD)] * 3 + [(_misbehaving, MISBEHAVING)] * 3
        roles += [(_bad, BAD), (_bad, MUTATED)]
        self._threads = [
            threading.Thread(target=self._run, args=(*role, f"{seed} {turn}"))
            for turn, role in enumerate(roles)
        ]

    def run(self, seconds: float, measure: Callable[[], None]) -> None:
        """Keep it up for so long, and measure once an interval."""
        for thread in self._threads:
            thread.start()
        end = time.monotonic() + seconds
        while (left := end - time.monotonic()) > 0:
            time.sleep(min(INTERVAL, left))
            measure()
        self._end.set()
        for thread in self._threads:
            thread.join()

    def _run(
        self, role: Callable[[Caller, str, Kind], None], kinds: dict[str, Kind], seed: str
    ) -> None:
        source = Source(seed)
        source.max_bytes = MAX_BYTES
        names = [name for name in kinds for _ in range(_WEIGHTS.get(name, 1))]
        with Caller(self._service, self._record, source) as caller:
            while True:
                # Each has its turn before one has its second.
                source.shuffle(names)
                for name in names:
                    role(caller, name, kinds[name])
                    if self._end.is_set():
                        return


@dataclass
class Findings:
    """All that a run came to."""

    record: Record
    measured: list[ProcessMetrics]
    before: ProcessMetrics
    after: ProcessMetrics
    #: Failures of the service itself, from its log.
    tracebacks: list[str]

    def report(self) -> Report:
        """Totals, and what was not held."""
        is_long = len(self.measured) >= FEWEST
        lines = [
            f"{self.record.wrong} wrong responses, {self.record.lost} lost; at rest {self.before} "
            f"before, {self.after} after",
            *self.record.report(),
        ]
        report = Report("", [*self.record.faults, *self.tracebacks])
        if is_long:
            memory = growth([each.rss for each in self.measured]) / MIB
            descriptors = growth([each.descriptors for each in self.measured])
            lines[0] += (
                f"; last quarter's median above the second's: {memory:+.1f} MiB, "
                f"{descriptors:+g} descriptors"
            )
            report.faults += risen(self.measured)
        report.figures = "\n".join(lines)
        report.expect(
            f"descriptors at rest: {self.before} before, {self.after} after",
            self.after.descriptors <= self.before.descriptors + REST_SLACK,
        )
        return report


def _print(line: str) -> None:
    print(line, flush=True)


def traffic(
    seconds: float,
    seed: int,
    workers: int = 1,
    rest: float = REST_SECONDS,
    say: Callable[[str], None] = _print,
) -> Findings:
    """Mixed traffic at a service of its own for so long; ``say`` its state once an interval.

    Afterwards there is no traffic for as long as ``rest``, and then a last measurement.
    """
    record = Record()
    measured: list[ProcessMetrics] = []
    with Service(*misbehaving.OPTIONS, "--workers", str(workers)) as service:
        before = ProcessMetrics.of(service.pid)
        began = time.monotonic()
        due = PROGRESS

        def measure() -> None:
            nonlocal due
            measured.append(ProcessMetrics.of(service.pid))
            if (passed := time.monotonic() - began) >= due:
                due += PROGRESS
                state = f"{measured[-1]}; {record.recent()}; {len(record.faults)} faults"
                say(f"{passed:6.0f} s: {state}")

        Traffic(service, record, seed).run(seconds, measure)
        after = ProcessMetrics.at_rest(service.pid, rest)
        if service.get("/readyz").status != 200:
            record.faults.append("the service is not ready afterwards")
    return Findings(record, measured, before, after, tracebacks(service.log))


def run(minutes: float, seed: int, workers: int) -> Report:
    """The row of the table."""
    return traffic(minutes * 60, seed, workers).report()
