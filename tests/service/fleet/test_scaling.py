"""How many replicas are wanted, by tables of loads; one sample a second."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from tensor_round_service.fleet.plan import Scaling

#: Of the rule in these tests: smallest and largest number, utilisation, seconds before fewer.
RULE = (1, 8, 0.5, 30.0)


def followed(loads: Sequence[float], replicas: int = 1) -> list[int]:
    scaling = Scaling(*RULE)
    numbers = []
    for second, load in enumerate(loads):
        replicas = scaling.wanted(replicas, load, 100.0 + second)
        numbers.append(replicas)
    return numbers


@pytest.mark.parametrize(
    ("loads", "replicas", "expected"),
    [
        ([0.0] * 5, 1, 1),
        ([0.5] * 5, 1, 1),  # just the utilisation that is wanted
        ([0.6] * 5, 1, 2),
        ([1.0] * 5, 1, 2),
        ([2.0] * 5, 2, 4),
        ([9.0] * 5, 2, 8),  # no more than the largest number
        ([0.0] * 29, 4, 4),  # not observed for long enough
        ([0.0] * 31, 4, 1),
        ([1.4] * 31, 8, 3),
        ([1.4] + [0.2] * 30, 8, 3),  # the highest load of the window
        ([1.4] + [0.2] * 31, 8, 1),
        ([0.1 + 0.2] * 5, 1, 1),
        ([0.5, 0.5, 0.5 + 1e-9], 1, 1),  # errors of floats do not count
    ],
)
def test_wanted(loads: Sequence[float], replicas: int, expected: int) -> None:
    assert followed(loads, replicas)[-1] == expected


def test_it_grows_within_seconds_and_not_by_a_single_sample() -> None:
    numbers = followed([0.0] * 10 + [2.0] * 5)
    assert numbers[9] == 1
    assert numbers[10] == 1
    assert numbers[14] == 4


def test_it_shrinks_when_the_load_has_been_low_for_the_time() -> None:
    numbers = followed([2.0] * 40 + [0.0] * 32)
    assert numbers[39] == 4
    assert numbers[40 + 28] == 4
    assert numbers[-1] == 1


def test_a_number_beyond_the_bounds_is_brought_within() -> None:
    assert Scaling(2, 4, 0.5, 30.0).wanted(9, 0.0, 1.0) == 4
    assert Scaling(2, 4, 0.5, 30.0).wanted(0, 0.0, 1.0) == 2


def test_samples_do_not_pile_up() -> None:
    scaling = Scaling(*RULE)
    for second in range(10_000):
        scaling.wanted(1, 0.3, float(second))
    assert len(vars(scaling)["_samples"]) < 40
