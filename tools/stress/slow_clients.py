"""Clients that send a byte a second are closed by a deadline, and do not slow other clients."""

from __future__ import annotations

import asyncio
import contextlib
import random
import statistics
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field

from bench.load_generator.generator import LoadGenerator

from support.http.native_form import ieee754
from support.services.server import Service

from .loads import exchanges
from .metrics import ProcessMetrics, Report, milliseconds

ROUNDS = 3
#: RECEIVE_TIMEOUT's default.
TIMEOUT = 10.0
#: Seconds beyond it: rates are checked once a second, and the event loop has other work.
TOLERANCE = 3.0
#: Seconds over which slow clients connect, so that their arrival is not what is measured.
ARRIVAL = 2.0
#: The normal client: requests a second, bytes of a tensor.
NORMAL_RATE = 200
NORMAL_BYTES = 64 << 10

_HEAD = "POST /round HTTP/1.1\r\nHost: x\r\nOperator-Descriptor: {}\r\n{}\r\n\r\n"


@dataclass(frozen=True)
class Kind:
    """What a slow client sends at once, then byte by byte, and the start of the response."""

    first: bytes
    rest: bytes
    #: What each of the rest's bytes goes in.
    frame: bytes = b"%c"
    response: bytes = b"HTTP/1.1 408 "


def _begun(nbytes: int, first: int) -> bytes:
    head = _HEAD.format(ieee754("float32", [nbytes // 4]), f"Content-Length: {nbytes}")
    return head.encode() + bytes(first)


KINDS = {
    # No response: no request has begun.
    "silent": Kind(b"", b"", response=b""),
    "head": Kind(b"P", _begun(12, 0)[1:]),
    "body": Kind(_begun(40_000, 0), bytes(1000)),
    "most of a body to come": Kind(_begun(4 << 20, 100_000), bytes(1000)),
    "chunked": Kind(
        _HEAD.format(ieee754("float32", [1000]), "Transfer-Encoding: chunked").encode(),
        bytes(1000),
        b"1\r\n%c\r\n",
    ),
}


@dataclass
class Closings:
    """How slow connections ended."""

    #: Seconds in which each must be over.
    deadline: float = TIMEOUT + TOLERANCE
    ends: Counter[str] = field(default_factory=Counter)
    faults: Counter[str] = field(default_factory=Counter)
    latest: float = 0.0

    def add(self, name: str, response: bytes | None, seconds: float) -> None:
        """One ended with this response, or is still open (None)."""
        expected = KINDS[name].response
        if response is None:
            self.faults[f"{name}: open beyond its deadline"] += 1
        elif response[: len(expected) or 1] != expected:
            self.faults[f"{name}: response {response[:40]!r}"] += 1
        self.ends[name] += 1
        self.latest = max(self.latest, seconds)


def run(connections: float) -> Report:
    """Rounds with and without slow clients in turn, as a machine's own noise comes and goes."""
    closings = Closings()
    idle: list[float] = []
    beside: list[float] = []
    with Service("--receive-timeout", str(TIMEOUT)) as service:
        before = ProcessMetrics.of(service.pid)
        for turn in range(ROUNDS):
            with normal_client(service, idle):
                pass
            with normal_client(service, beside):
                asyncio.run(run_slow_clients(service.port, int(connections), closings, seed=turn))
        after = ProcessMetrics.at_rest(service.pid)
    report = Report(
        f"{sum(closings.ends.values()):,} connections ({', '.join(KINDS)}), "
        f"{connections:g} at a time, all ended within {closings.latest:.1f} s; "
        f"a normal client's p99 {milliseconds(statistics.median(idle))} alone, "
        f"{milliseconds(statistics.median(beside))} beside them",
        [f"{count} times {what}" for what, count in closings.faults.items()],
    )
    twice = 2 * statistics.median(idle)
    report.expect("the normal client's p99 has doubled", statistics.median(beside) < twice)
    report.expect("descriptors are still open", after.descriptors <= before.descriptors)
    return report


def closings_of(connections: int, timeout: float) -> Closings:
    """How so many slow connections end with this RECEIVE_TIMEOUT."""
    closings = Closings(timeout + TOLERANCE)
    with Service("--receive-timeout", str(timeout)) as service:
        asyncio.run(run_slow_clients(service.port, connections, closings, seed=1))
        if service.get("/readyz").status != 200:
            closings.faults["the service is not ready afterwards"] += 1
    return closings


@contextlib.contextmanager
def normal_client(service: Service, p99s: list[float]) -> Iterator[None]:
    """Send requests while slow clients are connected; the p99 is added to the list."""
    load = LoadGenerator(
        service.port,
        exchanges(NORMAL_BYTES, 3),
        connections=1,
        seconds=TIMEOUT + ARRIVAL,
        rate=NORMAL_RATE,
    )
    with load as generator:
        yield
        outcome = generator.outcome()
        if set(outcome.statuses) != {"200"} or outcome.wrong or outcome.resets:
            raise AssertionError(f"the normal client was not served: {outcome}")
        p99s.append(outcome.p99)


async def run_slow_clients(port: int, count: int, closings: Closings, seed: int) -> None:
    """So many slow clients, the same number of each kind, until all have ended."""
    source = random.Random(seed)
    names = list(KINDS)
    await asyncio.gather(
        *(
            _send_slowly(port, names[turn % len(names)], source.uniform(0, ARRIVAL), closings)
            for turn in range(count)
        )
    )


async def _send_slowly(port: int, name: str, delay: float, closings: Closings) -> None:
    await asyncio.sleep(delay)
    kind = KINDS[name]
    began = time.monotonic()
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    sending = asyncio.create_task(_send_bytes(writer, kind))
    response: bytes | None = b""
    try:
        async with asyncio.timeout(closings.deadline):
            response = await reader.read()
    except TimeoutError:
        response = None
    except ConnectionError:
        pass
    closings.add(name, response, time.monotonic() - began)
    sending.cancel()
    writer.transport.abort()
    with contextlib.suppress(asyncio.CancelledError, ConnectionError):
        await sending


async def _send_bytes(writer: asyncio.StreamWriter, kind: Kind) -> None:
    writer.write(kind.first)
    for byte in kind.rest:
        await asyncio.sleep(1)
        writer.write(kind.frame % byte)
        await writer.drain()
