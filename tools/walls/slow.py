"""Senders of one byte a second: each is closed by its deadline, and others do not feel them."""

from __future__ import annotations

import asyncio
import contextlib
import random
import statistics
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field

from gauges.quantiles import milliseconds
from gauges.vitals import Vitals
from support.http.native_form import ieee754
from support.services.server import Service

from .storm import Storm, exchanges
from .verdict import Verdict

CONNECTIONS = 1000
ROUNDS = 3
#: RECEIVE_TIMEOUT as it is if nobody sets it.
TIMEOUT = 10.0
#: Seconds beyond it: the pace of bodies is looked at once a second, and the loop has others.
TOLERANCE = 3.0
#: Seconds over which the slow ones come, so that it is not their arrival that is measured.
ARRIVAL = 2.0
#: The good client: requests a second, bytes of a tensor.
GOOD_RATE = 200
GOOD_BYTES = 64 << 10

_HEAD = "POST /round HTTP/1.1\r\nHost: x\r\nOperator-Descriptor: {}\r\n{}\r\n\r\n"


@dataclass(frozen=True)
class Kind:
    """What a slow sender sends at once, then byte by byte; and what it is told."""

    first: bytes
    rest: bytes
    #: What each of the rest's bytes goes in.
    frame: bytes = b"%c"
    answer: bytes = b"HTTP/1.1 408 "


def _begun(nbytes: int, first: int) -> bytes:
    head = _HEAD.format(ieee754("float32", [nbytes // 4]), f"Content-Length: {nbytes}")
    return head.encode() + bytes(first)


KINDS = {
    # Nothing to answer: no request has begun.
    "silent": Kind(b"", b"", answer=b""),
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

    def note(self, name: str, answer: bytes | None, seconds: float) -> None:
        """One is over, with this answer, or is not (None)."""
        expected = KINDS[name].answer
        if answer is None:
            self.faults[f"{name}: open beyond its deadline"] += 1
        elif answer[: len(expected) or 1] != expected:
            self.faults[f"{name}: answered {answer[:40]!r}"] += 1
        self.ends[name] += 1
        self.latest = max(self.latest, seconds)


def run(connections: float) -> Verdict:
    """Rounds with and without slow senders in turn, as a machine's own noise comes and goes."""
    closings = Closings()
    idle: list[float] = []
    beset: list[float] = []
    with Service("--receive-timeout", str(TIMEOUT)) as service:
        before = Vitals.of(service.pid)
        for turn in range(ROUNDS):
            with good_client(service, idle):
                pass
            with good_client(service, beset):
                asyncio.run(crawl(service.port, int(connections), closings, seed=turn))
        after = Vitals.at_rest(service.pid)
    verdict = Verdict(
        f"{sum(closings.ends.values()):,} connections ({', '.join(KINDS)}), "
        f"{connections:g} at a time, all ended within {closings.latest:.1f} s; a good client's p99 "
        f"{milliseconds(statistics.median(idle))} alone, "
        f"{milliseconds(statistics.median(beset))} beside them",
        [f"{count} times {what}" for what, count in closings.faults.items()],
    )
    twice = 2 * statistics.median(idle)
    verdict.hold("the good client's p99 has doubled", statistics.median(beset) < twice)
    verdict.hold("descriptors are still open", after.descriptors <= before.descriptors)
    return verdict


def besieged(connections: int, timeout: float) -> Closings:
    """How so many slow ones end where the service has this RECEIVE_TIMEOUT."""
    closings = Closings(timeout + TOLERANCE)
    with Service("--receive-timeout", str(timeout)) as service:
        asyncio.run(crawl(service.port, connections, closings, seed=1))
        if service.get("/readyz").status != 200:
            closings.faults["the service is not ready afterwards"] += 1
    return closings


@contextlib.contextmanager
def good_client(service: Service, p99s: list[float]) -> Iterator[None]:
    """Keep asking while the slow ones are there; its p99 is added to the list."""
    storm = Storm(
        service.port,
        exchanges(GOOD_BYTES, 3),
        connections=1,
        seconds=TIMEOUT + ARRIVAL,
        rate=GOOD_RATE,
    )
    with storm:
        yield
        outcome = storm.outcome()
        if set(outcome.statuses) != {"200"} or outcome.wrong or outcome.resets:
            raise AssertionError(f"the good client was not served: {outcome}")
        p99s.append(outcome.p99)


async def crawl(port: int, count: int, closings: Closings, seed: int) -> None:
    """So many slow senders, the same number of each kind, until all are over."""
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
    sending = asyncio.create_task(_drip(writer, kind))
    answer: bytes | None = b""
    try:
        async with asyncio.timeout(closings.deadline):
            answer = await reader.read()
    except TimeoutError:
        answer = None
    except ConnectionError:
        pass
    closings.note(name, answer, time.monotonic() - began)
    sending.cancel()
    writer.transport.abort()
    with contextlib.suppress(asyncio.CancelledError, ConnectionError):
        await sending


async def _drip(writer: asyncio.StreamWriter, kind: Kind) -> None:
    writer.write(kind.first)
    for byte in kind.rest:
        await asyncio.sleep(1)
        writer.write(kind.frame % byte)
        await writer.drain()
