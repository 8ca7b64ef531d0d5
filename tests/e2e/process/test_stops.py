"""A stop and an update lose no request: signals, drains, sockets of a service manager.

``make stress ARGS=shutdown`` and ``ARGS=stops`` repeat the stops, and print their figures.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from http.client import HTTPConnection
from pathlib import Path

import numpy as np
import pytest

from support.clients import Load
from support.http.callers import Fates, interrupted, stopped
from support.http.native_form import ieee754, post
from support.services.server import Process, Reply, Service, until
from support.services.tls import TlsService
from support.services.workers import children_of, is_running, workers_of
from tensor_round_service.process import listener

X = np.array([0.5, 1.5, -2.5], "<f4")
ROUNDED = np.rint(X).tobytes()
OCTETS = {"Operator-Descriptor": ieee754("float32", [3])}
ALONE_AND_TOGETHER = pytest.mark.parametrize("workers", ["1", "2"], ids=["alone", "workers"])
EACH_STARTED = pytest.mark.usefixtures("each_started")


@contextlib.contextmanager
def half_a_request(service: Service) -> Iterator[HTTPConnection]:
    """A request whose last bytes, from the sixth on, are still to be sent."""
    with contextlib.closing(service.connection()) as connection:
        connection.putrequest("POST", "/round")
        connection.putheader("Operator-Descriptor", ieee754("float32", [3]))
        connection.putheader("Content-Length", "12")
        connection.endheaders(X.tobytes()[:6])
        time.sleep(0.2)
        yield connection


def rest_of(connection: HTTPConnection) -> Reply:
    connection.send(X.tobytes()[6:])
    return Reply.read(connection)


@pytest.mark.slow
@EACH_STARTED
@ALONE_AND_TOGETHER
def test_sigterm_under_load_loses_no_request(workers: str) -> None:
    under_way = 0
    for turn in range(2):
        with Service("--workers", workers) as service:
            begun, waiting = interrupted(service, 0.3 + 0.037 * turn)
        assert not [call for call in begun if call.fault]
        under_way += waiting
    assert under_way >= 2, "nothing was under way that could have been lost"


@pytest.mark.slow
@pytest.mark.parametrize(("workers", "rounds"), [("1", 2), ("3", 1)], ids=["alone", "workers"])
def test_stop_loses_no_connection_of_48_callers(workers: str, rounds: int) -> None:
    """Each opens a connection for each request."""
    fates = Fates()
    for turn in range(rounds):
        with Service("--workers", workers) as service:
            fates += stopped(service, 48, 0.3 + 0.05 * turn)
    assert not fates.lost
    assert fates.refused == 48 * rounds
    assert fates.answered_late > 0, "no connection was there that could have been lost"


def test_stop_loses_no_connection_to_a_unix_socket(tmp_path: Path) -> None:
    with Service("--uds", str(tmp_path / "socket"), "--workers", "2") as service:
        fates = stopped(service, 24, 0.3)
    assert not fates.lost
    assert fates.answered_late > 0


@pytest.mark.slow
@EACH_STARTED
@ALONE_AND_TOGETHER
def test_stopping_service_serves_on_for_the_drain_delay(workers: str) -> None:
    delay = 3  # far more than its requests take
    with (
        Service("--workers", workers, "--drain-delay", str(delay)) as service,
        half_a_request(service) as slow,
    ):
        began = time.monotonic()
        service.process.send_signal(signal.SIGTERM)
        until(lambda: service.get("/readyz").status == 503, delay)
        ready = service.get("/readyz")
        assert ready.json()["code"] == "draining"
        assert int(ready.headers["Retry-After"]) >= 1
        assert service.get("/v2/health/ready").status == 503
        assert post(service, ieee754("float32", [3]), X.tobytes()).content == ROUNDED
        while time.monotonic() - began < delay / 2:
            assert service.get("/livez").status == 200
            time.sleep(0.05)

        def is_closed() -> bool:
            try:
                service.connect().close()
            except ConnectionRefusedError:
                return True
            return False

        # Who comes while those that wait are accepted tries again after a second.
        until(is_closed)
        assert service.process.poll() is None
        assert rest_of(slow).content == ROUNDED
        assert service.process.wait(20) == 0


@ALONE_AND_TOGETHER
def test_stop_finishes_a_request_within_the_drain_timeout_and_refuses_one_beyond(
    workers: str,
) -> None:
    limits = ("--drain-timeout", "1", "--receive-timeout", "30", "--min-receive-rate", "0")
    with (
        Service("--workers", workers, *limits) as service,
        half_a_request(service) as quick,
        half_a_request(service) as slow,
    ):
        began = time.monotonic()
        service.process.send_signal(signal.SIGTERM)
        time.sleep(0.3)
        reply = rest_of(quick)
        assert (reply.content, reply.headers["Connection"]) == (ROUNDED, "close")
        refused = Reply.read(slow)
        assert (refused.status, refused.json()["code"]) == (503, "draining")
        assert int(refused.headers["Retry-After"]) >= 1
        slow.close()
        assert service.process.wait(20) == 0
        assert 0.9 < time.monotonic() - began < 20


def test_refused_sender_is_heard_out_while_the_service_stops() -> None:
    with Service() as service, contextlib.closing(service.connect()) as plug:
        head = f"POST /round HTTP/1.1\r\nHost: x\r\nOperator-Descriptor: {ieee754('float32', [3])}"
        plug.sendall(f"{head}\r\nContent-Length: {6 << 20}\r\n\r\n".encode())
        time.sleep(0.2)
        service.process.send_signal(signal.SIGTERM)
        for _ in range(6):  # longer than an idle connection is kept now
            time.sleep(0.15)
            plug.sendall(bytes(1 << 20))
        with plug.makefile("rb") as answer:
            assert answer.read().startswith(b"HTTP/1.1 400 ")
        plug.close()
        assert service.process.wait(20) == 0


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
            caller.request("POST", "/round", X.tobytes(), OCTETS)
        for caller in waiting:
            reply = Reply.read(caller)
            assert (reply.status, reply.content) == (200, ROUNDED)
            assert reply.headers["Connection"] == "close"
        assert service.process.wait(20) == 0


def test_stop_serves_tls_handshakes_that_have_begun() -> None:
    with (
        TlsService() as service,
        socket.create_connection((service.host, service.port), 5) as sock,
    ):
        time.sleep(0.1)
        service.process.send_signal(signal.SIGTERM)
        time.sleep(0.4)
        with service.caller.wrap_socket(sock, server_hostname="localhost") as secure:
            secure.sendall(b"GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n")
            assert secure.recv(1 << 16).startswith(b"HTTP/1.1 200 ")
        assert service.process.wait(20) == 0


@pytest.mark.slow
@EACH_STARTED
@ALONE_AND_TOGETHER
def test_second_signal_ends_the_service_at_once(workers: str) -> None:
    with Service("--workers", workers) as service, half_a_request(service):
        processes = {service.pid, *workers_of(service)}
        service.process.send_signal(signal.SIGINT)
        time.sleep(0.3)
        assert service.process.poll() is None
        service.process.send_signal(signal.SIGINT)
        assert service.process.wait(20) == 128 + signal.SIGINT
        until(lambda: not any(map(is_running, processes)))


@EACH_STARTED
def test_signal_to_the_whole_group_is_one_signal() -> None:
    """Ctrl-C at a terminal, and systemd's SIGTERM, reach every process."""
    with Service("--workers", "2") as service, half_a_request(service) as slow:
        others = workers_of(service) | children_of(service.pid)
        for pid in (*others, service.pid):
            os.kill(pid, signal.SIGINT)
        for pid in others:
            os.kill(pid, signal.SIGTERM)
        time.sleep(0.3)
        assert rest_of(slow).content == ROUNDED
        assert service.process.wait(20) == 0


