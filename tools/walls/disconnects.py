"""Senders that hang up at any byte: budget, descriptors and memory come back."""

from __future__ import annotations

import asyncio
import random
import socket
import struct
import time

import numpy as np

from gauges.vitals import MIB, REST_SECONDS, Vitals
from support.http.native_form import ieee754, post
from support.services.server import Service, tracebacks

from .storm import exchanges
from .verdict import Verdict

ABORTS = 10_000
#: Senders at one time; together they want more than there is.
LANES = 24
BUDGET = 64 * MIB
#: Of which this is the most that one large request can have.
WHOLE = BUDGET - BUDGET // 16
MOST_GROWTH = 16 * MIB
SIZES = (12, 40_000, 300_000, 2 * MIB)
#: Seconds until the budget is whole again.
FREE_WITHIN = 1.0
#: On close, send a reset at once instead of what is still to be sent.
RESET = struct.pack("ii", 1, 0)


def run(aborts: float, rest: float = REST_SECONDS) -> Verdict:
    """Aborts, then one request that needs the whole budget, and what the process still holds."""
    with Service("--max-bytes-in-flight", str(BUDGET)) as service:
        asyncio.run(abort(service.port, max(LANES, int(aborts) // 20), seed=1))
        whole_budget_is_free(service)
        before = Vitals.at_rest(service.pid, rest)
        asyncio.run(abort(service.port, int(aborts), seed=2))
        faults = whole_budget_is_free(service)
        after = Vitals.at_rest(service.pid, rest)
        faults += tracebacks(service.log)
    verdict = Verdict(
        f"{aborts:,.0f} aborts; before them {before}, after them {after}; "
        "the whole budget was free within a second",
        faults,
    )
    verdict.hold("memory grew by 16 MiB or more", after.rss - before.rss < MOST_GROWTH)
    verdict.hold("descriptors are still open", after.descriptors <= before.descriptors)
    return verdict


def whole_budget_is_free(service: Service) -> list[str]:
    """What is wrong with the answer to a request that there is only room for alone."""
    ones = np.full(WHOLE // 4, 1.5, "<f4")
    twos = np.full(WHOLE // 4, 2, "<f4")
    # The service may still be on its way through what those who have left had sent.
    deadline = time.monotonic() + FREE_WITHIN
    while True:
        reply = post(service, ieee754("float32", [ones.size]), ones.data.cast("B"))
        if reply.status != 503 or time.monotonic() > deadline:
            break
    if reply.status == 200 and reply.content == twos.tobytes():
        return []
    return [f"a request of the whole budget got {reply.status} {reply.content[:200]!r}"]


async def abort(port: int, count: int, seed: int) -> None:
    """Begin so many requests, each sent or read up to a random byte."""
    source = random.Random(seed)
    messages = [exchanges(nbytes, 1)[0] for nbytes in SIZES]
    turns = iter(range(count))

    async def lane() -> None:
        for _ in turns:
            await hang_up(port, *source.choice(messages), source)

    await asyncio.gather(*(lane() for _ in range(LANES)))


async def hang_up(port: int, request: bytes, answer: bytes, source: random.Random) -> None:
    """Hang up within the request, or within its answer."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    within_request = source.random() < 0.7
    try:
        writer.write(request[: source.randrange(len(request))] if within_request else request)
        if source.random() < 0.8:
            await writer.drain()
        if not within_request:
            left = source.randrange(len(answer))
            while left > 0 and (piece := await reader.read(left)):
                left -= len(piece)
        await asyncio.sleep(source.choice((0, 0, 0.001, 0.01)))
    except ConnectionError:
        pass  # there was no room for it, and it was told so
    if source.random() < 0.5:
        plug = writer.get_extra_info("socket")
        plug.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
    writer.transport.abort()
