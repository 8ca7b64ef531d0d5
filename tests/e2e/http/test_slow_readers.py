"""Who asks for an answer and does not take it: for how long, and with how much of the service."""

from __future__ import annotations

import contextlib
import signal
import socket
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

from support.http.native_form import ieee754, post
from support.services.server import Reply, Service
from support.services.tls import TlsService

MIB = 1 << 20
#: Two of these do not fit into the budget together.
LARGE = np.full(10 * MIB, 1.5, "<f4")
HASTY = (
    *("--receive-timeout", "1", "--min-send-rate", str(MIB)),
    *("--max-bytes-in-flight", "64MiB", "--max-tensor-bytes", "64MiB"),
)


@pytest.fixture(scope="module", params=[Service, TlsService], ids=["plain", "tls"])
def hasty(request: pytest.FixtureRequest) -> Iterator[Service]:
    """A service that wants its answers taken at 1 MiB a second, after a second."""
    with request.param(*HASTY) as running:
        yield running
    assert "Traceback" not in "".join(running.log)


def message(x: np.ndarray, more: str = "") -> bytes:
    descriptor = ieee754("float32", [x.size])
    return (
        f"POST /round HTTP/1.1\r\nHost: x\r\nContent-Length: {x.nbytes}\r\n{more}"
        f"Operator-Descriptor: {descriptor}\r\n\r\n"
    ).encode() + x.tobytes()


def narrow(service: Service) -> socket.socket:
    """A connection on which the kernel holds little on the way to the caller."""
    plug = service.connect()
    plug.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 64 << 10)
    return plug


def within(seconds: float, what: Callable[[], object]) -> None:
    deadline = time.monotonic() + seconds
    while not what():
        assert time.monotonic() < deadline, "not in time"
        time.sleep(0.05)


def try_large(service: Service) -> Reply:
    return post(service, ieee754("float32", [LARGE.size]), LARGE.data.cast("B"))


def cut_off(service: Service) -> int:
    return sum("slow reader" in line for line in service.log)


@pytest.mark.slow
def test_slow_reader_is_aborted_and_frees_its_memory(hasty: Service) -> None:
    before = cut_off(hasty)
    with contextlib.closing(narrow(hasty)) as plug:
        plug.sendall(message(LARGE))
        plug.recv(1)  # so it has been rounded, and holds its part of the budget
        assert try_large(hasty).status == 503
        within(30, lambda: try_large(hasty).status == 200)
        assert cut_off(hasty) == before + 1
        with contextlib.suppress(ConnectionError):
            assert len(receive(plug, LARGE.nbytes)) < LARGE.nbytes


def receive(plug: socket.socket, nbytes: int) -> bytearray:
    got = bytearray()
    while len(got) < nbytes and (piece := plug.recv(1 << 16)):
        got += piece
    return got


def test_reader_below_the_minimum_rate_is_aborted(hasty: Service) -> None:
    before = cut_off(hasty)
    with contextlib.closing(narrow(hasty)) as plug:
        plug.sendall(message(LARGE))
        began = time.monotonic()
        while cut_off(hasty) == before:
            assert time.monotonic() - began < 40
            assert plug.recv(8 << 10)
            time.sleep(0.1)


@pytest.mark.slow
def test_reader_at_a_fair_rate_gets_the_whole_response(hasty: Service) -> None:
    x = LARGE[: 3 * MIB]
    with contextlib.closing(narrow(hasty)) as plug:
        plug.sendall(message(x, "Connection: close\r\n"))
        got = bytearray()
        while piece := plug.recv(256 << 10):
            got += piece
            time.sleep(len(piece) / (4 * MIB))
    assert got.endswith(np.rint(x).tobytes())


def test_pipelining_client_that_reads_nothing_is_aborted(hasty: Service) -> None:
    """Answers of the framework, each too small to be held back by itself."""
    before = cut_off(hasty)
    with contextlib.closing(narrow(hasty)) as plug:
        with contextlib.suppress(ConnectionError, TimeoutError):
            plug.settimeout(1)
            for _ in range(400):
                plug.sendall(b"GET /openapi.json HTTP/1.1\r\nHost: x\r\n\r\n")
        within(30, lambda: cut_off(hasty) > before)


def sockets_of(service: Service) -> int:
    found = 0
    for link in Path(f"/proc/{service.pid}/fd").iterdir():
        with contextlib.suppress(OSError):
            found += str(link.readlink()).startswith("socket:")
    return found


@pytest.mark.slow
@pytest.mark.parametrize("last", ["", "Connection: close\r\n"], ids=["kept", "closed"])
def test_a_connection_ends_whatever_is_left_in_it(tmp_path: Path, last: str) -> None:
    """A Unix socket holds some 200 KiB: these end before it is full, beyond that, between."""
    x = np.full(12 << 10, 1.5, "<f4")
    with contextlib.ExitStack() as stack:
        service = stack.enter_context(Service("--uds", str(tmp_path / "a.sock"), *HASTY))
        before = sockets_of(service)
        for count in range(1, 12):
            plug = stack.enter_context(contextlib.closing(service.connect(timeout=0.2)))
            with contextlib.suppress(TimeoutError):  # it is not read on while none is taken
                plug.sendall(message(x) * (count - 1) + message(x, last))
        within(30, lambda: sockets_of(service) > before + 3)
        within(30, lambda: sockets_of(service) <= before)
        assert cut_off(service) > 2
    assert "Traceback" not in "".join(service.log)


@pytest.mark.slow
def test_an_answer_under_tls_is_waited_for_as_long_as_without(tmp_path: Path) -> None:
    """Longer than the farewell of TLS lasts, which ends what is still in its buffers."""
    x = np.full(120 << 10, 1.5, "<f4")
    with (
        TlsService("--uds", str(tmp_path / "a.sock")) as service,
        contextlib.closing(service.connect()) as plug,
    ):
        plug.sendall(message(x, "Connection: close\r\n"))
        time.sleep(6)
        assert receive(plug, 1 << 30).endswith(np.rint(x).tobytes())


def test_a_service_that_leaves_does_not_wait_for_it_beyond_its_time() -> None:
    with (
        Service("--drain-timeout", "0.5") as service,
        contextlib.closing(narrow(service)) as plug,
    ):
        plug.sendall(message(LARGE))
        plug.recv(1)
        service.process.send_signal(signal.SIGTERM)
        assert service.process.wait(20) == 0
    log = "".join(service.log)
    assert "drain timeout" in log
    assert "Traceback" not in log
    assert "ASGI" not in log


@pytest.mark.slow
def test_steady_reader_above_the_minimum_rate_gets_the_whole_response() -> None:
    """The kernel takes megabytes at once, and then nothing for longer than the grace."""
    rate, seconds = 96 << 10, 12
    x = np.full(12 * MIB // 4, 1.5, "<f4")
    with (
        Service("--receive-timeout", "2", "--min-send-rate", str(rate)) as service,
        contextlib.closing(narrow(service)) as plug,
    ):
        plug.sendall(message(x, "Connection: close\r\n"))
        got = bytearray()
        began = time.monotonic()
        while time.monotonic() < began + seconds:
            got += plug.recv(16 << 10)
            time.sleep(max(0.0, began + len(got) / (2 * rate) - time.monotonic()))
        with contextlib.suppress(ConnectionError):
            while piece := plug.recv(1 << 20):
                got += piece
        assert cut_off(service) == 0
    assert got.endswith(np.rint(x).tobytes())
