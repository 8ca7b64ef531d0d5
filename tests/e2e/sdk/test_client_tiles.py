"""Large arrays: cut, sent on several connections, put together; memory bounded, one deadline."""

from __future__ import annotations

import time
import tracemalloc
from typing import Any

import numpy as np
import pytest

import tensor_round as tr
from support.cases.array_cases import LAYOUTS, bits, expected_bits, patterns
from support.clients import AnyClient
from support.http.proxy import Fault, Proxy, answer
from support.services.server import Service


@pytest.mark.parametrize("layout", ["flat", "fortran", "permuted", "every-other", "broadcast"])
@pytest.mark.parametrize(
    "operator",
    ["ties_to_away", tr.OpenVINORound(mode="half_away_from_zero"), tr.DirectMLRound(2)],
    ids=["ieee754", "openvino", "directml"],
)
def test_tiles_make_the_whole(
    kind: type[AnyClient], service: Service, layout: str, operator: Any
) -> None:
    x = LAYOUTS[layout](patterns("float32", 24 * 997))
    with kind(service.url, tile_bytes=7000, connections=3) as client:
        y = client.round(x, operator)
        assert np.array_equal(bits(y), expected_bits(x, "ties_to_away"))
        inside = x.copy()
        client.round(inside, operator, out=inside)
        assert np.array_equal(bits(inside), bits(y))


def test_tiles_travel_on_as_many_connections_as_allowed(
    kind: type[AnyClient], service: Service
) -> None:
    x = patterns("float32", 1 << 20)
    with (
        Proxy(service.address) as proxy,
        kind(proxy.url, tile_bytes=64 << 10, connections=3) as client,
    ):
        client.round(x)
        client.round(x)
        assert proxy.open_most <= 3
        assert len(proxy.seen) >= 2, "connections are used at the same time"
        assert len(proxy.seen) <= 3, "and used again"


@pytest.mark.parametrize("method", ["round", "compare"])
def test_progress_is_told_tile_by_tile(
    kind: type[AnyClient], service: Service, method: str
) -> None:
    told: list[tuple[int, int]] = []
    x = patterns("float32", 1000)
    with kind(service.url, tile_bytes=400, connections=1) as client:
        getattr(client, method)(x, progress=lambda done, total: told.append((done, total)))
    assert told == [(done, 4000) for done in range(0, 4001, 400)]


def test_a_progress_bar_goes_to_stderr(
    kind: type[AnyClient], service: Service, capsys: pytest.CaptureFixture[str]
) -> None:
    with kind(service.url) as client:
        client.round(patterns("float32", 1000), progress=True)
    shown = capsys.readouterr()
    assert shown.out == ""
    assert "rounding 100 %, 3.9 of 3.9 KiB, " in shown.err.splitlines()[-1]


@pytest.mark.parametrize("make", ["gaps", "big-endian"])
def test_the_client_s_memory_is_bounded_by_tiles(
    kind: type[AnyClient], service: Service, make: str
) -> None:
    x = (
        np.zeros((1 << 12, 1 << 13), "<f4")[:, ::2]
        if make == "gaps"
        else np.zeros((1 << 12, 1 << 12), ">f4")
    )
    out = np.empty_like(x)
    with kind(service.url, tile_bytes=1 << 20, connections=2) as client:
        client.round(x[:64], out=out[:64])
        tracemalloc.start()
        client.round(x, out=out)
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
    # Two tiles at once, each copied out, and in, and by the asynchronous transport once more.
    assert x.nbytes == 64 << 20
    assert peak < 10 << 20


def test_one_deadline_for_all_tiles(kind: type[AnyClient], service: Service) -> None:
    with (
        Proxy(service.address, lambda _: Fault(delay_down=0.3)) as proxy,
        kind(proxy.url, tile_bytes=4, connections=1, timeout=0.5) as client,
    ):
        client_began = time.monotonic()
        x = patterns("float32", 4000)
        with pytest.raises(tr.DeadlineExceeded):
            client.round(x)
        assert time.monotonic() - client_began < 30


def test_the_first_error_ends_the_call_in_every_thread(
    kind: type[AnyClient], service: Service
) -> None:
    """One connection is refused for good while others wait for slow answers."""
    refusal = answer("403 Forbidden")
    with (
        Proxy(
            service.address,
            lambda number: Fault(answer=refusal) if number == 2 else Fault(delay_down=60),
        ) as proxy,
        kind(proxy.url, tile_bytes=400, connections=3) as client,
    ):
        began = time.monotonic()
        with pytest.raises(tr.UnknownRefusal) as caught:
            client.round(patterns("float32", 4000))
        assert caught.value.status == 403
        assert time.monotonic() - began < 30
