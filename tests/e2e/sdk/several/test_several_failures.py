"""Several services, some of which are killed, drain, hang, are busy, or are none.

Whatever happens to one, calls have the right tensor from another.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import re
import signal
import socket
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import tensor_round as tr
from support.cases.array_cases import Array, bits, expected_bits, patterns
from support.clients import AnyClient
from support.http.proxy import FAULTLESS, Fault, Proxy
from support.services.server import Service
from tensor_round.clients import session as retries
from tensor_round.transport import balancer

X = patterns("float32", 50_000)
EXPECTED = expected_bits(X)
MIB = 1 << 20
PAGE = b"HTTP/1.1 404 Not Found\r\nContent-Type: text/html\r\nContent-Length: 2\r\n\r\nno"


def is_right(y: Array) -> bool:
    return np.array_equal(bits(y), EXPECTED)


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port: int = listener.getsockname()[1]
        return port


class Load:
    """Eight callers of one client, in threads or in tasks of one loop, until it is left."""

    def __init__(self, urls: list[str], kind: str) -> None:
        self._urls = urls
        self._run = self._in_threads if kind == "sync" else lambda: asyncio.run(self._in_tasks())
        self._ends = threading.Event()
        self.done = 0

    def _in_threads(self) -> None:
        with tr.Client(self._urls) as client, ThreadPoolExecutor(8) as threads:

            def work(_: int) -> None:
                while not self._ends.is_set():
                    assert is_right(client.round(X))
                    self.done += 1

            assert list(threads.map(work, range(8))) == [None] * 8

    async def _in_tasks(self) -> None:
        async with tr.AsyncClient(self._urls) as client, asyncio.TaskGroup() as group:

            async def work() -> None:
                while not self._ends.is_set():
                    assert is_right(await client.round(X))
                    self.done += 1

            for _ in range(8):
                group.create_task(work())

    def __enter__(self) -> Load:
        self._pool = ThreadPoolExecutor(1)
        self._running = self._pool.submit(self._run)
        return self

    def __exit__(self, *_: object) -> None:
        self._ends.set()
        self._running.result(60)
        self._pool.shutdown()

    def goes_on(self) -> None:
        """Wait for fifty more calls."""
        until, deadline = self.done + 50, time.monotonic() + 30
        while self.done < until:
            assert not self._running.done(), self._running.exception()
            assert time.monotonic() < deadline
            time.sleep(0.005)


@pytest.mark.parametrize("kind", ["sync", "async"])
def test_no_call_is_lost_or_wrong_while_services_come_and_go(
    kind: str, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One is killed and comes back, another drains; eight callers notice nothing."""
    monkeypatch.setattr(balancer, "FIRST_EJECTION", 0.1)
    caplog.set_level(logging.INFO, "tensor_round")
    with (
        Service() as stays,
        Service() as drains,
        Service() as killed,
        Load([stays.url, drains.url, killed.url], kind) as load,
    ):
        load.goes_on()
        os.kill(killed.pid, signal.SIGKILL)
        load.goes_on()
        killed.process.wait(20)
        assert drains.stop() == 0
        load.goes_on()
        with Service("--port", str(killed.port)) as again:
            deadline = time.monotonic() + 20
            while f"{again.url} is used again" not in caplog.messages:
                assert time.monotonic() < deadline, caplog.messages
                load.goes_on()
            served = again.get("/metrics").content
            load.goes_on()
            assert again.get("/metrics").content != served
    lost = {message.partition(" ")[0] for message in caplog.messages if "is ejected" in message}
    assert lost == {drains.url, killed.url}


@pytest.fixture
def long_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    """A call that pauses before a retry misses its deadline."""
    monkeypatch.setattr(retries, "FIRST_PAUSE", 1000.0)
    monkeypatch.setattr(retries, "LONGEST_PAUSE", 1000.0)


def test_dead_services_cost_no_upload_and_no_retry(kind: type[AnyClient], service: Service) -> None:
    """As many as a node that was lost may have had."""
    dead = [f"http://127.0.0.1:{free_port()}" for _ in range(6)]
    with Proxy(service.address) as proxy, kind([*dead, proxy.url], retries=0) as client:
        for _ in range(10):
            assert is_right(client.round(X))
    # One request of each call, on one connection.
    assert len(proxy.seen) == 1
    assert 10 * X.nbytes <= proxy.seen[0].up_bytes < 10 * (X.nbytes + 2000)


def test_if_all_are_dead_each_is_tried_and_the_error_names_the_last(kind: type[AnyClient]) -> None:
    urls = [f"http://127.0.0.1:{free_port()}" for _ in range(2)]
    with kind(urls, retries=1) as client:
        with pytest.raises(tr.ConnectionFailed, match="cannot connect") as caught:
            client.round(X)
        assert caught.value.detail.startswith(tuple(urls))
        assert caught.value.request_id is not None
        assert not client.ready()


@contextlib.contextmanager
def full_backlog() -> Iterator[str]:
    """The URL of a port to which nobody can connect, and which refuses nobody."""
    with contextlib.ExitStack() as stack:
        listener = stack.enter_context(socket.socket())
        listener.bind(("127.0.0.1", 0))
        listener.listen(0)
        for _ in range(2):
            waiting = stack.enter_context(socket.socket())
            waiting.setblocking(False)
            waiting.connect_ex(listener.getsockname())
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"


