"""How many Python functions one small request has the service call. No clock."""

from __future__ import annotations

import hashlib
import json
import socket
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

from support.calls import first_thread_profiled, hold
from support.http.inference_form import BINARY_OUT, HEADER_LENGTH, binary
from support.http.native_form import message
from support.services.hosted import HostedService
from tensor_round_service.backends.select import compiled_kernels

KEY = "a-key-of-the-tests"
TENSOR = np.random.default_rng(1).normal(scale=9, size=256).astype("<f4")
ROUNDED = np.rint(TENSOR).tobytes()
#: Descriptors of that many elements, each unlike the others.
SHAPES = [[1 << power, 256 >> power] for power in range(9)]
#: The process's first requests load what later ones find: they are not counted.
WARM_UP = 3
COUNTED = range(WARM_UP, len(SHAPES))


@dataclass(frozen=True)
class Kind:
    """Requests of one kind by their number, and the most calls of one."""

    request: Callable[[int], bytes]
    budget: int
    has_keys: bool = False
    cors_origins: str | None = None


def request(*fields: str) -> bytes:
    """A request with these fields."""
    return message(TENSOR, more="".join(f"{each}\r\n" for each in fields))


def chunked() -> bytes:
    """The same in one chunk."""
    head, end, body = request().partition(b"\r\n\r\n")
    head = head.replace(b"Content-Length: 1024", b"Transfer-Encoding: chunked")
    return head + end + b"%x\r\n%b\r\n0\r\n\r\n" % (len(body), body)


def inference() -> bytes:
    """An inference of the same tensor, whose answer is binary."""
    document = json.dumps({"inputs": [binary("FP32", [256], TENSOR.nbytes)], **BINARY_OUT}).encode()
    lines = (
        "POST /v2/models/round/infer HTTP/1.1",
        "Host: 127.0.0.1",
        f"{HEADER_LENGTH}: {len(document)}",
        f"Content-Length: {len(document) + TENSOR.nbytes}",
        "",
        "",
    )
    return "\r\n".join(lines).encode() + document + TENSOR.tobytes()


def ids(number: int) -> str:
    """A W3C trace context, unlike the others."""
    return f"traceparent: 00-{number + 1:032x}-{number + 1:016x}-01"


KINDS = {
    "first of its kind": Kind(lambda n: message(TENSOR.reshape(SHAPES[n])), 149),
    "later": Kind(lambda _: request(), 44),
    "X-API-Key": Kind(lambda _: request(f"X-API-Key: {KEY}"), 49, has_keys=True),
    "Bearer": Kind(lambda _: request(f"Authorization: Bearer {KEY}"), 49, has_keys=True),
    "x-request-id": Kind(lambda n: request(f"x-request-id: {n:016x}"), 45),
    "traceparent": Kind(lambda n: request(ids(n)), 45),
    "no origin": Kind(lambda _: request(), 45, cors_origins="http://page.example"),
    "inference": Kind(lambda _: inference(), 59),
    "chunked": Kind(lambda _: chunked(), 58),
}


@pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS)
def test_calls_of_a_request(kind: Kind, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if kind.has_keys:
        keys = tmp_path / "keys"
        keys.write_text(hashlib.sha256(KEY.encode()).hexdigest())
        monkeypatch.setenv("TENSOR_ROUND_API_KEYS_FILE", str(keys))
    if kind.cors_origins is not None:
        monkeypatch.setenv("TENSOR_ROUND_CORS_ORIGINS", kind.cors_origins)
    if (kernels := compiled_kernels()) is not None:
        kernels.wait()  # until then NumPy rounds, by more calls
    with (
        first_thread_profiled() as calls,
        HostedService() as service,
        service.connect() as sock,
    ):
        for number in range(WARM_UP):
            exchange(sock, kind.request(number))
        hold(calls.of_each(lambda n: exchange(sock, kind.request(n)), COUNTED), kind.budget)


def exchange(sock: socket.socket, sent: bytes) -> None:
    """One request, and its whole response."""
    sock.sendall(sent)
    response = b""
    while not response.endswith(ROUNDED):
        received = sock.recv(1 << 16)
        assert received, response
        response += received
    assert response.startswith(b"HTTP/1.1 200 "), response
