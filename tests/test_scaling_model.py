"""The simulation of docs/scaling.md, beside queues whose mean times are known exactly."""

from __future__ import annotations

from statistics import mean

import pytest

from scaling.model import TURN_BYTES, Arrival, Balancing, Node, poisson, simulate

RATE = 1e8


def node(cores: int = 1, seconds: float = 0.0, budget: float = float("inf")) -> Node:
    return Node(RATE, cores, seconds, 0.0, budget)


@pytest.mark.parametrize("load", [0.3, 0.7])
def test_one_size_waits_as_in_a_queue_with_constant_service_times(load: float) -> None:
    # M/D/1 (Pollaczek and Khinchine). Behind the first link nothing arrives faster than it leaves.
    service = TURN_BYTES / RATE
    arrivals = poisson(load / service, 30_000 * service, [(TURN_BYTES, 1.0)], 1, seed=2)
    outcomes = simulate(arrivals, [node()], Balancing.RANDOM)
    expected = 2 * service + load / (2 * (1 - load)) * service
    assert mean(outcome.seconds for outcome in outcomes) == pytest.approx(expected, rel=0.05)


def test_tensors_of_several_sizes_share_a_link() -> None:
    # M/G/1 with processor sharing: each size takes its own time, stretched by the load. The way
    # back is shared as much at the most, and not at all at the least.
    load, sizes = 0.5, [(8 * TURN_BYTES, 0.5), (32 * TURN_BYTES, 0.5)]
    service = 20 * TURN_BYTES / RATE
    arrivals = poisson(load / service, 5_000 * service, sizes, 1, seed=2)
    outcomes = simulate(arrivals, [node()], Balancing.RANDOM)
    for nbytes, _ in sizes:
        times = [outcome.seconds for outcome in outcomes if outcome.nbytes == nbytes]
        alone = nbytes / RATE
        stretched = alone / (1 - load)
        assert alone + stretched < mean(times) < 1.05 * 2 * stretched


def test_cores_are_waited_for() -> None:
    arrivals = [Arrival(0.0, 0)] * 5
    outcomes = simulate(arrivals, [node(cores=2, seconds=1.0)], Balancing.RANDOM)
    assert [outcome.seconds for outcome in outcomes] == [1, 1, 2, 2, 3]


def test_a_budget_refuses_what_it_has_no_room_for() -> None:
    size = 10 * TURN_BYTES
    arrivals = [Arrival(0.0, size)] * 3 + [Arrival(1e3, size)]
    outcomes = simulate(arrivals, [node(budget=2 * size)], Balancing.RANDOM)
    assert sorted(outcome.is_refused for outcome in outcomes) == [False, False, False, True]


def test_the_least_bytes_of_all_nodes_are_selected() -> None:
    large, small = 100 * TURN_BYTES, TURN_BYTES
    arrivals = [Arrival(0.0, large)] + [Arrival(1e-6, small)] * 2
    outcomes = simulate(arrivals, [node()] * 3, Balancing.LEAST_BYTES)
    alone = pytest.approx(2 * small / RATE)
    assert [outcome.seconds for outcome in outcomes[:2]] == [alone, alone]


def test_a_client_uses_the_nodes_that_it_knows_alone() -> None:
    arrivals = [Arrival(0.0, TURN_BYTES)] * 4
    outcomes = simulate(arrivals, [node()] * 4, Balancing.LEAST_BYTES, known=1)
    assert len({outcome.seconds for outcome in outcomes}) == 4
