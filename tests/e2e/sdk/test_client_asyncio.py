"""What only the asynchronous client can: be cancelled, serve many tasks, run in other loops."""

from __future__ import annotations

import asyncio
import gc
import hashlib
import threading
import time
from collections.abc import Callable, Coroutine
from typing import Any

import httpx2
import numpy as np
import pytest
import uvloop

import tensor_round as tr
from support.cases.array_cases import LAYOUTS, bits, expected_bits, patterns
from support.http.proxy import Fault, Proxy
from support.services.server import Service
from tensor_round.clients.session import LARGE_BYTES

Run = Callable[[Coroutine[Any, Any, Any]], Any]


@pytest.fixture(params=[asyncio.run, uvloop.run], ids=["asyncio", "uvloop"])
def run(request: pytest.FixtureRequest) -> Run:
    """Runs a coroutine in a loop of each kind."""
    chosen: Run = request.param
    return chosen


def test_rounding(run: Run, service: Service) -> None:
    x = LAYOUTS["every-other"](patterns("float32", 100_000))

    async def main() -> None:
        async with tr.AsyncClient(service.url, tile_bytes=100_000) as client:
            assert np.array_equal(bits(await client.round(x)), expected_bits(x))
            inside = x.copy()
            await client.round(inside, out=inside)
            assert np.array_equal(bits(inside), expected_bits(x))

    run(main())


def test_digests_of_large_tiles_leave_the_loop_alone(
    run: Run, service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    threads = []
    sha256 = hashlib.sha256

    def seen(*data: Any) -> Any:
        if data and len(data[0]) >= LARGE_BYTES:
            threads.append(threading.get_ident())
        return sha256(*data)

    monkeypatch.setattr(hashlib, "sha256", seen)
    x = patterns("float32", 3 * LARGE_BYTES // 4)

    async def main() -> None:
        async with tr.AsyncClient(service.url, tile_bytes=LARGE_BYTES, digest=True) as client:
            assert np.array_equal(bits(await client.round(x)), expected_bits(x))
            assert len(threads) == 3
            assert threading.get_ident() not in threads

    run(main())
    with tr.Client(service.url, digest=True) as client:
        assert np.array_equal(bits(client.round(x)), expected_bits(x))
    assert threads[3:] == [threading.get_ident()]


def test_a_cancelled_call_stops_at_once_and_writes_no_more(run: Run, service: Service) -> None:
    x = patterns("float32", 100_000)

    async def ask(proxy: Proxy) -> None:
        async with tr.AsyncClient(proxy.url, tile_bytes=40_000) as client:
            out = np.zeros_like(x)
            call = asyncio.create_task(client.round(x, out=out))
            await asyncio.sleep(0.15)
            call.cancel()
            began = time.monotonic()
            with pytest.raises(asyncio.CancelledError):
                await call
            assert time.monotonic() - began < 20
            after = out.tobytes()
            await asyncio.sleep(0.3)
            assert out.tobytes() == after
            # And the client goes on.
            assert np.array_equal(bits(await client.round(x[:100])), expected_bits(x[:100]))

    slow = Fault(pieces_down=2000, pause_down=0.2)
    with Proxy(service.address, lambda number: slow if number < 4 else Fault()) as proxy:
        run(ask(proxy))


def test_many_tasks_share_a_client(run: Run, service: Service) -> None:
    async def ask(client: tr.AsyncClient, number: int) -> bool:
        x = patterns("float16", 100 + number)
        return np.array_equal(bits(await client.round(x)), expected_bits(x))

    async def main(proxy: Proxy) -> None:
        async with tr.AsyncClient(proxy.url, connections=3) as client:
            assert all(await asyncio.gather(*(ask(client, n) for n in range(200))))

    with Proxy(service.address) as proxy:
        run(main(proxy))
        assert proxy.open_most <= 3


def test_waiting_for_a_connection_meets_the_deadline(run: Run, service: Service) -> None:
    async def main(proxy: Proxy) -> None:
        async with tr.AsyncClient(proxy.url, connections=1, timeout=0.5) as client:
            calls = (client.round(np.zeros(3, "f4")) for _ in range(3))
            results = await asyncio.gather(*calls, return_exceptions=True)
            assert [type(result) for result in results] == [tr.DeadlineExceeded] * 3

    with Proxy(service.address, lambda _: Fault(delay_down=5)) as proxy:
        run(main(proxy))


def test_no_time_at_all_is_only_a_deadline_that_has_passed(run: Run) -> None:
    async def main() -> None:
        async with tr.AsyncClient("http://127.0.0.1:1", timeout=1e-9) as client:
            with pytest.raises(tr.DeadlineExceeded):
                await client.operators()

    run(main())
    gc.collect()  # a coroutine that nobody awaited would complain now


HALVES = np.array([0.5, 1.5, 2.5], "<f4")
ANSWER = (
    b"HTTP/1.1 200 OK\r\nContent-Type: application/octet-stream\r\nContent-Length: 12\r\n"
    b'Output-Descriptor: {"dtype":"float32","shape":[3],"strides":[1],"byte_length":12}\r\n\r\n'
) + np.rint(HALVES).tobytes()


def test_a_connection_that_closed_while_idle_is_replaced(run: Run) -> None:
    """The proxy hangs up right after each answer, as services do with idle connections."""

    async def main(proxy: Proxy) -> None:
        async with tr.AsyncClient(proxy.url, retries=0) as client:
            for _ in range(3):
                assert (await client.round(HALVES)).tolist() == [0, 2, 2]
                await asyncio.sleep(0.05)

    with Proxy(None, lambda _: Fault(answer=ANSWER)) as proxy:
        run(main(proxy))
        assert len(proxy.seen) == 3
        with tr.Client(proxy.url, retries=0) as client:
            for _ in range(3):
                assert client.round(HALVES).tolist() == [0, 2, 2]
                time.sleep(0.05)
        assert len(proxy.seen) == 6


@pytest.mark.filterwarnings("ignore:unclosed")
def test_in_another_loop_it_begins_anew(run: Run, service: Service) -> None:
    client = tr.AsyncClient(service.url)
    x = patterns("float32", 1000)
    for _ in range(2):
        y = run(client.round(x))
        assert np.array_equal(bits(y), expected_bits(x))
    run(client.close())
    # Warnings of what ended loops left open come when it is collected: here.
    gc.collect()


def test_a_service_in_this_process(run: Run) -> None:
    from tensor_round_service.app import create_app
    from tensor_round_service.settings import Settings

    async def main() -> None:
        transport = httpx2.ASGITransport(create_app(Settings(allowed_hosts="here")))
        async with tr.AsyncClient("http://here", transport=transport) as client:
            assert set((await client.operators())["dialects"]) >= {"onnx", "directml"}

    run(main())
