"""A queueing model of services behind balancing clients, as a discrete-event simulation.

A node is a link in each direction, some cores, and a budget. A tensor crosses the link to the node,
waits for a core, is rounded, and crosses the link back. Tensors take turns on a link, as TCP
connections do. A node refuses a tensor for which its budget has no room. simpy runs the events: it
is small, and the usual library for such models.
"""

from __future__ import annotations

import contextlib
import itertools
import random
from collections.abc import Generator, Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import simpy

from tensor_round.transport.balancer import REQUEST_BYTES

#: Tensors on a link take turns of this size: what a connection has in the link's queue. Measured
#: times of small tensors beside large ones fit 128 to 256 KiB.
TURN_BYTES = 256 << 10

Process = Generator[simpy.Event, Any, Any]


class Balancing(StrEnum):
    """How a client selects the node for a request, from what it knows: its own requests."""

    RANDOM = "random"
    ROUND_ROBIN = "round robin"
    LEAST_REQUESTS = "least requests"
    LEAST_BYTES = "least bytes"


@dataclass(frozen=True)
class Node:
    """A node; rates are in bytes a second, in each direction."""

    link_rate: float
    cores: int
    #: CPU time of a request: seconds, and seconds for each byte.
    request_seconds: float
    byte_seconds: float
    #: MAX_BYTES_IN_FLIGHT.
    budget: float = float("inf")


@dataclass(frozen=True)
class Arrival:
    """A request: when it is made, by which client, and the size of its tensor."""

    at: float
    nbytes: int
    client: int = 0


@dataclass(frozen=True)
class Outcome:
    """What became of a request: how long it took, and whether it was refused."""

    nbytes: int
    seconds: float
    is_refused: bool = False


def poisson(
    rate: float, seconds: float, sizes: Sequence[tuple[int, float]], clients: int, seed: int
) -> list[Arrival]:
    """Requests at random times, ``rate`` a second; ``sizes`` are pairs of bytes and share."""
    draw = random.Random(seed)
    values, shares = zip(*sizes, strict=True)
    arrivals, at = [], 0.0
    while (at := at + draw.expovariate(rate)) < seconds:
        arrivals.append(Arrival(at, draw.choices(values, shares)[0], draw.randrange(clients)))
    return arrivals


def simulate(
    arrivals: Iterable[Arrival],
    nodes: Sequence[Node],
    balancing: Balancing,
    *,
    known: int | None = None,
    seed: int = 1,
) -> list[Outcome]:
    """Run the requests through the nodes; outcomes are in the order of their ends.

    Each client knows so many of the nodes, drawn at random, or all.
    """
    environment = simpy.Environment()
    hosts = [_Host(environment, node) for node in nodes]
    clients: dict[int, _Client] = {}
    outcomes: list[Outcome] = []
    draw = random.Random(seed)

    def sent(arrival: Arrival, client: _Client) -> Process:
        with client.sending(arrival.nbytes) as chosen:
            is_admitted = yield from hosts[chosen].serve(arrival.nbytes)
        seconds = environment.now - arrival.at
        outcomes.append(Outcome(arrival.nbytes, seconds, is_refused=not is_admitted))

    def all_sent() -> Process:
        for arrival in arrivals:
            yield environment.timeout(arrival.at - environment.now)
            if arrival.client not in clients:
                subset = draw.sample(range(len(hosts)), known or len(hosts))
                clients[arrival.client] = _Client(subset, balancing, draw)
            environment.process(sent(arrival, clients[arrival.client]))

    environment.process(all_sent())
    environment.run()
    return outcomes


class _Host:
    def __init__(self, environment: simpy.Environment, node: Node) -> None:
        self._environment = environment
        self._node = node
        self._inbound = simpy.Resource(environment)
        self._outbound = simpy.Resource(environment)
        self._cores = simpy.Resource(environment, node.cores)
        self._in_flight = 0

    def serve(self, nbytes: int) -> Process:
        """Serve a request; False if it was refused, which takes no time here."""
        node = self._node
        if self._in_flight + nbytes > node.budget:
            return False
        self._in_flight += nbytes
        yield from self._cross(self._inbound, nbytes)
        with self._cores.request() as core:
            yield core
            yield self._environment.timeout(node.request_seconds + nbytes * node.byte_seconds)
        yield from self._cross(self._outbound, nbytes)
        self._in_flight -= nbytes
        return True

    def _cross(self, link: simpy.Resource, nbytes: int) -> Process:
        for start in range(0, nbytes, TURN_BYTES):
            part = min(TURN_BYTES, nbytes - start)
            with link.request() as turn:
                yield turn
                yield self._environment.timeout(part / self._node.link_rate)


class _Client:
    """The requests of one client to each node that it knows, which it balances."""

    def __init__(self, nodes: Sequence[int], balancing: Balancing, draw: random.Random) -> None:
        self._balancing = balancing
        self._draw = draw
        self._in_turn = itertools.cycle(nodes)
        #: The load of each node, in what the balancing counts.
        self._loads = dict.fromkeys(nodes, 0)

    @contextlib.contextmanager
    def sending(self, nbytes: int) -> Iterator[int]:
        """A context in which a request is under way to the node that it yields."""
        node = self._select()
        load = 1 if self._balancing == Balancing.LEAST_REQUESTS else REQUEST_BYTES + nbytes
        self._loads[node] += load
        yield node
        self._loads[node] -= load

    def _select(self) -> int:
        if self._balancing == Balancing.RANDOM:
            return self._draw.choice([*self._loads])
        if self._balancing == Balancing.ROUND_ROBIN:
            return next(self._in_turn)
        least = min(self._loads.values())
        return self._draw.choice([node for node, load in self._loads.items() if load == least])
