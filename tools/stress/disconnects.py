"""Clients that disconnect at any byte: budget, descriptors and memory are given back."""

from __future__ import annotations

import asyncio
import random
import socket
import time

import numpy as np

from fuzz.mixes.connection import RESET
from support.http.native_form import ieee754, post
from support.services.server import Service, tracebacks

from .loads import exchanges
from .metrics import MIB, REST_SECONDS, ProcessMetrics, Report

#: Clients at one time; together they need more than the budget.
CLIENTS = 24
BUDGET = 64 * MIB
#: Of which this is the most that one large request can have.
WHOLE = BUDGET - BUDGET // 16
MOST_GROWTH = 16 * MIB
SIZES = (12, 40_000, 300_000, 2 * MIB)
#: Seconds until the budget is whole again.
FREE_WITHIN = 1.0


def run(aborts: float, rest: float = REST_SECONDS) -> Report:
    """Aborts, then one request that needs the whole budget, and what the process still holds."""
    with Service("--max-bytes-in-flight", str(BUDGET)) as service:
        asyncio.run(abort(service.port, max(CLIENTS, int(aborts) // 20), seed=1))
        whole_budget_is_free(service)
        before = ProcessMetrics.at_rest(service.pid, rest)
        asyncio.run(abort(service.port, int(aborts), seed=2))
        faults = whole_budget_is_free(service)
        after = ProcessMetrics.at_rest(service.pid, rest)
        faults += tracebacks(service.log)
    report = Report(
        f"{aborts:,.0f} aborts; before them {before}, after them {after}; "
        "the whole budget was free within a second",
        faults,
    )
    report.expect("memory grew by 16 MiB or more", after.rss - before.rss < MOST_GROWTH)
    report.expect("descriptors are still open", after.descriptors <= before.descriptors)
    return report


def whole_budget_is_free(service: Service) -> list[str]:
    """What is wrong with the response to a request that needs the whole budget."""
    ones = np.full(WHOLE // 4, 1.5, "<f4")
    twos = np.full(WHOLE // 4, 2, "<f4")
    # The service may still be reading what closed connections had sent.
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

    async def disconnect_some() -> None:
        for _ in turns:
            await disconnect(port, *source.choice(messages), source)

    await asyncio.gather(*(disconnect_some() for _ in range(CLIENTS)))


async def disconnect(port: int, request: bytes, body: bytes, source: random.Random) -> None:
    """Disconnect within the request, or within its response."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    within_request = source.random() < 0.7
    try:
        writer.write(request[: source.randrange(len(request))] if within_request else request)
        if source.random() < 0.8:
            await writer.drain()
        if not within_request:
            left = source.randrange(len(body))
            while left > 0 and (piece := await reader.read(left)):
                left -= len(piece)
        await asyncio.sleep(source.choice((0, 0, 0.001, 0.01)))
    except ConnectionError:
        pass  # it was refused
    if source.random() < 0.5:
        sock = writer.get_extra_info("socket")
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
    writer.transport.abort()
