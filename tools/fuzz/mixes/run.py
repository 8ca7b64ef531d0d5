"""Random scripts of requests over many connections, with the exact response known to each request.

Each connection sends a script: requests of every kind, valid and refused, in groups or one after
another, cut anywhere, to any kind of end. Every response that is owed must come, in order, with its
bits, and nothing else. Half of the connections are plain and half over TLS, each half to a separate
service, which must hold nothing when all are over. The same seed makes the same scripts.

``python -m stress mixes`` plays thousands; this plays one again:

    python -m fuzz.mixes.run NUMBER [--seed 1] [--times 1]
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import ssl
import sys
import time
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field

from stress.metrics import MIB, ProcessMetrics, Report
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
#: What a service keeps of the conversions that it is asked for: 64 compiled kernels of about 1 MiB,
#: and as many tables.
MOST_GROWTH = 96 * MIB
#: Seconds in which memory and descriptors must be back.
SETTLE = 15.0
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
                again = f"fuzz.mixes.run {number} --seed {seed}"
                found.faults.append(f"{kind}: {fault}\n    {again}: {f'{made}'[:1500]}")

    await asyncio.gather(*(play_some() for _ in range(CONCURRENT)))
    return found


def run(connections: float, seed: int) -> Report:
    """The row of the table; half of the connections are plain, half over TLS."""
    found = Findings()
    for encrypted in (False, True):
        found += mixed(seed, range(int(connections)), encrypted=encrypted)
    return found.report(seed)


def mixed(seed: int, numbers: Iterable[int], *, encrypted: bool) -> Findings:
    """Play the scripts that are for this kind of service, to a separate one."""
    kind = TlsService if encrypted else Service
    context = caller_context() if encrypted else None
    chosen = [number for number in numbers if is_encrypted(number) is encrypted]
    if not chosen:
        return Findings()
    # Leaving asserts the exit code.
    # A sender of 48 that write byte by byte may be late on a busy machine.
    options = ("--max-bytes-in-flight", str(BUDGET), "--max-tensor-bytes", str(BUDGET))
    with kind(*options, "--receive-timeout", "60") as service:
        before_all = range(int(encrypted), 2 * WARM_UP, 2)
        found = asyncio.run(play_all(service.port, context, seed - 1, before_all))
        service.rss()  # at rest
        before, began = ProcessMetrics.of(service.pid), time.monotonic()
        found += asyncio.run(play_all(service.port, context, seed, chosen))
        seconds = time.monotonic() - began
        found.faults += _left_over(service, before)
        found.notes.append(
            f"{'TLS' if encrypted else 'plain'}: {len(chosen):,} connections in {seconds:.1f} s; "
            f"{before} before, {ProcessMetrics.of(service.pid)} after"
        )
    found.faults += [text[:4000] for text in tracebacks(service.log)]
    lines = [line for line in service.log if any(word in line for word in _FAILURES)]
    if lines:
        found.faults.append(f"{len(lines)} lines of failures in the log, as: {lines[0].strip()}")
    return found


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


def main() -> int:
    """Play one script again, so many times."""
    parser = argparse.ArgumentParser(prog="fuzz.mixes.run", description=main.__doc__)
    parser.add_argument("number", type=int, help="of the connection")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--times", type=int, default=1)
    options = parser.parse_args()
    print(script(options.seed, options.number))
    numbers, encrypted = [options.number] * options.times, is_encrypted(options.number)
    report = mixed(options.seed, numbers, encrypted=encrypted).report(options.seed)
    print(report.text(f"connection {options.number}"))
    return 1 if report.faults else 0


if __name__ == "__main__":
    sys.exit(main())
