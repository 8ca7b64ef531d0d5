"""Clients that do not read their responses: how long they may take, and what of the service."""

from __future__ import annotations

import contextlib
import socket
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from support.http.native_form import ieee754, message, post
from support.services.server import Reply, Service, tracebacks, until
from support.services.tls import TlsService

MIB = 1 << 20
#: Two of these do not fit into the budget together.
LARGE = np.full(10 * MIB, 1.5, "<f4")
#: A service that wants its responses read at 1 MiB a second, after a second.
HASTY = (
    *("--receive-timeout", "1", "--min-send-rate", str(MIB)),
    *("--max-bytes-in-flight", "64MiB", "--max-tensor-bytes", "64MiB"),
)
CLOSE = "Connection: close\r\n"


@pytest.fixture(scope="module", params=[Service, TlsService], ids=["plain", "tls"])
def hasty(request: pytest.FixtureRequest) -> Iterator[Service]:
    with request.param(*HASTY) as running:
        yield running
    assert not tracebacks(running.log)


def narrow(service: Service) -> socket.socket:
    """A connection on which the kernel holds little on the way to the caller."""
    plug = service.connect()
    plug.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 64 << 10)
    return plug


def aborted(service: Service) -> int:
    return sum("slow reader" in line for line in service.log)


def try_large(service: Service) -> Reply:
    return post(service, ieee754("float32", [LARGE.size]), LARGE.data.cast("B"))


def read(plug: socket.socket, piece: int = 1 << 20, rate: float = 1e12) -> bytearray:
    """All that comes, in pieces, at so many bytes a second."""
    got, began = bytearray(), time.monotonic()
    with contextlib.suppress(ConnectionError):
        while came := plug.recv(piece):
            got += came
            time.sleep(max(0.0, began + len(got) / rate - time.monotonic()))
    return got


@pytest.mark.slow
def test_slow_reader_is_aborted_and_frees_its_memory(hasty: Service) -> None:
    before = aborted(hasty)
    with contextlib.closing(narrow(hasty)) as plug:
        plug.sendall(message(LARGE))
        plug.recv(1)  # so it has been rounded, and holds its part of the budget
        assert try_large(hasty).status == 503
        until(lambda: try_large(hasty).status == 200)
        assert aborted(hasty) == before + 1
        assert len(read(plug)) < LARGE.nbytes


@pytest.mark.slow
@pytest.mark.parametrize("last", ["", CLOSE], ids=["kept", "closed"])
def test_connection_ends_whatever_is_left_unread(tmp_path: Path, last: str) -> None:
    """A Unix socket holds some 200 KiB: these end before it is full, beyond that, between."""
    x = np.full(12 << 10, 1.5, "<f4")
    with contextlib.ExitStack() as stack:
        service = stack.enter_context(Service("--uds", str(tmp_path / "a.sock"), *HASTY))
        before = service.descriptors()
        for count in range(1, 12):
            plug = stack.enter_context(contextlib.closing(service.connect(timeout=0.2)))
            with contextlib.suppress(TimeoutError):  # it is not read on while none is taken
                plug.sendall(message(x) * (count - 1) + message(x, more=last))
        until(lambda: service.descriptors() > before + 3)
        until(lambda: service.descriptors() <= before)
        assert aborted(service) > 2
    assert not tracebacks(service.log)


@pytest.mark.slow
def test_unread_response_under_tls_outlasts_the_farewell(tmp_path: Path) -> None:
    """The farewell of TLS ends what is still in its buffers."""
    x = np.full(120 << 10, 1.5, "<f4")
    with (
        TlsService("--uds", str(tmp_path / "a.sock")) as service,
        contextlib.closing(service.connect()) as plug,
    ):
        plug.sendall(message(x, more=CLOSE))
        time.sleep(6)
        assert read(plug).endswith(np.rint(x).tobytes())


def test_stop_does_not_wait_for_a_reader_beyond_the_drain_timeout() -> None:
    with (
        Service("--drain-timeout", "0.5") as service,
        contextlib.closing(narrow(service)) as plug,
    ):
        plug.sendall(message(LARGE))
        plug.recv(1)
        assert service.stop() == 0
    assert "drain timeout" in "".join(service.log)
    assert not [line for line in service.log if "Traceback" in line or "ASGI" in line]


@pytest.mark.slow
def test_steady_reader_above_the_minimum_rate_gets_the_whole_response() -> None:
    """The kernel takes megabytes at once, and then nothing for longer than the grace."""
    rate = 512 << 10
    x = np.full(12 * MIB // 4, 1.5, "<f4")
    with (
        Service("--receive-timeout", "1", "--min-send-rate", str(rate)) as service,
        contextlib.closing(narrow(service)) as plug,
    ):
        plug.sendall(message(x, more=CLOSE))
        assert read(plug, 16 << 10, 4 * rate).endswith(np.rint(x).tobytes())
        assert aborted(service) == 0
