"""A service that cannot be reached, or not yet; what answers is no service, or means no good."""

from __future__ import annotations

import contextlib
import gzip
import json
import socket
import subprocess
import sys
import threading
import time
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

import tensor_round as tr
from support.clients import AnyClient, answered
from support.http.proxy import Fault, Proxy, answer
from support.memory import traced
from support.services.server import Service
from tensor_round.clients.session import PATIENCE
from tensor_round.transport.exchange import MAX_PROBLEM_BYTES

X = np.array([0.5, 1.5, -2.5], np.float32)
#: Longer than the pauses of three retries together.
OUTAGE = 1.5
#: Far less than a client waits for a service that has answered it, and far more than it needs.
SOON = PATIENCE / 3


@contextlib.contextmanager
def back_after(seconds: float, *options: str) -> Iterator[None]:
    """Starts a service after so long, while the block runs."""
    with contextlib.ExitStack() as stack:

        def start() -> None:
            time.sleep(seconds)
            stack.enter_context(Service(*options))

        thread = threading.Thread(target=start)
        thread.start()
        try:
            yield
        finally:
            thread.join()


@pytest.mark.slow
@pytest.mark.parametrize("place", ["tcp", "unix"])
def test_a_restart_is_waited_for(kind: type[AnyClient], place: str, tmp_path: Path) -> None:
    uds = ("--uds", str(tmp_path / "socket"))
    with contextlib.ExitStack() as stack:
        first = stack.enter_context(Service(*(uds if place == "unix" else ())))
        client = stack.enter_context(kind(first.url))
        assert client.round(X).tobytes() == np.rint(X).tobytes()
        assert first.stop() == 0
        again = uds if place == "unix" else ("--port", str(first.port))
        with back_after(OUTAGE, *again):
            began = time.monotonic()
            assert client.round(X).tobytes() == np.rint(X).tobytes()
            assert time.monotonic() - began > OUTAGE


def test_the_timeout_is_the_limit(kind: type[AnyClient]) -> None:
    with Service() as service, kind(service.url, timeout=1.5) as client:
        client.round(X)
        assert service.stop() == 0
        began = time.monotonic()
        # The deadline may pass while the last try is under way: then that is told too.
        with pytest.raises((tr.ConnectionFailed, tr.DeadlineExceeded), match="cannot connect"):
            client.round(X)
        assert 0.5 < time.monotonic() - began < SOON


def test_pauses_between_connections_double(kind: type[AnyClient]) -> None:
    known = Fault(answer=answer("200 OK", b"{}", "Content-Type: application/json"))
    replaced = Fault(answer=answer("503 No", b"<html>"))
    with (
        Proxy(None, lambda number: replaced if number else known) as proxy,
        kind(proxy.url, timeout=1.5) as client,
    ):
        client.operators()
        with pytest.raises((tr.UnknownRefusal, tr.DeadlineExceeded)):
            client.operators()
    # The shortest pauses are 25, 50, 100, 200, 400 and 500 ms, with a try behind each; where the
    # deadline allows no further one, the three retries follow.
    assert 1 < len(proxy.seen) - 1 <= 1 + 6 + 3


@pytest.mark.parametrize("retries", [3, 0])
def test_a_first_call_to_nobody_is_not_waited_for(kind: type[AnyClient], retries: int) -> None:
    with Service() as service:
        pass
    with kind(service.url, retries=retries) as client:
        began = time.monotonic()
        with pytest.raises(tr.ConnectionFailed, match="cannot connect to"):
            client.round(X)
        assert client.ready() is False
        assert time.monotonic() - began < SOON


#: The machine's name servers are not a test's to choose; a look-up through one that is silent
#: waits in getaddrinfo, and so does this one.
SILENT = """
import asyncio, socket, sys, time
import tensor_round as tr
import numpy as np

look_up = socket.getaddrinfo

def silent(host, *arguments, flags=0, **options):
    if flags & socket.AI_NUMERICHOST:
        return look_up(host, *arguments, flags=flags, **options)
    time.sleep(30)

socket.getaddrinfo = silent
x = np.zeros(3, np.float32)
options = {"timeout": 1.0}

async def main():
    async with tr.AsyncClient("http://service.example", **options) as client:
        await client.round(x)

began = time.monotonic()
try:
    if sys.argv[1] == "async":
        asyncio.run(main())
    else:
        with tr.Client("http://service.example", **options) as client:
            client.round(x)
except tr.DeadlineExceeded:
    print(time.monotonic() - began)
"""


@pytest.mark.parametrize("kind", ["sync", "async"])
def test_a_silent_name_server_holds_neither_a_call_nor_the_process(kind: str) -> None:
    began = time.monotonic()
    done = subprocess.run(
        [sys.executable, "-c", SILENT, kind], capture_output=True, text=True, timeout=60
    )
    assert 1 <= float(done.stdout) < 10, done.stderr
    assert time.monotonic() - began < 15


@contextlib.contextmanager
def late_and_silent(seconds: float) -> Iterator[int]:
    """A port that takes connections after so long, and never says anything."""
    with contextlib.ExitStack() as stack:
        listener = stack.enter_context(socket.socket())
        listener.bind(("127.0.0.1", 0))
        listener.listen(0)
        port = listener.getsockname()[1]
        for _ in range(2):  # what the queue holds; who comes now is not heard
            waiting = stack.enter_context(socket.socket())
            waiting.setblocking(False)
            waiting.connect_ex(("127.0.0.1", port))
        taken: list[socket.socket] = []

        def take() -> None:
            time.sleep(seconds)
            with contextlib.suppress(OSError):
                while True:
                    taken.append(listener.accept()[0])

        taker = threading.Thread(target=take)
        taker.start()
        try:
            yield port
        finally:
            listener.shutdown(socket.SHUT_RDWR)
            taker.join()
            for connection in taken:
                connection.close()


