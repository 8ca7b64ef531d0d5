"""Senders that stop sending: with their request whole they get the answer, else nothing is kept.

As ``nc -N`` and some HTTP/1.0 clients do. Bursts of them, so that the end of a connection
is seen at every stage of an answer.
"""

from __future__ import annotations

import contextlib
import http.client
import io
import json
import socket
import time
from collections.abc import Iterator

import numpy as np
import pytest

from support.http.native_form import ieee754
from support.services.server import Service, tracebacks
from support.services.tls import TlsService

BURST = 20
X = (np.random.default_rng(5).standard_normal(100_000) * 100).astype("<f4")


@pytest.fixture(scope="module")
def service() -> Iterator[Service]:
    with Service() as running:
        yield running
    assert not tracebacks(running.log)


def get(path: str, version: str = "1.1") -> bytes:
    return f"GET {path} HTTP/{version}\r\nHost: x\r\n\r\n".encode()


def post(body: bytes, *fields: str, path: str = "/round") -> bytes:
    return "\r\n".join((f"POST {path} HTTP/1.1", "Host: x", *fields, "", "")).encode() + body


def tensor(count: int) -> bytes:
    descriptor = f"Operator-Descriptor: {ieee754('float32', [count])}"
    return post(X[:count].tobytes(), descriptor, f"Content-Length: {4 * count}")


def chunked(count: int) -> bytes:
    descriptor = f"Operator-Descriptor: {ieee754('float32', [count])}"
    body = b"%x\r\n%b\r\n0\r\n\r\n" % (4 * count, X[:count].tobytes())
    return post(body, descriptor, "Transfer-Encoding: chunked")


def document(count: int) -> bytes:
    body = {"descriptor": json.loads(ieee754("float32", [count])), "data": X[:count].tolist()}
    text = json.dumps(body).encode()
    return post(text, "Content-Type: application/json", f"Content-Length: {len(text)}")


WHOLE: dict[str, bytes] = {
    "small": tensor(10),
    "large": tensor(X.size),
    "chunked": chunked(X.size),
    "json": document(1000),
    "health": get("/livez"),
    "health of HTTP/1.0": get("/livez", "1.0"),
    "a kernel run": get("/readyz"),
    "conformance": get("/conformance"),
    "operators": get("/operators"),
    "an index": post(b"{}", "Content-Length: 2", path="/v2/repository/index"),
}


def half_closed(service: Service, message: bytes) -> socket.socket:
    plug = service.connect(20)
    plug.sendall(message)
    plug.shutdown(socket.SHUT_WR)
    return plug


def answers(plug: socket.socket) -> list[tuple[int, bytes]]:
    """All final ones that come until the connection ends.

    A service at work may ask, by 100 Continue, whether who has stopped sending still reads.
    """
    with contextlib.closing(plug), plug.makefile("rb") as file:
        received = io.BytesIO(file.read())
    found = []
    while line := received.readline():
        headers = http.client.parse_headers(received)
        if line.split()[1] == b"100":
            continue
        length = int(headers["Content-Length"])
        found.append((int(line.split()[1]), received.read(length)))
        assert len(found[-1][1]) == length
    return found


@pytest.mark.parametrize("message", WHOLE.values(), ids=WHOLE)
def test_a_whole_request_is_answered(service: Service, message: bytes) -> None:
    for plug in [half_closed(service, message) for _ in range(BURST)]:
        ((status, content),) = answers(plug)
        assert status == 200
        if message in (WHOLE["large"], WHOLE["chunked"]):
            assert content == np.rint(X).tobytes()


def test_all_requests_of_a_pipeline_are_answered(service: Service) -> None:
    kinds = ("large", "a kernel run", "small", "chunked", "conformance", "large")
    message = b"".join(WHOLE[kind] for kind in kinds)
    for _ in range(3):
        plug = service.connect(20)
        plug.sendall(message)
        plug.shutdown(socket.SHUT_WR)
        found = answers(plug)
        assert [status for status, _ in found] == [200] * len(kinds)
        assert found[0][1] == found[3][1] == np.rint(X).tobytes()


@pytest.mark.parametrize("kind", ["small", "large", "chunked", "json", "operators"])
def test_a_request_that_ends_early_ends_the_connection(service: Service, kind: str) -> None:
    began = time.monotonic()
    for plug in [half_closed(service, WHOLE[kind][:-1]) for _ in range(BURST)]:
        with contextlib.closing(plug), contextlib.suppress(ConnectionResetError):
            assert plug.recv(100) == b""
    assert time.monotonic() - began < 20
    assert service.get("/livez").status == 200


@pytest.mark.parametrize("first", ["large", "chunked", "a kernel run", "an index"])
@pytest.mark.parametrize("second", ["operators", "small", "large"])
def test_a_pipeline_that_is_left_harms_nothing(service: Service, first: str, second: str) -> None:
    """The request at work hears of the end, not only the last that came; the log is looked at."""
    for _ in range(3):
        for plug in [service.connect() for _ in range(BURST)]:
            plug.sendall(WHOLE[first] + WHOLE[second])
            plug.close()
    ((status, content),) = answers(half_closed(service, WHOLE["large"]))
    assert (status, content) == (200, np.rint(X).tobytes())
    assert not tracebacks(service.log)


def test_tls_which_cannot_be_closed_by_half_is_not_asked_to() -> None:
    with TlsService() as service:
        for _ in range(BURST):
            plug = service.connect()
            plug.sendall(WHOLE["a kernel run"])
            socket.socket.shutdown(plug, socket.SHUT_WR)
            plug.close()
        assert service.get("/livez").status == 200
    assert not [line for line in service.log if "eof_received" in line]
