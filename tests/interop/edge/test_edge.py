"""Balancers as deploy/ has them: gRPC and HTTP/1.1 go through, and no call is lost."""

from __future__ import annotations

import re
import shutil
import signal
import socket
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tensor_round as tr
from support.cases.array_cases import bits, expected_bits, patterns
from support.clients import Load
from support.http.grpc_client import Client, framed, infer_request, tensor_of
from support.http.inference_form import binary, document
from support.services.fronts import CONFIGURATION, filled, free_port, nginx, temporary_paths
from support.services.server import Service, until
from support.services.tls import CA, CLIENT, SERVER, caller_context

X = patterns("float32", 1_000_000)
REQUEST = infer_request(document(binary("FP32", [X.size], X.nbytes)), X.tobytes())
CALLERS = 8
#: Seconds of load before and after each death of a service.
BETWEEN = 3.0
#: 64 KiB, with halves of both signs.
HALVES = np.arange(-8192, 8192, dtype=np.float32) / 2
#: As many slow callers are too many.
SLOTS = 40
#: What has a balancer hang up on a caller whose body or head does not come on.
TIMEOUT = 10.0


@dataclass(frozen=True)
class Edge:
    """A balancer as callers see it."""

    port: int
    has_tls: bool

    @property
    def url(self) -> str:
        return f"{'https' if self.has_tls else 'http'}://localhost:{self.port}"

    @property
    def options(self) -> dict[str, Any]:
        """Of the Python client."""
        return {"verify": CA, "cert": CLIENT} if self.has_tls else {}

    def status(self, headers: dict[str, str] | None = None) -> int:
        """That of a plain request, which is not sent again."""
        tls = caller_context(CLIENT) if self.has_tls else None
        request = urllib.request.Request(f"{self.url}/livez", headers=headers or {})
        try:
            with urllib.request.urlopen(request, timeout=60, context=tls) as response:
                return int(response.status)
        except urllib.error.HTTPError as error:
            return error.code

    @contextmanager
    def grpc(self) -> Iterator[Client]:
        """A caller of gRPC."""
        with ExitStack() as stack:
            sock = stack.enter_context(socket.create_connection(("127.0.0.1", self.port), 60))
            if self.has_tls:
                tls = caller_context(CLIENT)
                tls.set_alpn_protocols(["h2"])
                sock = stack.enter_context(tls.wrap_socket(sock, server_hostname="localhost"))
            yield Client(sock)


def places(services: list[int]) -> dict[str, str]:
    """The addresses in the files, and those of services."""
    return {f"127.0.0.1:{8000 + n}": f"127.0.0.1:{port}" for n, port in enumerate(services)}


@contextmanager
def behind_nginx(folder: Path, services: list[int], **others: str) -> Iterator[Edge]:
    """By deploy/nginx.conf with its lines for TLS, for callers' certificates, and for servers."""
    port = free_port()
    text = re.sub(r"#   ((?:listen|ssl_\w+) .*;)", r"\1", CONFIGURATION.read_text())
    told = {
        "listen 80;": "",
        "listen 443 ": f"listen 127.0.0.1:{port} ",
        "/etc/ssl/tensor-round.pem": str(SERVER),
        "/etc/ssl/private/tensor-round.key": str(SERVER),
        "/etc/ssl/callers.pem": str(CA),
        "worker_processes auto;": "worker_processes 1;",
        "http {\n": "\n".join(("http {", *temporary_paths(folder), "")),
        "#server ": "server ",
        **places(services),
        **others,
    }
    with nginx(filled(text, told), folder):
        yield Edge(port, has_tls=True)


@contextmanager
def behind_haproxy(folder: Path, services: list[int], **others: str) -> Iterator[Edge]:
    """By deploy/haproxy.cfg, with others in the places of some values."""
    port = free_port()
    told = {"bind :80\n": f"bind 127.0.0.1:{port}\n", **places(services), **others}
    configuration = folder / "haproxy.cfg"
    configuration.write_text(filled((CONFIGURATION.parent / "haproxy.cfg").read_text(), told))
    assert shutil.which("haproxy"), "haproxy is not installed"
    process = subprocess.Popen(["haproxy", "-f", configuration, "-db"], stderr=subprocess.DEVNULL)
    try:
        until(lambda: process.poll() is not None or listens(port))
        assert process.poll() is None, "the balancer did not start"
        yield Edge(port, has_tls=False)
    finally:
        process.terminate()
        process.wait(10)


