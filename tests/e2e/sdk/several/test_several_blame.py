"""What tells against one of several services, and what does not."""

from __future__ import annotations

import logging
import time

import numpy as np
import pytest

import tensor_round as tr
from support.cases.array_cases import bits, expected_bits, patterns
from support.clients import AnyClient
from support.http.proxy import Fault, Proxy
from support.services.server import Service

X = patterns("float32", 50_000)
EXPECTED = expected_bits(X)


def test_a_service_that_stalls_in_a_response_fails_one_call_too(
    kind: type[AnyClient], service: Service
) -> None:
    stall = Fault(pieces_down=9000, pause_down=60.0)
    outcomes = []
    with (
        Proxy(service.address, lambda _: stall) as stalls,
        kind([stalls.url, service.url], timeout=2.0) as client,
    ):
        for _ in range(4):
            try:
                outcomes.append(np.array_equal(bits(client.round(X)), EXPECTED))
            except tr.DeadlineExceeded:
                outcomes.append(False)
    assert outcomes.count(False) == 1


def test_a_call_that_fails_by_itself_tells_against_no_service(
    service: Service, caplog: pytest.LogCaptureFixture
) -> None:
    """One tile is done when the caller's function raises; another one's response is due."""
    caplog.set_level(logging.INFO, "tensor_round")

    def interrupt(done: int, _total: int) -> None:
        if done:
            ends = time.monotonic() + 20
            while not slow.seen and time.monotonic() < ends:
                time.sleep(0.01)  # its thread may begin later than the other one's ends
            raise KeyboardInterrupt

    with (
        Proxy(service.address, lambda _: Fault(delay_down=25.0)) as slow,
        tr.Client([slow.url, service.url], connections=1, tile_bytes=X.nbytes // 2) as client,
    ):
        with pytest.raises(KeyboardInterrupt):
            client.round(X, progress=interrupt)
        assert len(slow.seen) == 1
    assert not [message for message in caplog.messages if "is ejected" in message]