@pytest.mark.parametrize("scheme", ["http", "https"])
def test_a_late_connection_and_a_silent_service_are_one_wait(
    kind: type[AnyClient], scheme: str
) -> None:
    with (
        late_and_silent(0.5) as port,
        kind(f"{scheme}://127.0.0.1:{port}", verify=False, timeout=2.0) as client,
    ):
        began = time.monotonic()
        with pytest.raises(tr.DeadlineExceeded):
            client.round(X)
        assert time.monotonic() - began < 2.4


HTML, JSON = "Content-Type: text/html", "Content-Type: application/json"
FOREIGN = {
    "page": (answer("200 OK", b"<html>", HTML), '"text/html"'),
    "files": (answer("501 Unsupported method ('POST')", b"<html>", HTML), "HTTP status 501"),
    "framework": (answer("404 Not Found", b'{"detail":"Not Found"}', JSON), "HTTP status 404"),
    "moved": (
        answer("308 Permanent Redirect", b"", "Location: https://there.example/"),
        'HTTP status 308, to "https://there.example/"',
    ),
}


@pytest.mark.parametrize(("sent", "why"), FOREIGN.values(), ids=FOREIGN)
def test_answers_of_another_server(kind: type[AnyClient], sent: bytes, why: str) -> None:
    with Proxy(None, lambda _: Fault(answer=sent)) as proxy, kind(proxy.url, retries=0) as client:
        for call in (lambda: client.round(X), client.operators, client.ready):
            with pytest.raises((tr.UnknownRefusal, tr.ProtocolViolation)) as caught:
                call()
            assert caught.value.detail == str(caught.value)
            assert caught.value.detail.startswith(
                f"no tensor-round service answers at {proxy.url}: "
            )
            assert why in caught.value.detail


@pytest.mark.parametrize("status", [401, 403, 429, 502, 503, 504])
def test_a_gateway_before_a_service_is_not_taken_for_another(
    kind: type[AnyClient], status: int
) -> None:
    gateway = Fault(answer=answer(f"{status} No", b"<html>"))
    with answered(kind, gateway) as client, pytest.raises(tr.UnknownRefusal) as caught:
        client.round(X)
    assert str(caught.value) == f"HTTP status {status}"


PROBLEM = {"code": "overloaded", "detail": "no room", "status": 503, "errors": []}
CODINGS = {"gzip": gzip.compress, "deflate": zlib.compress}


@pytest.mark.parametrize("coding", CODINGS)
def test_a_refusal_that_a_proxy_compressed(kind: type[AnyClient], coding: str) -> None:
    body = CODINGS[coding](json.dumps(PROBLEM).encode())
    headers = ("Content-Type: application/problem+json", f"Content-Encoding: {coding}")
    busy = Fault(answer=answer("503 Busy", body, *headers))
    with answered(kind, busy) as client, pytest.raises(tr.Overloaded, match="no room"):
        client.round(X)


def many_faults() -> bytes:
    faults = [{"loc": ["a", 1], "msg": "b"}] * 120_000
    return json.dumps({**PROBLEM, "errors": faults}).encode()[: 4 << 20]


BOMBS: dict[str, tuple[Callable[[], bytes], str]] = {
    "gzip": (lambda: gzip.compress(b'{"detail":"' + bytes(64 << 20)), "gzip"),
    "gzip-of-faults": (lambda: gzip.compress(many_faults() * 8), "gzip"),
    "many-faults": (many_faults, "identity"),
    "long-detail": (lambda: b'{"detail":"' + b"x" * (32 << 20) + b'"}', "identity"),
    "no-gzip": (lambda: b"no gzip at all", "gzip"),
}


#: A string that ends within an escape, behind as many that it might begin with.
UNTERMINATED = b'"' + b'\\"[' * ((MAX_PROBLEM_BYTES - 2) // 3) + b"\\"
PROBLEM_JSON = "Content-Type: application/problem+json"
SLOW = {
    "gzip": answer("503 Busy", gzip.compress(UNTERMINATED), PROBLEM_JSON, "Content-Encoding: gzip"),
    "identity": answer("503 Busy", UNTERMINATED, PROBLEM_JSON),
    "head": b"HTTP/1.1 503 Busy\r\n" + b"a" * (60 << 10) + b"\r\n\r\n",
}


@pytest.mark.parametrize("sent", SLOW.values(), ids=SLOW)
def test_a_hostile_answer_is_read_at_once(kind: type[AnyClient], sent: bytes) -> None:
    with answered(kind, Fault(answer=sent), timeout=3) as client:
        took = []
        for _ in range(2):  # what is made once is made at the first
            began = time.monotonic()
            with pytest.raises((tr.UnknownRefusal, tr.ProtocolViolation)):
                client.round(X)
            took.append(time.monotonic() - began)
    assert min(took) < 1


@pytest.mark.parametrize("name", BOMBS)
def test_no_refusal_takes_much_memory(kind: type[AnyClient], name: str) -> None:
    make, coding = BOMBS[name]
    headers = ("Content-Type: application/problem+json", f"Content-Encoding: {coding}")
    sent = answer("503 Busy", make(), *headers)
    with answered(kind, Fault(answer=sent)) as client:
        client.ready()  # whatever is made once
        with traced() as most:
            with pytest.raises(tr.UnknownRefusal, match="HTTP status 503"):
                client.round(X)
            peak = most()
        assert peak < 2 << 20
