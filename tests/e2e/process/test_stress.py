"""Rows of tools/stress for a few seconds; `make stress` runs them for minutes."""

from __future__ import annotations

import pytest

from stress import grpc_stops, slow_clients, traffic
from stress.network import network

pytestmark = pytest.mark.slow


def test_mixed_traffic_gets_right_responses_and_documented_refusals() -> None:
    report = traffic.run(minutes=0.02, seed=2, workers=1, rest=5)
    assert not report.faults, "\n".join(report.faults[:5])


def test_no_call_of_grpc_is_lost_in_a_stop() -> None:
    """What a stop meets is up to chance; each of these meets a call that is sent in part."""
    report = grpc_stops.run(2, seed=1)
    assert not report.faults, report


def test_a_hundred_slow_clients_are_closed_in_time() -> None:
    found = slow_clients.closings_of(100, timeout=1.0)
    assert not found.faults, found.faults
    assert set(found.ends) == set(slow_clients.KINDS)


def test_every_call_ends_in_time_in_the_right_tensor_or_an_error_of_ours() -> None:
    found = network(seed=5, sessions=8, most=0.5)
    assert not found.violations, "\n".join(found.violations[:5])
    # Enough faults, and not too many: most kinds have come, and several kinds of errors. Which
    # ones is up to chance, as it meets the machine's pace.
    outcomes = {outcome for _, outcome in found.outcomes}
    faults = {fault for faults, _ in found.outcomes for fault in faults.split(", ")}
    assert {"right", "DeadlineExceeded"} <= outcomes
    assert len(outcomes) >= 4
    assert len(faults) >= 6
