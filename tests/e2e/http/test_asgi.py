"""The application under uvicorn's own protocols responds as under the service's."""

from __future__ import annotations

import contextlib
import gzip
import json
from collections.abc import Iterator

import numpy as np
import pytest

from support.http.inference_form import document, infer_path, tensor
from support.http.native_form import ieee754, npy, sha256_field
from support.services.hosted import HostedService
from support.services.server import Reply, Service

MIB = 1 << 20


@pytest.fixture(scope="module", params=["httptools", "h11"])
def other(request: pytest.FixtureRequest) -> Iterator[HostedService]:
    """The application under uvicorn's own protocols, as Ray Serve has it."""
    with HostedService(http=request.param) as running:
        yield running


@pytest.fixture(scope="module")
def own() -> Iterator[Service]:
    with Service("--max-bytes-in-flight", str(256 * MIB)) as running:
        yield running


SMALL = np.array([0.5, -0.3, np.nan, 2.5, -np.inf], "<f4")
LARGE = np.random.default_rng(1).integers(0, 2**32, MIB // 4, np.uint32).view("<f4")
JSON = {"Content-Type": "application/json"}
NPY = {"Content-Type": "application/x-npy"}
HEAD = json.dumps(document(tensor("FP32", [2], data=[0.5, -0.3]))).encode()
LONG = json.dumps({"descriptor": json.loads(ieee754("int8", [100_000])), "data": [1] * 100_000})


def octets(x: np.ndarray) -> dict[str, str]:
    return {"Operator-Descriptor": ieee754("float32", [x.size])}


Request = tuple[str, str, bytes | list[bytes], dict[str, str]]
CHUNKED = {"Transfer-Encoding": "chunked"}
GZIP = {"Content-Encoding": "gzip"}
REQUESTS: dict[str, Request] = {
    "small": ("POST", "/round", SMALL.tobytes(), octets(SMALL)),
    "empty": ("POST", "/round", b"", {"Operator-Descriptor": ieee754("float32", [0])}),
    "large": ("POST", "/round", LARGE.tobytes(), octets(LARGE)),
    "chunked": (
        "POST",
        "/round",
        [LARGE.tobytes()[:1000], LARGE.tobytes()[1000:]],
        {**octets(LARGE), **CHUNKED},
    ),
    "gzip": ("POST", "/round", gzip.compress(LARGE.tobytes(), 1), {**octets(LARGE), **GZIP}),
    "digest": (
        "POST",
        "/round",
        LARGE.tobytes(),
        octets(LARGE)
        | {"Content-Digest": sha256_field(LARGE.tobytes()), "Want-Content-Digest": "sha-256=1"},
    ),
    "npy": ("POST", "/round?rounding=toward_zero", npy(LARGE), NPY),
    "long json": ("POST", "/round", LONG.encode(), JSON),
    "infer": ("POST", infer_path("round"), HEAD, JSON),
    "packed infer": ("POST", infer_path("round"), HEAD, {**JSON, "Accept-Encoding": "gzip"}),
    "livez": ("GET", "/livez", b"", {}),
    "operators": ("GET", "/operators", b"", {}),
    "HEAD": ("HEAD", "/operators", b"", {}),
    "index": ("POST", "/v2/repository/index", b"{}", JSON),
    "not found, v2": ("GET", "/v2/nothing", b"", {}),
    "method": ("GET", "/round", b"", {}),
    "no descriptor": ("POST", "/round", SMALL.tobytes(), {}),
    "too short": ("POST", "/round", SMALL.tobytes()[1:], octets(SMALL)),
    "not gzip": ("POST", "/round", SMALL.tobytes(), {**octets(SMALL), **GZIP}),
    "host": ("GET", "/livez", b"", {"Host": "evil.example"}),
    "origin": ("POST", "/v2/repository/index", b"", {"Origin": "http://evil.example"}),
}
#: Each has its own of these.
TIMES = {"server-timing", "date", "server", "x-request-id", "connection", "transfer-encoding"}


def ask(service: Service, name: str) -> Reply:
    method, path, body, fields = REQUESTS[name]
    sent = iter(body) if isinstance(body, list) else body
    return service.request(method, path, sent, {**fields, "X-Request-ID": f"test-{len(name)}"})


@pytest.mark.parametrize("name", REQUESTS)
def test_responses_are_those_of_the_own_protocol(
    other: HostedService, own: Service, name: str
) -> None:
    theirs, ours = ask(other, name), ask(own, name)
    assert (theirs.status, theirs.content) == (ours.status, ours.content)
    fields = [
        sorted((k.lower(), v) for k, v in reply.headers.items() if k.lower() not in TIMES)
        for reply in (theirs, ours)
    ]
    assert fields[0] == fields[1]
    for reply in (theirs, ours):
        assert reply.headers["X-Request-ID"] == f"test-{len(name)}"
        assert reply.headers["X-Content-Type-Options"] == "nosniff"
    assert other.settled()


def test_refusal_waits_for_no_body(other: HostedService) -> None:
    for fields in ("X-Nothing: 1", f"Operator-Descriptor: {ieee754('float32', [3])}"):
        with contextlib.closing(other.connect(20)) as plug:
            plug.sendall(
                f"POST /round HTTP/1.1\r\nHost: x\r\nContent-Length: {64 * MIB}\r\n{fields}\r\n\r\n"
                "beginning".encode()
            )
            assert plug.recv(12) == b"HTTP/1.1 400"
    assert other.settled()
