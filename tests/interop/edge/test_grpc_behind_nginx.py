"""The block of nginx in docs/deploy.md, before gRPC and all else on one port."""

from __future__ import annotations

import socket
from collections.abc import Iterator

import numpy as np
import pytest

import tensor_round as tr
from support.cases.array_cases import bits, expected_bits, patterns
from support.http.grpc_client import Client, framed, infer_request, tensor_of
from support.http.inference_form import binary, document
from support.services.fronts import documented_server, free_port, nginx
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
