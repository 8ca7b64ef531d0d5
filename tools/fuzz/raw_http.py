"""Mutated HTTP over a socket, at a real service: documented responses, and no harm.

Each request goes over a connection of its own. After every hundred a valid one must get
the right response, at once.
"""

from __future__ import annotations

import asyncio
import json
import random
import time
from collections import Counter
from dataclasses import dataclass, field

import numpy as np

from stress.report import Report
from support.services.server import Service, tracebacks
from tensor_round.contract.errors import REFUSALS

from . import mutation, seeds

#: Requests between two valid ones.
BATCH = 100
#: Batches under way at one time; an incomplete request waits for its deadline.
CONCURRENT = 10
#: Seconds to wait for a response, several times what the service gives a sender.
TIMEOUT = 10.0
#: So that an incomplete request ends soon.
OPTIONS = ("--receive-timeout", "0.5", "--max-tensor-bytes", "64MiB")

#: What any response may be, beside the refusals: valid, without change, of another method.
STATUSES = {kind.status for kind in REFUSALS.values() if kind.status < 500} | {100, 200, 503}
#: What may not be shown to anybody.
SECRETS = (b"Traceback", b".py", b"0x7f", b"/home", b"site-packages")
VALID = seeds.request(
    "/round",
    seeds.X.tobytes(),
    f"Operator-Descriptor: {json.dumps(seeds.DESCRIPTORS[0])}",
    "Connection: close",
)
RIGHT = np.rint(seeds.X).tobytes()


@dataclass
class Findings:
    """The statuses of responses, and broken rules."""

    statuses: Counter[int] = field(default_factory=Counter)
    faults: list[str] = field(default_factory=list)
    #: The longest that a valid request took, in seconds.
    slowest: float = 0.0


async def exchange(port: int, message: bytes) -> bytes:
    """What the service sends for these bytes, until it closes or the first response is complete."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    response = b""
    try:
        writer.write(message)
        async with asyncio.timeout(TIMEOUT):
            while not is_complete(response) and (more := await reader.read(1 << 16)):
                response += more
    except ConnectionError:
        pass  # what came before counts
    finally:
        writer.transport.abort()
    return response


def is_complete(response: bytes) -> bool:
    """Whether a final response with its content is there."""
    head, end, content = response.partition(b"\r\n\r\n")
    if not end:
        return False
    if head.startswith(b"HTTP/1.1 100"):
        return is_complete(content)
    fields = head.lower().split(b"\r\n")
    for line in fields:
        if line.startswith(b"content-length:"):
            return len(content) >= int(line[15:])
    return content.endswith(b"0\r\n\r\n")


def complaint(response: bytes, message: bytes) -> str | None:
    """What is wrong with the response to a message; None if nothing is, also if there is none.

    What the message says may be said back.
    """
    while response.startswith(b"HTTP/1.1 100 Continue\r\n\r\n"):
        response = response.partition(b"\r\n\r\n")[2]
    if not response:
        return None
    head, _, content = response.partition(b"\r\n\r\n")
    if not head.startswith(b"HTTP/1.1 "):
        return "no HTTP"
    status = int(head[9:12])
    if status not in STATUSES and not (status == 501 and b"shared memory" in content):
        return f"status {status}"
    if status == 503 and b"retry-after:" not in head.lower():
        return "503 without Retry-After"
    if status < 400:
        return None
    if any(secret in content and secret not in message for secret in SECRETS):
        return "the response tells of the inside"
    if content and b"application/problem+json" in head:
        problem = json.loads(content.partition(b"HTTP/1.1 ")[0])
        if REFUSALS[problem["code"]].status != status or problem["status"] != status:
            return f"status {status} with code {problem['code']}"
    return None


async def fuzz(port: int, count: int, seed: int, found: Findings) -> Findings:
    """Send so many mutated requests to the service at that port; add what is found."""
    valid = seeds.requests()
    source = random.Random(seed)
    batches = iter(range(-(-count // BATCH)))

    async def mutated(message: bytes) -> None:
        try:
            response = await exchange(port, message)
        except TimeoutError:
            found.faults.append(f"no response and no end within {TIMEOUT} s to {message[:2000]!r}")
            return
        found.statuses[int(response[9:12] or 0)] += 1
        if what := complaint(response, message):
            found.faults.append(f"{what}: {response[:400]!r} to {message[:2000]!r}")

    async def send_batches() -> None:
        for _ in batches:
            messages = [mutation.mutate(source, source.choice(valid), valid) for _ in range(BATCH)]
            await asyncio.gather(*map(mutated, messages))
            began = time.perf_counter()
            if not (await exchange(port, VALID)).endswith(RIGHT):
                found.faults.append("a valid request after a hundred others was not served")
            found.slowest = max(found.slowest, time.perf_counter() - began)

    await asyncio.gather(*(send_batches() for _ in range(CONCURRENT)))
    return found


def run(count: float, seed: int) -> Report:
    """The row of the table."""
    with Service(*OPTIONS) as service:
        asyncio.run(fuzz(service.port, 2000, seed - 1, Findings()))  # whatever is loaded late
        before = service.rss()
        found = asyncio.run(fuzz(service.port, int(count), seed, Findings()))
        grown = service.rss() - before
    lines = (f"{times:9,} {status or 'closed'}" for status, times in sorted(found.statuses.items()))
    figures = (
        f"{count:,.0f} requests (seed {seed}): a valid one took {found.slowest * 1e3:.0f} ms at "
        f"the most; resident memory {grown / 2**20:+.1f} MiB"
    )
    report = Report("\n".join((figures, *lines)), found.faults)
    report.faults += [text[:4000] for text in tracebacks(service.log)]
    return report
