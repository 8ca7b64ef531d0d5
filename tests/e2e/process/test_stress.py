"""Rows of tools/stress and tools/fuzz for seconds; `make stress` and `make fuzz` run minutes."""

from __future__ import annotations

import asyncio

import pytest

from fuzz import parsers, raw_http
from fuzz.http2.run import Fuzzer
from fuzz.mixes import run
from stress import edge, slow_clients, stops, traffic
from stress.network import network
from support.services.server import Service, tracebacks


@pytest.mark.slow
def test_mixed_traffic_gets_right_responses_and_documented_refusals() -> None:
    report = traffic.run(minutes=0.02, seed=2, workers=1, rest=1, part=4)
    assert not report.faults, "\n".join(report.faults[:5])


@pytest.mark.slow
def test_no_call_of_grpc_is_lost_in_a_stop() -> None:
    """What a stop meets is up to chance; each of these meets a call that is sent in part."""
    report = stops.stops_grpc(2, seed=1)
    assert not report.faults, report


@pytest.mark.slow
def test_slow_clients_are_closed_in_time() -> None:
    found = slow_clients.closings_of(100, timeout=1.0)
    assert not found.faults, found.faults
    assert set(found.ends) == set(slow_clients.KINDS)


@pytest.mark.slow
@pytest.mark.usefixtures("each_started")
@pytest.mark.parametrize(
    "name",
    [
        "no key, 48 connections",
        "proofs of overlap",
        pytest.param("sizes of the table", marks=pytest.mark.sweep),
    ],
)
def test_an_attack_takes_no_long_step_of_the_event_loop(name: str) -> None:
    cost = edge.measure(edge.attacks()[name], seconds=1)
    assert cost.used > 1
    assert 0 < cost.step < 5 * edge.STEP_SECONDS  # the machine may be busy


@pytest.mark.slow
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


@pytest.mark.slow
def test_mutated_input_gets_documented_errors_soon() -> None:
    found = parsers.fuzz(count=20_000, seed=2)
    assert not found.faults, "\n".join(found.faults[:5])
    assert found.grown_bytes < 64 << 20
    # Mutated, but not beyond recognition: every reader gets past its first rule.
    for name in parsers.targets():
        assert found.outcomes[f"{name} valid"]


def test_mutated_http_gets_documented_responses() -> None:
    with Service(*raw_http.OPTIONS) as service:
        found = asyncio.run(raw_http.fuzz(service.port, 2000, 2, raw_http.Findings()))
        assert service.get("/livez").status == 200
    assert not found.faults, "\n".join(found.faults[:5])
    assert {200, 400, 404, 408, 422} <= set(found.statuses)
    assert not tracebacks(service.log)


def test_mutated_frames_of_http2_mean_the_same_to_another_library() -> None:
    found = Fuzzer(2, every=1).batch(0, 1000)
    assert not found.faults, "\n".join(found.faults[:5])
    assert found.outcomes["h2: served / served"] > 150


@pytest.mark.parametrize(
    ("connections", "encrypted"),
    [(200, False), pytest.param(60, True, marks=pytest.mark.slow)],
    ids=["plain", "tls"],
)
def test_every_response_of_a_mix_comes_and_nothing_is_held(
    connections: int, encrypted: bool
) -> None:
    found = run.mixed(2, range(connections), encrypted=encrypted)
    assert not found.faults, "\n".join(found.faults[:5])
    assert {200, 400, 404, 405, 422} <= set(found.statuses)
