"""The fuzzers of tools/fuzz for a few seconds; `make fuzz` runs them for minutes."""

from __future__ import annotations

import asyncio

import pytest

from fuzz import parsers, raw_http
from fuzz.http2.run import Fuzzer
from fuzz.mixes import run
from support.services.server import Service, tracebacks


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


def test_mutated_frames_of_http2_mean_what_another_library_says() -> None:
    found = Fuzzer(2, every=1).batch(0, 1000)
    assert not found.faults, "\n".join(found.faults[:5])
    assert found.outcomes["h2: served / served"] > 150


@pytest.mark.slow
@pytest.mark.parametrize("encrypted", [False, True], ids=["plain", "tls"])
def test_every_response_of_a_mix_comes_and_nothing_is_held(encrypted: bool) -> None:
    found = run.mixed(2, range(300), encrypted=encrypted, warm_up=50)
    assert not found.faults, "\n".join(found.faults[:5])
    assert {200, 400, 404, 405, 422} <= set(found.statuses)