@pytest.mark.slow
@EACH_STARTED
def test_successor_takes_the_unix_socket_while_the_last_requests_end(tmp_path: Path) -> None:
    path = tmp_path / "round.sock"
    patient = ("--receive-timeout", "100", "--drain-timeout", "100")
    with Service("--uds", str(path), *patient) as first, half_a_request(first) as slow:
        first.process.send_signal(signal.SIGTERM)
        until(lambda: not path.exists())
        with Service("--uds", str(path)) as second:
            assert rest_of(slow).content == ROUNDED
            assert first.process.wait(20) == 0
            assert post(second, ieee754("float32", [3]), X.tobytes()).content == ROUNDED


def test_without_a_filter_of_sockets_a_single_connection_may_wait() -> None:
    with socket.create_server(("127.0.0.1", 0), backlog=512) as sock:
        # More than a filter may have: the kernel refuses it.
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(listener, "_NO_SYN", bytes(8 * 5000))
            listener._turn_away(sock)
        address = sock.getsockname()
        with socket.create_connection(address, 1), pytest.raises(TimeoutError):
            socket.create_connection(address, 0.5)


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

    def launch(  # type: ignore[override]  # started differently
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


def wait_for(load: Load, more: int) -> None:
    """Wait until so many further calls are done."""
    goal = sum(load.right) + more
    until(lambda: sum(load.right) >= goal or load.faults, 30)


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "workers"), [("tcp", "2"), ("unix", "1")])
def test_update_on_an_inherited_socket_loses_none_of_1000_calls(
    kind: str, workers: str, tmp_path: Path
) -> None:
    options = ("--workers", workers)
    with contextlib.ExitStack() as stack:
        sock = stack.enter_context(held(tmp_path / "socket" if kind == "unix" else None))
        old = stack.enter_context(ActivatedService(*options, sockets=[sock]))
        x = np.random.default_rng(0).normal(0, 9, 2000).astype(np.float32)
        with Load(old.url, 8, x, pause=0.02) as load:
            wait_for(load, 250)
            # As systemd does it: the old version stops, then the new one is started.
            assert old.stop() == 0
            second = stack.enter_context(ActivatedService(*options, sockets=[sock]))
            wait_for(load, 250)
            # And the other way round.
            third = stack.enter_context(ActivatedService(*options, sockets=[sock]))
            assert second.stop() == 0
            wait_for(load, 500)
        assert load.faults == []
        assert sum(load.right) >= 1000
        assert third.process.poll() is None
    assert kind == "tcp" or (tmp_path / "socket").is_socket()


@pytest.mark.slow
def test_connections_wait_in_an_inherited_socket_for_the_successor() -> None:
    with held() as sock:
        with ActivatedService(sockets=[sock]) as first:
            assert first.stop() == 0
        with contextlib.closing(first.connection()) as waiting:
            waiting.request("POST", "/round", X.tobytes(), OCTETS)
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
            assert service.get("/operators").status == 404
            service.uds = str(tmp_path / "socket")
            assert post(service, ieee754("float32", [3]), X.tobytes()).content == ROUNDED
            # The address is a loopback address, so only known hosts are allowed.
            reply = service.request("GET", "/livez", headers={"Host": "other.example"})
            assert reply.status == 421


@pytest.mark.parametrize("workers", ["1", "2"])
def test_systemd_is_notified_of_start_and_stop(workers: str, tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as notified:
        notified.bind(str(tmp_path / "notify"))
        notified.settimeout(30)
        environment = {"NOTIFY_SOCKET": str(tmp_path / "notify")}
        with Service("--workers", workers, environment=environment):
            assert notified.recv(100) == b"READY=1"
        assert notified.recv(100) == b"STOPPING=1"
        notified.setblocking(False)
        with pytest.raises(BlockingIOError):
            notified.recv(100)
