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

from stress.metrics import Report
from support.services.server import Service, tracebacks
from tensor_round.contract.errors import REFUSALS

from . import inputs
from .mixes.drawing import Source
from .mixes.messages import Fault, Response, read
from .mixes.valid import small

#: Requests between two valid ones.
BATCH = 100
#: Batches under way at one time; an incomplete request waits for its deadline.
CONCURRENT = 10
#: Seconds to wait for a response, several times what the service gives a sender.
TIMEOUT = 25.0
#: So that an incomplete request ends soon; yet a sender with a thousand tasks may be late, too.
OPTIONS = ("--keep-alive", "5", "--receive-timeout", "2", "--max-tensor-bytes", "64MiB")

#: What any response may be: valid, or a refusal. Only the service's own fault is no answer.
STATUSES = {kind.status for kind in REFUSALS.values() if kind.status < 500} | {100, 200, 501, 503}
#: What may not be shown to anybody.
SECRETS = (b"Traceback", b".py", b"0x7f", b"/home", b"site-packages")


@dataclass
class Findings:
    """The statuses of responses, and broken rules."""

    statuses: Counter[int] = field(default_factory=Counter)
    faults: list[str] = field(default_factory=list)
    #: The longest that a valid request took, in seconds.
    slowest: float = 0.0


async def exchange(port: int, message: bytes) -> Response | None:
    """The first final response to these bytes, or what of it came before the connection ended."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    received, is_over, is_head = bytearray(), False, message.startswith(b"HEAD ")
    try:
        writer.write(message)
        async with asyncio.timeout(TIMEOUT):
            while not is_over:
                if found := read(received):
                    if found[0].status >= 200:
                        return found[0]
                    del received[: found[1]]
                    continue
                more = await reader.read(1 << 16)
                received += more
                # A response to HEAD ends with its head, and the connection may stay open.
                is_over = not more or (is_head and b"\r\n\r\n" in received)
    except ConnectionError:
        pass  # what came before counts
    finally:
        writer.transport.abort()
    found = read(received, is_over=True)
    return found and found[0]


def complaint(response: Response, message: bytes) -> str | None:
    """What is wrong with the response to a message, which may say back what that says."""
    status, fields = response.status, response.fields
    # A response to HEAD has no content, so another may follow.
    content = response.content.partition(b"HTTP/1.1 ")[0]
    if status not in STATUSES:
        return f"status {status}"
    if status == 503 and "retry-after" not in fields:
        return "503 without Retry-After"
    if status >= 400 and any(secret in content and secret not in message for secret in SECRETS):
        return "the response tells of the inside"
    if content and fields.get("content-type") == "application/problem+json":
        problem = json.loads(content)
        if REFUSALS[problem["code"]].status != status or problem["status"] != status:
            return f"status {status} with code {problem['code']}"
    return None


async def fuzz(port: int, count: int, seed: int, found: Findings) -> Findings:
    """Send so many mutated requests to the service at that port; add what is found."""
    valid = inputs.requests()
    source, right = random.Random(seed), Source(seed)
    batches = iter(range(-(-count // BATCH)))

    async def mutated(message: bytes) -> None:
        try:
            response = await exchange(port, message)
            what = response and complaint(response, message)
        except TimeoutError:
            response, what = None, f"no response and no end within {TIMEOUT} s"
        except Fault as fault:
            response, what = None, str(fault)
        found.statuses[response.status if response else 0] += 1
        if what:
            told = response.brief() if response else ""
            found.faults.append(f"{what}: {told} to {message[:2000]!r}")

    async def send_batches() -> None:
        for _ in batches:
            messages = [inputs.mutate(source, source.choice(valid), valid) for _ in range(BATCH)]
            await asyncio.gather(*map(mutated, messages))
            began, request = time.perf_counter(), small(right)
            response = await exchange(port, request.wire)
            if response is None or request.complaint(response):
                told = response.brief() if response else "the connection ended"
                found.faults.append(f"a valid request after a hundred others failed: {told}")
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
