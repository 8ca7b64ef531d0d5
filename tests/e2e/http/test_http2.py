"""Requests over HTTP/2 mean what they mean over HTTP/1.1, with curl as the client."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pytest

from support.http.native_form import ieee754, tensor
from support.services.server import Service
from support.services.tls import CA, TlsService

pytestmark = pytest.mark.skipif(shutil.which("curl") is None, reason="no curl")

X = tensor(4000)
DESCRIPTOR = f"Operator-Descriptor: {ieee754('float32', [1000])}"
#: Fields that differ from response to response.
VARYING = frozenset({"date", "server-timing", "x-request-id", "connection"})


@dataclass(frozen=True)
class Reply:
    """Version and status, fields and body of a response."""

    version: str
    status: int
    fields: dict[str, str]
    body: bytes


def curl(url: str, *options: str, body: bytes | None = None) -> Reply:
    """The final response to a request."""
    data = () if body is None else ("--data-binary", "@-")
    command = ["curl", "-sS", "-i", "--max-time", "30", *data, *options, url]
    output = subprocess.run(command, input=body, stdout=subprocess.PIPE, check=True).stdout
    while True:
        head, _, output = output.partition(b"\r\n\r\n")
        (version, status) = re.findall(rb"^HTTP/(\S+) (\d+)", head)[0]
        if int(status) >= 200:
            break
    lines = (line.decode().partition(": ") for line in head.split(b"\r\n")[1:])
    fields = {name.lower(): value for name, _, value in lines}
    return Reply(version.decode(), int(status), fields, output)


@pytest.fixture(scope="module")
def service() -> Iterator[Service]:
    with Service() as running:
        yield running


REQUESTS: dict[str, tuple[str, list[str], bytes | None]] = {
    "live": ("/livez", [], None),
    "ready": ("/readyz/", [], None),
    "page": ("/", ["-H", "Accept: text/html"], None),
    "operators": ("/operators", [], None),
    "head": ("/operators", ["--head"], None),
    "options": ("/operators", ["-X", "OPTIONS"], None),
    "file": ("/docs", [], None),
    "encoded path": ("/%6civez", [], None),
    "unknown": ("/nothing", [], None),
    "method": ("/round", [], None),
    "unknown method": ("/livez", ["-X", "BREW"], None),
    "tensor": ("/round", ["-H", DESCRIPTOR], X.tobytes()),
    "digest": ("/round", ["-H", DESCRIPTOR, "-H", "Want-Content-Digest: sha-256=1"], X.tobytes()),
    "no descriptor": ("/round", ["-H", "Content-Type: application/octet-stream"], X.tobytes()),
    "wrong length": ("/round", ["-H", DESCRIPTOR], X.tobytes()[:-4]),
    "too long": ("/round", ["-H", DESCRIPTOR], X.tobytes() * 100),
    "expect": ("/round", ["-H", DESCRIPTOR, "-H", "Expect: 100-continue"], X.tobytes()),
    "json": (
        "/round?operator=onnx:22",
        ["-H", "Content-Type: application/json"],
        json.dumps({"dtype": "float32", "data": [0.5, 1.5]}).encode(),
    ),
    "compare": ("/compare", ["-H", DESCRIPTOR], X.tobytes()),
    "other host": ("/livez", ["-H", "Host: elsewhere.example"], None),
    "model": ("/v2/models/round", [], None),
    "inference": (
        "/v2/models/round/infer",
        ["-H", "Content-Type: application/json"],
        json.dumps(
            {"inputs": [{"name": "X", "datatype": "FP32", "shape": [2], "data": [0.5, 2.5]}]}
        ).encode(),
    ),
    "gRPC's type by GET": ("/livez", ["-H", "Content-Type: application/grpc"], None),
    "gRPC-Web": ("/livez", ["-H", "Content-Type: application/grpc-web"], b""),
}


@pytest.mark.parametrize(("path", "options", "body"), REQUESTS.values(), ids=REQUESTS)
def test_either_version_gets_the_same_response(
    service: Service, path: str, options: list[str], body: bytes | None
) -> None:
    first = curl(service.url + path, *options, body=body)
    second = curl(service.url + path, "--http2-prior-knowledge", *options, body=body)
    assert (first.version, second.version) == ("1.1", "2")
    assert second.status == first.status
    assert second.body == first.body
    fixed = [
        {name: value for name, value in reply.fields.items() if name not in VARYING}
        for reply in (first, second)
    ]
    assert fixed[0] == fixed[1]


@pytest.mark.parametrize("count", [1, 1 << 14, 1 << 20])
def test_tensor_is_rounded_whatever_its_size(service: Service, count: int) -> None:
    x = tensor(4 * count)
    descriptor = f"Operator-Descriptor: {ieee754('float32', [count])}"
    options = ("--http2-prior-knowledge", "-H", descriptor)
    reply = curl(service.url + "/round", *options, body=x.tobytes())
    assert (reply.status, reply.body) == (200, np.rint(x).tobytes())


def test_alpn_alone_chooses_http2() -> None:
    with TlsService() as service:
        reply = curl(f"{service.url}/readyz", "--http2-prior-knowledge", "--cacert", str(CA))
        assert (reply.version, reply.status) == ("2", 200)


def test_metrics_port_has_http2() -> None:
    with Service("--metrics-port", "0") as service:
        (port,) = re.findall(r"\(metrics on port (\d+)\)", "".join(service.log))
        reply = curl(f"http://127.0.0.1:{port}/metrics", "--http2-prior-knowledge")
    assert (reply.version, reply.status) == ("2", 200)
    assert b"tensor_round_build_info" in reply.body


def test_without_grpc_the_rest_is_served_by_http2() -> None:
    with Service("--grpc", "false") as service:
        url = service.url
        assert curl(url + "/readyz", "--http2-prior-knowledge").status == 200
        call = ("--http2-prior-knowledge", "-H", "Content-Type: application/grpc")
        path = "/inference.GRPCInferenceService/ServerLive"
        assert curl(url + path, *call, body=b"\0" * 5).status == 404
