"""The life of the process: how it starts, how it leaves, and who takes over when it is killed.

``make stress ARGS=shutdown`` runs what is asked under load for longer, and prints its figures.
"""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from http.client import HTTPConnection
from pathlib import Path

import numpy as np
import pytest

from support.http.callers import Call, interrupted
from support.http.native_form import ieee754, post
from support.services.server import Reply, Service
from support.services.tls import TlsService
from support.services.workers import children_of, replaced_after, serving, workers_of
from tensor_round_service.process.tls import SHUTDOWN_SECONDS

pytestmark = pytest.mark.usefixtures("each_started")

ROUNDS = 3
X = np.array([0.5, 1.5, -2.5], "<f4")
ROUNDED = np.rint(X).tobytes()
#: Seconds for which a service that was told to stop serves on: far more than its requests take.
DELAY = 4
ALONE_AND_TOGETHER = pytest.mark.parametrize("workers", ["1", "2"], ids=["alone", "workers"])


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


def within(seconds: float, what: Callable[[], object]) -> float:
    """How long it took until that was so."""
    began = time.monotonic()
    while not what():
        assert time.monotonic() - began < seconds, "not in time"
        time.sleep(0.01)
    return time.monotonic() - began


@pytest.mark.slow
@ALONE_AND_TOGETHER
@pytest.mark.timeout(60 + 20 * ROUNDS)
def test_sigterm_under_load_loses_nothing(workers: str) -> None:
    calls: list[Call] = []
    under_way = 0
    for turn in range(ROUNDS):
        with Service("--workers", workers) as service:
            begun, waiting = interrupted(service, 0.3 + 0.037 * (turn % 10))
        calls += begun
        under_way += waiting
    lost = [call for call in calls if call.fault]
    assert lost == []
    assert under_way >= ROUNDS, "nothing was under way that could have been lost"


@pytest.mark.slow
@ALONE_AND_TOGETHER
def test_it_serves_on_for_the_delay_then_only_finishes(workers: str) -> None:
    with (
        Service("--workers", workers, "--drain-delay", str(DELAY)) as service,
        half_a_request(service) as slow,
    ):
        began = time.monotonic()
        service.process.send_signal(signal.SIGTERM)
        within(DELAY, lambda: service.get("/readyz").status == 503)
        ready = service.get("/readyz")
        assert ready.json()["code"] == "draining"
        assert int(ready.headers["Retry-After"]) >= 1
        assert service.get("/v2/health/ready").status == 503
        assert service.get("/livez").status == 200
        assert post(service, ieee754("float32", [3]), X.tobytes()).content == ROUNDED
        while time.monotonic() - began < DELAY / 2:
            assert service.get("/livez").status == 200
            time.sleep(0.05)

        def is_closed() -> bool:
            try:
                service.connect().close()
            except ConnectionRefusedError:
                return True
            return False

        # Who comes while those that wait are accepted tries again after a second.
        within(30, is_closed)
        assert service.process.poll() is None
        assert rest_of(slow).content == ROUNDED
        assert service.process.wait(20) == 0


@pytest.mark.slow
def test_request_beyond_the_drain_timeout_gets_draining() -> None:
    with (
        Service("--workers", "2", "--drain-timeout", "0.5") as service,
        half_a_request(service) as slow,
    ):
        began = time.monotonic()
        service.process.send_signal(signal.SIGTERM)
        reply = Reply.read(slow)
        assert (reply.status, reply.json()["code"]) == (503, "draining")
        assert int(reply.headers["Retry-After"]) >= 1
        slow.close()
        assert service.process.wait(20) == 0
        assert 0.5 < time.monotonic() - began < 20


def test_a_refused_sender_is_heard_out_while_the_service_leaves() -> None:
    with Service() as service, contextlib.closing(service.connect()) as plug:
        descriptor = ieee754("float32", [3])
        head = f"POST /round HTTP/1.1\r\nHost: x\r\nOperator-Descriptor: {descriptor}\r\n"
        plug.sendall(f"{head}Content-Length: {6 << 20}\r\n\r\n".encode())
        time.sleep(0.2)
        service.process.send_signal(signal.SIGTERM)
        for _ in range(6):  # longer than an idle connection is kept now
            time.sleep(0.15)
            plug.sendall(bytes(1 << 20))
        with plug.makefile("rb") as answer:
            assert answer.read().startswith(b"HTTP/1.1 400 ")
        plug.close()
        assert service.process.wait(20) == 0


