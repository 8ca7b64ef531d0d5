"""Real requests to real services, at the times and of the sizes that a simulation has."""

from __future__ import annotations

import asyncio
import contextlib
import random
import time
from collections.abc import Sequence

import numpy as np

import tensor_round as tr

from .model import Arrival, Balancing, Outcome

#: More connections than requests are ever under way: the client itself makes none wait.
CONNECTIONS = 256


def measure(
    arrivals: Sequence[Arrival], urls: Sequence[str], balancing: Balancing
) -> list[Outcome]:
    """Send the requests; outcomes are in the order of their ends.

    With :attr:`Balancing.LEAST_BYTES` one client has all addresses; with
    :attr:`Balancing.RANDOM` each request goes to one of them by a client of its own.

    Raises :class:`AssertionError` for a wrong response.
    """
    return asyncio.run(_measure(arrivals, urls, balancing))


async def _measure(
    arrivals: Sequence[Arrival], urls: Sequence[str], balancing: Balancing
) -> list[Outcome]:
    tensors = {
        nbytes: np.random.default_rng(nbytes).normal(0, 100, nbytes // 4).astype(np.float32)
        for nbytes in {arrival.nbytes for arrival in arrivals}
    }
    expected = {nbytes: np.rint(x) for nbytes, x in tensors.items()}
    outcomes: list[Outcome] = []
    draw = random.Random(1)
    addresses: list[str | list[str]] = [*urls]
    if balancing == Balancing.LEAST_BYTES and len(urls) > 1:
        addresses = [[*urls]]
    async with contextlib.AsyncExitStack() as stack:
        clients = [
            await stack.enter_async_context(
                tr.AsyncClient(address, timeout=None, retries=0, connections=CONNECTIONS)
            )
            for address in addresses
        ]
        began = time.perf_counter()

        async def send(arrival: Arrival, client: tr.AsyncClient) -> None:
            is_refused = False
            try:
                y = await client.round(tensors[arrival.nbytes])
                assert np.array_equal(y, expected[arrival.nbytes])
            except tr.Overloaded:
                is_refused = True
            seconds = time.perf_counter() - began - arrival.at
            outcomes.append(Outcome(arrival.nbytes, seconds, is_refused))

        async with asyncio.TaskGroup() as tasks:
            for arrival in arrivals:
                await asyncio.sleep(arrival.at - (time.perf_counter() - began))
                tasks.create_task(send(arrival, draw.choice(clients)))
    return outcomes
