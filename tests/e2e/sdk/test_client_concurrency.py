"""One client: many tasks, threads and processes; calls that are cancelled; other event loops."""

from __future__ import annotations

import asyncio
import gc
import hashlib
import os
import subprocess
import sys
import threading
import time
import warnings
from collections.abc import Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from multiprocessing import get_context
from typing import Any

import httpx2
import numpy as np
import pytest
import uvloop

import tensor_round as tr
from support.cases.array_cases import LAYOUTS, bits, expected_bits, patterns
from support.clients import AnyClient
from support.http.proxy import Fault, Proxy
from support.services.server import Service
from tensor_round.clients.session import LARGE_BYTES
from tensor_round_verify.reference import ROUNDINGS

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


def test_24_threads_share_a_client(service: Service) -> None:
    """Each with its own sizes, dtypes and directions; every answer checked."""

    def work(number: int) -> None:
        dtype = ("float16", "bfloat16", "float32", "float64")[number % 4]
        rounding = ROUNDINGS[number % 5]
        for step in range(20):
            x = patterns(dtype, 100 + 997 * number % 5000 + step)
            y = client.round(x, rounding)
            assert np.array_equal(bits(y), expected_bits(x, rounding))

    with (
        Proxy(service.address) as proxy,
        tr.Client(proxy.url, tile_bytes=4096) as client,
        ThreadPoolExecutor(24) as threads,
    ):
        for done in [threads.submit(work, number) for number in range(24)]:
            done.result()
        assert proxy.open_most <= 4


def test_a_child_opens_connections_of_its_own(service: Service) -> None:
    x = patterns("float32", 100_000)
    expected = expected_bits(x)

    def is_right() -> bool:
        return all(np.array_equal(bits(client.round(x)), expected) for _ in range(10))

    with Proxy(service.address) as proxy, tr.Client(proxy.url, connections=1) as client:
        assert is_right()
        with warnings.catch_warnings():
            # Newer Pythons warn of forks beside threads (the proxy's): that is the point here.
            warnings.simplefilter("ignore", DeprecationWarning)
            child = os.fork()
        if child == 0:
            os._exit(0 if is_right() else 1)
        assert is_right()
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        assert is_right()
        assert len(proxy.seen) == 2


def test_connections_are_used_again(kind: type[AnyClient], service: Service) -> None:
    with Proxy(service.address) as proxy, kind(proxy.url) as client:
        for _ in range(20):
            client.round(patterns("float32", 100))
            client.ready()
            with pytest.raises(tr.InvalidDescriptor):
                client.round(patterns("float32", 100), "up")
        assert len(proxy.seen) == 1


def open_descriptors() -> int:
    return len(os.listdir("/proc/self/fd"))


def test_closing_leaves_nothing_behind(kind: type[AnyClient], service: Service) -> None:
    def use() -> None:
        with kind(service.url, tile_bytes=4096) as client:
            client.round(patterns("float32", 10_000))

    use()
    gc.collect()
    descriptors, threads = open_descriptors(), threading.active_count()
    for _ in range(5):
        use()
    gc.collect()
    assert (open_descriptors(), threading.active_count()) == (descriptors, threads)


def test_a_closed_client_says_so(kind: type[AnyClient], service: Service) -> None:
    with kind(service.url) as client:
        client.round(np.zeros(2, "f4"))
        client.close()
        client.close()
        for call in (lambda: client.round(np.zeros(2, "f4")), client.operators, client.ready):
            with pytest.raises(tr.InvalidArgument, match="closed"):
                call()


def test_a_client_goes_to_the_workers_of_a_pool(service: Service) -> None:
    """Spawned, they have nothing of this process but what was pickled: the bound method."""
    x = patterns("float32", 1000)
    with tr.Client(service.url) as client, get_context("spawn").Pool(2) as pool:
        for y in pool.map(client.round, [x, x, x]):
            assert np.array_equal(bits(y), expected_bits(x))


#: A reader who follows a call from the client to the socket and back opens no more.
MOST_FILES = 11
#: In a process that has imported nothing else: a client asks other libraries if they are there.
CODE = """
import sys
from pathlib import Path
import numpy as np, tensor_round as tr

root, visited = Path(tr.__file__).parent, set()

def visit(frame, event, argument):
    path = Path(frame.f_code.co_filename)
    if path.is_relative_to(root):
        visited.add(path.relative_to(root).as_posix())

with tr.Client(sys.argv[1]) as client:
    x = np.array([-2.5, 0.5, 1.5], np.float32)
    client.round(x)
    sys.setprofile(visit)
    y = client.round(x)
    sys.setprofile(None)
assert y.tolist() == [-2.0, 0.0, 2.0]
print(*sorted(visited))
"""


def test_a_repeated_call_goes_through_few_files(service: Service) -> None:
    command = [sys.executable, "-c", CODE, service.url]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    visited = set(done.stdout.split())
    assert {"clients/client.py", "transport/http.py", "contract/wire/http1.py"} <= visited
    assert len(visited) <= MOST_FILES, " ".join(sorted(visited))