@pytest.mark.slow
def test_idle_callers_do_not_hold_up_the_end_under_tls() -> None:
    """Their side of TLS's goodbye would be waited for, and they do not know that it is due."""
    with TlsService() as service:
        began = time.monotonic()
        assert service.stop() == 0
        usual = time.monotonic() - began
    with TlsService() as service, contextlib.ExitStack() as stack:
        for _ in range(3):
            caller = stack.enter_context(contextlib.closing(service.connection()))
            caller.request("GET", "/livez")
            assert Reply.read(caller).status == 200
        began = time.monotonic()
        assert service.stop() == 0
        assert time.monotonic() - began < usual + SHUTDOWN_SECONDS - 1


@pytest.mark.slow
@ALONE_AND_TOGETHER
def test_a_second_signal_ends_it_at_once(workers: str) -> None:
    with Service("--workers", workers) as service, half_a_request(service):
        processes = {service.pid, *workers_of(service)}
        service.process.send_signal(signal.SIGINT)
        time.sleep(0.3)
        assert service.process.poll() is None
        service.process.send_signal(signal.SIGINT)
        assert service.process.wait(20) == 128 + signal.SIGINT
        within(30, lambda: not any(map(is_running, processes)))


def is_running(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state not in "ZX"


def test_a_signal_to_the_whole_group_is_one_signal() -> None:
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
def test_a_killed_worker_is_replaced_while_the_other_serves() -> None:
    with Service("--workers", "2") as service:
        within(20, lambda: serving(service) == 2)
        for _ in range(3):
            replaced_after(service)  # how soon, ``make stress ARGS=shutdown`` measures
        assert any("SIGKILL" in line for line in service.log)
        # Both do serve: each takes connections while the other is stopped.
        for stopped in workers_of(service):
            os.kill(stopped, signal.SIGSTOP)
            within(30, lambda: answers(service))
            os.kill(stopped, signal.SIGCONT)


@pytest.mark.skipif(sys.platform != "linux", reason="workers are forked on Linux alone")
def test_the_process_that_forks_workers_may_die() -> None:
    with Service("--workers", "2") as service:
        within(20, lambda: serving(service) == 2)
        workers = workers_of(service)
        for child in children_of(service.pid):
            if children_of(child):
                os.kill(child, signal.SIGKILL)
        within(5, lambda: not workers_of(service))  # another one's children
        service.process.send_signal(signal.SIGHUP)
        assert answers(service)
        os.kill(min(workers), signal.SIGKILL)
        within(20, lambda: serving(service) == 3)
        service.process.send_signal(signal.SIGTERM)
        assert service.process.wait(10) == 0
        assert not is_running(max(workers))


def answers(service: Service) -> bool:
    with contextlib.closing(service.connection(timeout=0.2)) as connection:
        try:
            connection.request("GET", "/livez")
            return connection.getresponse().status == 200
        except TimeoutError:  # the stopped one had taken it
            return False


@pytest.mark.slow
@ALONE_AND_TOGETHER
def test_where_it_cannot_listen_it_says_so_in_one_line(workers: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as plug:
        port = str(plug.getsockname()[1])
        assert_refuses(f"cannot listen on 127.0.0.1:{port}: ", "--port", port, "--workers", workers)


def test_workers_that_cannot_start_say_so_in_one_line(tmp_path: Path) -> None:
    missing = str(tmp_path / "none")
    assert_refuses("", "--port", "0", "--workers", "2", "--api-keys-file", missing)


def assert_refuses(reason: str, *options: str) -> None:
    command = [sys.executable, "-m", "tensor_round_service", *options]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=100)
    assert ended.returncode == 1, ended.stderr
    (line,) = ended.stderr.splitlines()
    assert line.startswith(f"tensor-round-service: {reason}")


def test_workers_do_not_outlive_their_supervisor_and_its_socket_is_taken_over(
    tmp_path: Path,
) -> None:
    path = tmp_path / "round.sock"
    options = ("--uds", str(path), "--workers", "2")
    with Service(*options) as killed:
        workers = workers_of(killed)
        assert len(workers) == 2
        killed.process.kill()
        killed.process.wait(20)
        within(30, lambda: not any(map(is_running, workers)))
        assert path.is_socket()
        with Service(*options) as heir:
            assert post(heir, ieee754("float32", [3]), X.tobytes()).content == ROUNDED
    assert not path.exists()


@pytest.mark.slow
def test_a_successor_may_have_the_unix_socket_while_the_last_requests_end(tmp_path: Path) -> None:
    path = tmp_path / "round.sock"
    patient = ("--receive-timeout", "100", "--drain-timeout", "100")
    with Service("--uds", str(path), *patient) as first, half_a_request(first) as slow:
        first.process.send_signal(signal.SIGTERM)
        within(30, lambda: not path.exists())
        with Service("--uds", str(path)) as second:
            assert rest_of(slow).content == ROUNDED
            assert first.process.wait(20) == 0
            assert post(second, ieee754("float32", [3]), X.tobytes()).content == ROUNDED