def listens(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


Balancer = Callable[[Path, list[int]], AbstractContextManager[Edge]]
BALANCERS = [behind_haproxy, behind_nginx]
OPTIONS = ("--allowed-hosts", "localhost", "--drain-delay", "1")


@pytest.fixture(scope="module", params=BALANCERS)
def edge(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Edge]:
    """Before two services."""
    balancer: Balancer = request.param
    folder = tmp_path_factory.mktemp("edge")
    with (
        Service(*OPTIONS) as one,
        Service(*OPTIONS) as other,
        balancer(folder, [one.port, other.port]) as found,
    ):
        yield found


@pytest.fixture
def client(edge: Edge) -> Iterator[Client]:
    with edge.grpc() as found:
        yield found


def test_inferences(client: Client) -> None:
    for _ in range(3):
        answer = client.call("ModelInfer", REQUEST)
        assert tensor_of(answer).tobytes() == expected_bits(X).tobytes()


def test_stream_that_is_quiet_for_a_while(client: Client) -> None:
    stream = client.begin("ModelStreamInfer")
    for count in (1, 2):
        client.send(stream, framed(REQUEST))
        assert len(client.wait(stream, count)) == count
        time.sleep(1.2 * TIMEOUT)
    client.send(stream, b"", ends=True)
    assert client.finish(stream).status == 0


def test_refusal(client: Client) -> None:
    answer = client.call("ModelInfer", infer_request(document(binary("FP32", [3], 8)), b"12345678"))
    assert answer.status == 3
    assert answer.text


def test_tensors_by_http(edge: Edge) -> None:
    with tr.Client(edge.url, **edge.options) as client:
        assert np.array_equal(bits(client.round(X)), expected_bits(X))


def test_http_and_grpc_do_not_meet_on_the_connections_that_a_balancer_keeps(edge: Edge) -> None:
    """Two calls and two requests, as there are two services."""
    for _ in range(6):
        with edge.grpc() as client:
            assert [client.call("ServerLive", b"").status for _ in range(2)] == [0, 0]
        assert [edge.status() for _ in range(2)] == [200, 200]


def test_slow_heads_do_not_take_all_connections_of_haproxy(tmp_path: Path) -> None:
    with (
        Service(*OPTIONS) as service,
        behind_haproxy(
            tmp_path, [service.port, free_port()], **{"maxconn 2000": f"maxconn {SLOTS}"}
        ) as edge,
        ExitStack() as stack,
    ):
        for _ in range(SLOTS + 5):
            slow = stack.enter_context(socket.create_connection(("127.0.0.1", edge.port)))
            slow.sendall(b"GET /livez HTTP/1.1\r\nHo")
        began = time.monotonic()
        assert edge.status() == 200
        assert time.monotonic() < began + 2 * TIMEOUT


#: A balancer, and its lines that limit a key, with small numbers.
LIMITS: dict[str, tuple[Any, dict[str, str]]] = {
    "haproxy": (behind_haproxy, {"#limit ": "", "gt 100": "gt 3"}),
    "nginx": (
        behind_nginx,
        {"#limit_req": "limit_req", "rate=100r/s": "rate=10r/s", "burst=50": "burst=1"},
    ),
}


@pytest.mark.parametrize(("balancer", "limits"), LIMITS.values(), ids=LIMITS)
def test_a_key_beyond_its_limit_gets_429_and_clients_try_again(
    balancer: Any, limits: dict[str, str], tmp_path: Path
) -> None:
    with (
        Service(*OPTIONS) as one,
        Service(*OPTIONS) as other,
        balancer(tmp_path, [one.port, other.port], **limits) as edge,
        ThreadPoolExecutor(16) as threads,
    ):
        keys = {"Authorization": "Bearer busy"}
        until(lambda: 429 in threads.map(lambda _: edge.status(keys), range(16)))
        assert edge.status({"Authorization": "Bearer quiet"}) == 200
        with tr.Client(edge.url, api_key="busy", **edge.options) as client:
            for _ in range(8):
                assert client.round(np.float32([0.5, 1.5])).tolist() == [0, 2]


@pytest.mark.parametrize("balancer", BALANCERS)
def test_plain_requests_survive_the_end_of_one_service_after_another(
    balancer: Balancer, tmp_path: Path
) -> None:
    """The second one ends soon after the first is back."""
    with ExitStack() as stack:
        services = [stack.enter_context(Service(*OPTIONS)) for _ in range(2)]
        ports = [service.port for service in services]
        edge = stack.enter_context(balancer(tmp_path, ports))
        found = []
        for service, port in zip(services, ports, strict=True):
            service.process.send_signal(signal.SIGKILL)
            service.process.wait(10)
            found += [edge.status() for _ in range(40)]
            stack.enter_context(Service(*OPTIONS, "--port", str(port)))
            time.sleep(1)
            found += [edge.status() for _ in range(40)]
        assert found == [200] * len(found)


@pytest.mark.parametrize("balancer", BALANCERS)
def test_no_call_is_lost_while_services_are_killed_and_stopped(
    balancer: Balancer, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with ExitStack() as stack:
        services = [stack.enter_context(Service(*OPTIONS)) for _ in range(2)]
        ports = [service.port for service in services]
        edge = stack.enter_context(balancer(tmp_path, ports))
        load = stack.enter_context(Load(edge.url, CALLERS, HALVES, **edge.options))
        time.sleep(BETWEEN)
        services[0].process.send_signal(signal.SIGKILL)
        services[0].process.wait(10)
        time.sleep(BETWEEN)
        again = stack.enter_context(Service(*OPTIONS, "--port", str(ports[0])))
        time.sleep(BETWEEN)
        assert services[1].stop() == 0
        time.sleep(BETWEEN)
        before = sum(load.right)
        time.sleep(1)
        assert sum(load.right) > before, f"nothing answers: {load.faults}"
        assert again.process.poll() is None
        load.stop()
    with capsys.disabled():
        print(f" {balancer.__name__}: {sum(load.right)} calls, {len(load.faults)} lost", end="")
    assert load.faults == []
