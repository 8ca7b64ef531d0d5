"""A stop and an update lose no request: many callers, sockets of a service manager.

``make stress ARGS=stops`` repeats the stops, and prints its figures.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import tensor_round as tr
from support.http.callers import Fates, stopped
from support.http.native_form import ieee754, post
from support.services.server import Process, Reply, Service
from support.services.tls import TlsService
from support.services.workers import serving, workers_of
from tensor_round_service.process import listener

X = np.array([0.5, 1.5, -2.5], "<f4")
ROUNDED = np.rint(X).tobytes()


#: Becomes the service in the same process, whose id LISTEN_PID has to be.
_BECOME = """
import os, sys
count, *rest = sys.argv[1:]
for number, file in enumerate(map(int, rest[:int(count)]), 3):
    os.dup2(file, number)
os.environ.update(LISTEN_PID=str(os.getpid()), LISTEN_FDS=count)
os.execv(sys.executable, [sys.executable, "-m", *rest[int(count):]])
"""


class ActivatedService(Service):
    """The service on inherited sockets."""

    def __init__(self, *options: str, sockets: list[socket.socket]) -> None:
        super().__init__(*options)
        self._sockets = sockets

    def _options(self) -> list[str]:
        return [*self.options]

    def launch(  # type: ignore[override]  # these are started in a way of their own
        self, module: str, options: list[str], environment: dict[str, str], errors: int
    ) -> Process:
        files = [sock.fileno() for sock in self._sockets]
        # Above those that dup2 writes to.
        high = [fcntl.fcntl(file, fcntl.F_DUPFD, 16) for file in files]
        command = [sys.executable, "-c", _BECOME, str(len(files)), *map(str, high)]
        try:
            return subprocess.Popen(
                [*command, "support.services.without_llvmlite", *options],
                stderr=errors, env=environment, pass_fds=high,
            )  # fmt: skip
        finally:
            for file in high:
                os.close(file)


@contextlib.contextmanager
def held(path: Path | None = None) -> Iterator[socket.socket]:
    """A listening socket, on a port of its own or at a path."""
    if path is None:
        sock = socket.create_server(("127.0.0.1", 0), backlog=512)
    else:
        sock = socket.socket(socket.AF_UNIX)
        sock.bind(str(path))
        sock.listen(512)
    with sock:
        yield sock


@pytest.mark.slow
@pytest.mark.parametrize(("workers", "rounds"), [(1, 3), (3, 2)], ids=["alone", "workers"])
def test_48_callers_that_open_a_connection_for_each_request_lose_none(
    workers: int, rounds: int
) -> None:
    fates = Fates()
    for turn in range(rounds):
        with Service("--workers", str(workers)) as service:
            fates += stopped(service, 48, 0.3 + 0.05 * turn)
    assert not fates.lost
    assert fates.refused == 48 * rounds
    assert fates.answered_late > 0, "no connection was there that could have been lost"


def test_callers_at_a_unix_socket_lose_none(tmp_path: Path) -> None:
    with Service("--uds", str(tmp_path / "socket"), "--workers", "2") as service:
        fates = stopped(service, 24, 0.3)
    assert not fates.lost
    assert fates.answered_late > 0


def test_stop_accepts_waiting_connections_before_closing_sockets() -> None:
    """Also if a connection is silent for a while."""
    with Service() as service, contextlib.ExitStack() as stack:
        # The stopped process cannot accept them.
        os.kill(service.pid, signal.SIGSTOP)
        waiting = [stack.enter_context(contextlib.closing(service.connection())) for _ in range(40)]
        service.process.send_signal(signal.SIGTERM)
        os.kill(service.pid, signal.SIGCONT)
        time.sleep(0.6)
        for caller in waiting:
            caller.request(
                "POST", "/round", X.tobytes(), {"Operator-Descriptor": ieee754("float32", [3])}
            )
        for caller in waiting:
            reply = Reply.read(caller)
            assert (reply.status, reply.content) == (200, ROUNDED)
            assert reply.headers["Connection"] == "close"
        assert service.process.wait(20) == 0


def test_handshakes_of_tls_that_have_begun_are_served() -> None:
    with TlsService() as service, contextlib.closing(raw(service)) as sock:
        time.sleep(0.1)
        service.process.send_signal(signal.SIGTERM)
        time.sleep(0.4)
        with service.caller.wrap_socket(sock, server_hostname="localhost") as secure:
            secure.sendall(b"GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n")
            assert secure.recv(1 << 16).startswith(b"HTTP/1.1 200 ")
        assert service.process.wait(20) == 0


def raw(service: Service) -> socket.socket:
    return socket.create_connection((service.host, service.port), 5)


def test_an_idle_connection_gets_the_end_of_the_stream_and_no_reset() -> None:
    with Service() as service, contextlib.closing(service.connection()) as caller:
        caller.request("GET", "/livez")
        assert Reply.read(caller).status == 200
        service.process.send_signal(signal.SIGTERM)
        assert caller.sock.recv(1) == b""
        # This one was under way then; a reset would be an error here.
        caller.sock.sendall(b"GET /livez HTTP/1.1\r\nHost: x\r\n\r\n")
        assert caller.sock.recv(1) == b""
        assert service.process.wait(20) == 0


def test_where_there_is_no_filter_a_single_connection_may_wait() -> None:
    with socket.create_server(("127.0.0.1", 0), backlog=512) as sock:
        # More than a filter may have: the kernel refuses it.
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(listener, "_NO_SYN", bytes(8 * 5000))
            listener._turn_away(sock)
        address = sock.getsockname()
        with socket.create_connection(address, 1), pytest.raises(TimeoutError):
            socket.create_connection(address, 0.5)


class Calls:
    """Threads that round by one client with the defaults, until they are told to stop."""

    def __init__(self, client: tr.Client, threads: int = 8) -> None:
        self._client = client
        self._is_over = False
        self.done = 0
        self.failed: list[str] = []
        self._threads = [threading.Thread(target=self._call, args=[n]) for n in range(threads)]

    def __enter__(self) -> Calls:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_error: object) -> None:
        self._is_over = True
        for thread in self._threads:
            thread.join(60)

    def _call(self, seed: int) -> None:
        x = np.random.default_rng(seed).normal(0, 9, 2000).astype(np.float32)
        while not self._is_over:
            try:
                assert self._client.round(x).tobytes() == np.rint(x).tobytes()
                self.done += 1
            except (tr.TensorRoundError, AssertionError) as error:
                self.failed.append(repr(error))
            time.sleep(0.002)

    def wait_for(self, more: int) -> None:
        """Wait until so many further calls are done."""
        goal, until = self.done + more, time.monotonic() + 30
        while self.done < goal and not self.failed:
            assert time.monotonic() < until, "too few calls"
            time.sleep(0.01)


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "workers"), [("tcp", "1"), ("tcp", "2"), ("unix", "1")])
@pytest.mark.timeout(120)
def test_an_update_with_the_units_socket_loses_none_of_1000_calls(
    kind: str, workers: str, tmp_path: Path
) -> None:
    options = ("--workers", workers)
    with contextlib.ExitStack() as stack:
        sock = stack.enter_context(held(tmp_path / "socket" if kind == "unix" else None))
        old = stack.enter_context(ActivatedService(*options, sockets=[sock]))
        client = stack.enter_context(tr.Client(old.url))
        calls = stack.enter_context(Calls(client))
        calls.wait_for(250)
        # As systemd does it: the old version stops, then the new one is started.
        assert old.stop() == 0
        second = stack.enter_context(ActivatedService(*options, sockets=[sock]))
        calls.wait_for(250)
        # And the other way round.
        third = stack.enter_context(ActivatedService(*options, sockets=[sock]))
        assert second.stop() == 0
        calls.wait_for(500)
        calls.__exit__()
        assert calls.failed == []
        assert calls.done >= 1000
        assert third.process.poll() is None
    assert kind == "tcp" or (tmp_path / "socket").is_socket()


@pytest.mark.slow
def test_connections_wait_in_an_inherited_socket_for_the_successor() -> None:
    with held() as sock:
        with ActivatedService(sockets=[sock]) as first:
            assert first.stop() == 0
        with contextlib.closing(first.connection()) as waiting:
            descriptor = ieee754("float32", [3])
            waiting.request("POST", "/round", X.tobytes(), {"Operator-Descriptor": descriptor})
            with ActivatedService(sockets=[sock]):
                assert Reply.read(waiting).content == ROUNDED


def test_inherited_sockets_serve_all_paths_beside_a_port_for_metrics(tmp_path: Path) -> None:
    with held() as tcp, held(tmp_path / "socket") as unix, held() as other:
        metrics_port = other.getsockname()[1]
        other.close()
        options = ("--port", "1", "--metrics-port", str(metrics_port))
        with ActivatedService(*options, sockets=[tcp, unix]) as service:
            assert service.port == tcp.getsockname()[1]
            assert any("PORT has no effect" in line for line in service.log)
            moved = service.get("/metrics")
            assert moved.status == 404
            assert "METRICS_PORT" in moved.json()["detail"]
            service.port = metrics_port
            assert service.get("/metrics").status == 200
            assert service.get("/livez").status == 404
            service.uds = str(tmp_path / "socket")
            assert post(service, ieee754("float32", [3]), X.tobytes()).content == ROUNDED
            # The address is a loopback address, so only known hosts are allowed.
            reply = service.request("GET", "/livez", headers={"Host": "other.example"})
            assert reply.status == 421


@pytest.mark.parametrize(
    ("count", "reason"),
    [
        ("none", "LISTEN_FDS must be the number of sockets, got 'none'"),
        ("1", "file descriptor 3 of LISTEN_FDS"),
    ],
)
def test_wrong_inheritance_is_one_line(count: str, reason: str) -> None:
    become = (
        "import os, sys; os.environ['LISTEN_PID'] = str(os.getpid()); "
        "os.execv(sys.executable, sys.argv[1:])"
    )
    ended = subprocess.run(
        [sys.executable, "-c", become, sys.executable, "-m", "tensor_round_service"],
        env={**os.environ, "LISTEN_FDS": count}, capture_output=True, text=True, timeout=30,
    )  # fmt: skip
    assert ended.returncode == 1
    assert ended.stderr.splitlines()[-1].startswith(f"tensor-round-service: {reason}")
    assert "Traceback" not in ended.stderr


@pytest.mark.parametrize("workers", ["1", "2"])
def test_systemd_is_told_of_start_and_stop(workers: str, tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as told:
        told.bind(str(tmp_path / "notify"))
        told.settimeout(30)
        environment = {"NOTIFY_SOCKET": str(tmp_path / "notify")}
        with Service("--workers", workers, environment=environment):
            assert told.recv(100) == b"READY=1"
        assert told.recv(100) == b"STOPPING=1"
        told.setblocking(False)
        with pytest.raises(BlockingIOError):
            told.recv(100)


def test_workers_that_are_told_to_end_alone_leave_the_sockets_open() -> None:
    with Service("--workers", "2") as service:
        within = time.monotonic() + 60
        while serving(service) < 2:
            assert time.monotonic() < within, "not in time"
        for worker in workers_of(service):
            os.kill(worker, signal.SIGTERM)
        while serving(service) < 4:
            assert time.monotonic() < within, "not in time"
            assert post(service, ieee754("float32", [3]), X.tobytes()).content == ROUNDED
