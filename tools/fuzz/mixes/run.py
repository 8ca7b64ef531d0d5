"""Thousands of scripts at a service, and what it still holds afterwards."""

from __future__ import annotations

import asyncio
import contextlib
import ssl
import time
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field

from stress.metrics import MIB, ProcessMetrics
from stress.report import Report
from support.http.native_form import ieee754
from support.services.server import Service, tracebacks
from support.services.tls import TlsService, caller_context

from .connection import TIMEOUT, play
from .messages import HOST, Fault
from .scripts import is_encrypted, script

#: Connections at one time.
CONCURRENT = 48
#: Connections before the first measurement: kernels are compiled, buffers are made.
WARM_UP = 200
#: Enough for all concurrent requests; a JSON document of unknown length reserves much.
BUDGET = 4096 * MIB
#: The most that one large request can have of it.
WHOLE = BUDGET - BUDGET // 16
MOST_GROWTH = 16 * MIB
#: Seconds in which memory and descriptors must be back.
SETTLE = 15.0
#: Seconds in which a service without connections must end.
SHUTDOWN = 1.0
#: Parts of log lines that report a failure of the service itself.
_FAILURES = ("unexpected exception", "failure on a valid request", "never retrieved", "ASGI")


@dataclass
class Findings:
    """The responses, and the broken rules."""

    statuses: Counter[int] = field(default_factory=Counter)
    connections: int = 0
    faults: list[str] = field(default_factory=list)
    #: How many of the faults on connections are of each kind.
    kinds: Counter[str] = field(default_factory=Counter)
    #: A line for each service.
    notes: list[str] = field(default_factory=list)

    def __iadd__(self, other: Findings) -> Findings:
        self.statuses += other.statuses
        self.connections += other.connections
        self.faults += other.faults
        self.kinds += other.kinds
        self.notes += other.notes
        return self

    def report(self, seed: int) -> Report:
        """All of it, and how many faults there are of each kind."""
        figures = (
            f"{self.connections:,} connections (seed {seed}, with those to warm up): "
            f"{self.statuses.total():,} responses"
        )
        counted = (*sorted(self.statuses.items()), *self.kinds.most_common())
        lines = (f"{times:9,} {what}" for what, times in counted)
        return Report("\n".join((figures, *self.notes, *lines)), self.faults)


async def play_all(
    port: int, context: ssl.SSLContext | None, seed: int, numbers: Iterable[int]
) -> Findings:
    """Play the scripts of these numbers, some at a time."""
    found = Findings()
    left = iter(numbers)

    async def play_some() -> None:
        for number in left:
            made = script(seed, number)
            found.connections += 1
            try:
                found.statuses.update(await play(made, port, context))
            except (Fault, OSError) as fault:
                kind = fault.kind if isinstance(fault, Fault) else "not connected"
                found.kinds[kind] += 1
                again = f"fuzz.mixes {number} --seed {seed}"
                found.faults.append(f"{kind}: {fault}\n    {again}: {f'{made}'[:1500]}")

    await asyncio.gather(*(play_some() for _ in range(CONCURRENT)))
    return found


def run(connections: float, seed: int) -> Report:
    """The row of the table; half of the connections are plain, half over TLS."""
    found = Findings()
    for encrypted in (False, True):
        found += mixed(seed, range(int(connections)), encrypted=encrypted)
    return found.report(seed)


def mixed(
    seed: int,
    numbers: Iterable[int],
    *,
    encrypted: bool,
    warm_up: int = WARM_UP,
    shutdown: float = SHUTDOWN,
) -> Findings:
    """Play the scripts that are for this kind of service, to one of its own."""
    kind = TlsService if encrypted else Service
    context = caller_context() if encrypted else None
    chosen = [number for number in numbers if is_encrypted(number) is encrypted]
    if not chosen:
        return Findings()
    service = kind("--max-bytes-in-flight", str(BUDGET), "--max-tensor-bytes", str(BUDGET))
    service.__enter__()
    try:
        before_all = range(int(encrypted), 2 * warm_up, 2)
        found = asyncio.run(play_all(service.port, context, seed - 1, before_all))
        found.faults = [f"(warming up) {fault}" for fault in found.faults]
        before = ProcessMetrics.of(service.pid) if found.faults else _at_rest(service)
        began = time.monotonic()
        found += asyncio.run(play_all(service.port, context, seed, chosen))
        seconds = time.monotonic() - began
        found.faults += _left_over(service, before)
        found.notes.append(
            f"{'TLS' if encrypted else 'plain'}: {len(chosen):,} connections in {seconds:.1f} s; "
            f"{before} before, {ProcessMetrics.of(service.pid)} after"
        )
    finally:
        found.faults += _shut_down(service, shutdown)
    return found


def _at_rest(service: Service) -> ProcessMetrics:
    service.rss()
    return ProcessMetrics.of(service.pid)


def _left_over(service: Service, before: ProcessMetrics) -> list[str]:
    """Faults in what an idle service still holds."""
    deadline = time.monotonic() + SETTLE
    while True:
        after = ProcessMetrics.of(service.pid)
        grown = after.rss - before.rss
        if (grown <= MOST_GROWTH and after.descriptors <= before.descriptors) or (
            time.monotonic() > deadline
        ):
            break
        time.sleep(0.1)
    faults = []
    if grown > MOST_GROWTH:
        faults.append(f"memory grew by {grown / MIB:.1f} MiB")
    if after.descriptors > before.descriptors:
        faults.append(f"{after.descriptors - before.descriptors} descriptors are still open")
    if not _has_room(service):
        faults.append("the byte budget was not given back")
    if service.get("/livez").status != 200:
        faults.append("/livez is not 200")
    return faults


def _has_room(service: Service) -> bool:
    """Whether nearly the whole budget is free: a request of it gets 100; its body is not sent."""
    begun = (
        f"POST /round HTTP/1.1\r\n{HOST}\r\nContent-Length: {WHOLE}\r\n"
        f"Expect: 100-continue\r\nOperator-Descriptor: {ieee754('uint8', [WHOLE])}\r\n\r\n"
    )
    with contextlib.closing(service.connect(TIMEOUT)) as sock:
        sock.sendall(begun.encode())
        return sock.recv(12) == b"HTTP/1.1 100"


def _shut_down(service: Service, shutdown: float) -> list[str]:
    """Faults after SIGTERM without connections, and in the log."""
    time.sleep(0.2)  # for the end of the last connection
    began = time.monotonic()
    code = service.stop()
    seconds = time.monotonic() - began
    faults = [] if code == 0 else [f"exit code {code} after SIGTERM"]
    if seconds > shutdown:
        faults.append(f"SIGTERM took {seconds:.1f} s without connections")
    found = tracebacks(service.log)
    faults += [_shortened(text) for text in found[:3]]
    if found[3:]:
        faults.append(f"{len(found) - 3} more tracebacks")
    lines = [line for line in service.log if any(word in line for word in _FAILURES)]
    if lines:
        faults.append(f"{len(lines)} lines of failures in the log, as: {lines[0].strip()}")
    return faults


def _shortened(text: str) -> str:
    """The last frames of a traceback, and its error."""
    lines = text.splitlines()
    error = next((at for at, line in enumerate(lines[1:], 1) if not line.startswith(" ")), -1)
    return "\n    ".join(("a traceback:", *lines[max(1, error - 5) : error + 1]))
