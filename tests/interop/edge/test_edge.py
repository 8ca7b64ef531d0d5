"""What stands before services: nginx by docs/deploy.md for gRPC too, balancers by deploy/."""

from __future__ import annotations

import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from pathlib import Path

import numpy as np
import pytest

import tensor_round as tr
from support.cases.array_cases import bits, expected_bits, patterns
from support.clients import Load
from support.http.grpc_client import Client, framed, infer_request, tensor_of
from support.http.inference_form import binary, document
from support.services.fronts import documented_server, filled, free_port, nginx
from support.services.server import Service
from support.services.tls import CA, SERVER, caller_context

X = patterns("float32", 1_000_000)
REQUEST = infer_request(document(binary("FP32", [X.size], X.nbytes)), X.tobytes())


@pytest.fixture(scope="module")
def port(tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    """Of nginx."""
    folder, found = tmp_path_factory.mktemp("nginx"), free_port()
    with Service("--allowed-hosts", "localhost") as service:
        told = {
            "listen 443 ssl http2;": f"listen 127.0.0.1:{found} ssl http2;",
            "tensors.example": "localhost",
            "/etc/ssl/tensor-round.pem": str(SERVER),
            "/etc/ssl/private/tensor-round.key": str(SERVER),
            "grpc://127.0.0.1:8000": f"grpc://127.0.0.1:{service.port}",
            "http://127.0.0.1:8000": f"http://127.0.0.1:{service.port}",
        }
        with nginx(documented_server(told, folder), folder):
            yield found


@pytest.fixture
def client(port: int) -> Iterator[Client]:
    context = caller_context()
    context.set_alpn_protocols(["h2"])
    with (
        socket.create_connection(("127.0.0.1", port)) as plug,
        context.wrap_socket(plug, server_hostname="localhost") as sock,
    ):
        assert sock.selected_alpn_protocol() == "h2"
        yield Client(sock)


def test_inferences(client: Client) -> None:
    for _ in range(3):
        answer = client.call("ModelInfer", REQUEST)
        assert tensor_of(answer).tobytes() == expected_bits(X).tobytes()


def test_a_stream(client: Client) -> None:
    stream = client.begin("ModelStreamInfer")
    for count in (1, 2):
        client.send(stream, framed(REQUEST))
        assert len(client.wait(stream, count)) == count
    client.send(stream, b"", ends=True)
    assert client.finish(stream).status == 0


def test_a_refusal(client: Client) -> None:
    answer = client.call("ModelInfer", infer_request(document(binary("FP32", [3], 8)), b"12345678"))
    assert answer.status == 3
    assert answer.text


def test_all_else(port: int) -> None:
    with tr.Client(f"https://localhost:{port}", verify=CA) as client:
        assert np.array_equal(bits(client.round(X)), expected_bits(X))


DEPLOY = Path(__file__).parents[3] / "deploy"
CALLERS = 8
#: Seconds of load before and after each death of a service.
BETWEEN = 3.0
#: 64 KiB, with halves of both signs.
HALVES = np.arange(-8192, 8192, dtype=np.float32) / 2


def behind_nginx(folder: Path, port: int, services: list[int]) -> AbstractContextManager[object]:
    """By deploy/nginx.conf with a line for each service."""
    told = {
        "server 127.0.0.1:8000 max_fails=0;": "\n".join(
            f"server 127.0.0.1:{each} max_fails=0;" for each in services
        ),
        "listen 80;": f"listen 127.0.0.1:{port};",
        "worker_processes auto;": "worker_processes 1;",
    }
    return nginx(filled((DEPLOY / "nginx.conf").read_text(), told), folder)


@contextmanager
def behind_haproxy(folder: Path, port: int, services: list[int]) -> Iterator[None]:
    """By deploy/haproxy.cfg."""
    told = {
        "bind :80": f"bind 127.0.0.1:{port}",
        "127.0.0.1:8000": f"127.0.0.1:{services[0]}",
        "127.0.0.1:8001": f"127.0.0.1:{services[1]}",
    }
    configuration = folder / "haproxy.cfg"
    configuration.write_text(filled((DEPLOY / "haproxy.cfg").read_text(), told))
    assert shutil.which("haproxy"), "haproxy is not installed"
    process = subprocess.Popen(["haproxy", "-f", configuration, "-db"], stderr=subprocess.DEVNULL)
    try:
        while process.poll() is None:
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", port)) == 0:
                    break
            time.sleep(0.02)
        assert process.poll() is None, "the balancer did not start"
        yield
    finally:
        process.terminate()
        process.wait(10)


@pytest.mark.parametrize("balancer", [behind_haproxy, behind_nginx])
def test_no_call_is_lost_while_services_are_killed_and_stopped(
    balancer: Callable[[Path, int, list[int]], AbstractContextManager[object]],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    options = ("--allowed-hosts", "localhost", "--drain-delay", "1")
    with ExitStack() as stack:
        services = [stack.enter_context(Service(*options)) for _ in range(2)]
        port, ports = free_port(), [service.port for service in services]
        stack.enter_context(balancer(tmp_path, port, ports))
        load = stack.enter_context(Load(f"http://127.0.0.1:{port}", CALLERS, HALVES))
        time.sleep(BETWEEN)
        services[0].process.send_signal(signal.SIGKILL)
        services[0].process.wait(10)
        time.sleep(BETWEEN)
        again = stack.enter_context(Service(*options, "--port", str(ports[0])))
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