def test_connecting_to_a_black_hole_leaves_time_for_another(
    kind: type[AnyClient], service: Service
) -> None:
    with full_backlog() as hole, kind([hole, service.url], timeout=4.0, retries=0) as client:
        began = time.monotonic()
        assert is_right(client.round(X))
        assert is_right(client.round(X))
        assert time.monotonic() - began > 0.4


def test_a_service_that_hangs_fails_one_call_and_no_further_one(
    kind: type[AnyClient], service: Service
) -> None:
    with Service() as hangs, kind([hangs.url, service.url], timeout=2.0) as client:
        for _ in range(2):
            assert is_right(client.round(X))
        os.kill(hangs.pid, signal.SIGSTOP)
        outcomes = []
        try:
            for _ in range(4):
                try:
                    outcomes.append(is_right(client.round(X)))
                except tr.DeadlineExceeded:
                    outcomes.append(False)
        finally:
            os.kill(hangs.pid, signal.SIGCONT)
        assert outcomes.count(False) == 1
        assert outcomes[2:] == [True, True]


def refusals(of: Service) -> float:
    """The requests that a service has refused as overloaded."""
    pattern = r'^tensor_round_\w+_total{[^}]*code="overloaded"[^}]*} (\S+)$'
    return sum(map(float, re.findall(pattern, of.get("/metrics").content.decode(), re.M)))


@pytest.mark.usefixtures("long_pauses")
def test_a_busy_service_is_left_alone_for_its_retry_after(service: Service) -> None:
    """Another sender has half of its budget; larger tensors go to the other service at once."""
    x = np.full(4 * MIB // 4, 1.5, np.float32)
    described = tr.IEEE754Round().descriptor("float32", x.shape).to_json().decode()
    head = f"Host: x\r\nContent-Length: {x.nbytes}\r\nOperator-Descriptor: {described}"
    with (
        Service("--max-bytes-in-flight", "7MiB") as small,
        tr.Client([small.url, service.url]) as client,
        small.connect() as sender,
    ):
        sender.sendall(f"POST /round HTTP/1.1\r\n{head}\r\n\r\n".encode())
        sender.sendall(bytes(x.nbytes - 1))
        time.sleep(0.1)
        for _ in range(3):
            assert (client.round(x) == 2.0).all()
        assert refusals(small) == 1
        time.sleep(1.05)
        for _ in range(2):
            assert (client.round(x) == 2.0).all()
        assert refusals(small) == 2
        sender.sendall(bytes(1))
        assert sender.recv(12) == b"HTTP/1.1 200"


@pytest.mark.usefixtures("long_pauses")
def test_garbled_bytes_are_sent_to_another_address_at_once(
    kind: type[AnyClient], service: Service
) -> None:
    with (
        Proxy(service.address, lambda _: Fault(garble_up=frozenset({5000}))) as garbles,
        Proxy(service.address, lambda _: Fault(garble_down=frozenset({5000}))) as returns,
        Proxy(service.address) as well,
        kind([garbles.url, returns.url, well.url], digest=True) as client,
    ):
        for _ in range(3):
            assert is_right(client.round(X))
        uploads = [[seen.up_bytes // X.nbytes for seen in p.seen] for p in (garbles, returns, well)]
        assert uploads == [[1], [1], [3]]


@pytest.mark.parametrize("status", [b"404 Not Found", b"200 OK"])
def test_a_server_of_another_kind_is_passed_over(
    kind: type[AnyClient], service: Service, status: bytes
) -> None:
    page = PAGE.replace(b"404 Not Found", status)
    with (
        Proxy(None, lambda _: Fault(answer=page, early=True)) as web,
        kind([web.url, service.url]) as client,
    ):
        for _ in range(4):
            assert is_right(client.round(X))
        assert len(web.seen) == 1
        assert client.ready()
        with kind([web.url, web.url.replace("localhost", "127.0.0.1")], retries=1) as none:
            with pytest.raises(tr.TensorRoundError, match="no tensor-round service answers at"):
                none.operators()
            assert not none.ready()


@pytest.mark.parametrize("retries_allowed", [0, 1])
def test_another_address_is_a_retry_too(
    kind: type[AnyClient], service: Service, retries_allowed: int
) -> None:
    """Two addresses fail: two retries are needed, and not made if fewer are allowed."""
    cuts = Fault(cut_down=9000)
    with (
        Proxy(service.address, lambda _: cuts) as first,
        Proxy(service.address, lambda _: cuts) as second,
        kind([first.url, second.url], retries=retries_allowed) as client,
    ):
        with pytest.raises(tr.ConnectionFailed, match=r"within|reset"):
            client.round(X)
        assert len(first.seen) + len(second.seen) == 1 + retries_allowed


def test_a_response_cut_short_is_asked_for_elsewhere_and_tears_nothing(
    kind: type[AnyClient], service: Service
) -> None:
    with (
        Proxy(service.address, lambda n: Fault(cut_down=9000) if n == 0 else FAULTLESS) as cuts,
        kind([cuts.url, service.url]) as client,
    ):
        for _ in range(2):
            inside = X.copy()
            client.round(inside, out=inside)
            assert is_right(inside)
        assert len(cuts.seen) == 1
