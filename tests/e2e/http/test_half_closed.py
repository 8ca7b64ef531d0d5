"""Senders that stop sending, or leave: a whole request is answered, and nothing else is kept.

As ``nc -N`` and some HTTP/1.0 clients do. Bursts of them, so that the end of a connection
is seen at every stage of an answer.
"""

from __future__ import annotations

import contextlib
import gzip
import http.client
import io
import json
import socket
import time
from collections.abc import Iterator

import numpy as np
import pytest

from support.http.native_form import ieee754, message, post, tensor
from support.services.server import Service, tracebacks, until
from support.services.tls import TlsService

MIB = 1 << 20
BURST = 20
X = tensor(400_000)
BUDGET = 64 * MIB
#: The most that one large tensor can have of it.
WHOLE_BUDGET = BUDGET - BUDGET // 16


@pytest.fixture(scope="module")
def service() -> Iterator[Service]:
    with Service("--max-bytes-in-flight", str(BUDGET)) as running:
        yield running
    assert not tracebacks(running.log)


@pytest.fixture(scope="module")
def tls() -> Iterator[Service]:
    with TlsService("--max-bytes-in-flight", str(BUDGET)) as running:
        yield running
        began = time.monotonic()
        assert running.stop() == 0
        # Nobody is connected, so there is nobody to wait for: DRAIN_TIMEOUT is 30 seconds.
        assert time.monotonic() - began < 20
    assert not tracebacks(running.log)
    assert not [line for line in running.log if "eof_received" in line or "failure" in line]


def get(path: str, version: str = "1.1") -> bytes:
    return f"GET {path} HTTP/{version}\r\nHost: x\r\n\r\n".encode()


def posted(body: bytes, *fields: str, path: str = "/round") -> bytes:
    return "\r\n".join((f"POST {path} HTTP/1.1", "Host: x", *fields, "", "")).encode() + body


def numbers(count: int) -> bytes:
    body = {"descriptor": json.loads(ieee754("float32", [count])), "data": X[:count].tolist()}
    text = json.dumps(body).encode()
    return posted(text, "Content-Type: application/json", f"Content-Length: {len(text)}")


OPERATOR = f"Operator-Descriptor: {ieee754('float32', [X.size])}"
PACKED = gzip.compress(X.tobytes(), 1)
WHOLE: dict[str, bytes] = {
    "small": message(X[:10]),
    "large": message(X),
    "chunked": posted(
        b"%x\r\n%b\r\n0\r\n\r\n" % (X.nbytes, X.tobytes()), OPERATOR, "Transfer-Encoding: chunked"
    ),
    "gzip": posted(PACKED, OPERATOR, "Content-Encoding: gzip", f"Content-Length: {len(PACKED)}"),
    "json": numbers(1000),
    "health": get("/livez"),
    "health of HTTP/1.0": get("/livez", "1.0"),
    "a kernel run": get("/readyz"),
    "conformance": get("/conformance"),
    "operators": get("/operators"),
    "an index": posted(b'{"ready": true}', "Content-Length: 15", path="/v2/repository/index"),
}


def half_closed(service: Service, whole: bytes) -> socket.socket:
    plug = service.connect(20)
    plug.sendall(whole)
    plug.shutdown(socket.SHUT_WR)
    return plug


def answers(plug: socket.socket) -> list[tuple[int, bytes]]:
    """All final ones that come until the connection ends.

    A service at work may ask, by 100 Continue, whether a sender that has stopped still reads.
    """
    with contextlib.closing(plug), plug.makefile("rb") as file:
        received = io.BytesIO(file.read())
    found = []
    while line := received.readline():
        headers = http.client.parse_headers(received)
        if line.split()[1] != b"100":
            length = int(headers["Content-Length"])
            found.append((int(line.split()[1]), received.read(length)))
            assert len(found[-1][1]) == length
    return found


@pytest.mark.parametrize("whole", WHOLE.values(), ids=WHOLE)
def test_half_closed_client_gets_its_response(service: Service, whole: bytes) -> None:
    for plug in [half_closed(service, whole) for _ in range(BURST)]:
        ((status, content),) = answers(plug)
        assert status == 200
        if whole in (WHOLE["large"], WHOLE["chunked"], WHOLE["gzip"]):
            assert content == np.rint(X).tobytes()


def test_half_closed_pipeline_gets_all_its_responses(service: Service) -> None:
    kinds = ("large", "a kernel run", "small", "chunked", "conformance", "large")
    for _ in range(3):
        found = answers(half_closed(service, b"".join(WHOLE[kind] for kind in kinds)))
        assert [status for status, _ in found] == [200] * len(kinds)
        assert found[0][1] == found[3][1] == np.rint(X).tobytes()


@pytest.mark.parametrize("kind", ["small", "large", "chunked", "json", "operators", "an index"])
def test_half_close_within_a_request_ends_the_connection(service: Service, kind: str) -> None:
    began = time.monotonic()
    for plug in [half_closed(service, WHOLE[kind][:-1]) for _ in range(BURST)]:
        with contextlib.closing(plug), contextlib.suppress(ConnectionResetError):
            assert plug.recv(100) == b""
    assert time.monotonic() - began < 20
    assert service.get("/livez").status == 200


def has_room(service: Service) -> bool:
    """Whether there is room for a tensor that takes the whole budget; it is not sent."""
    with contextlib.closing(service.connect(20)) as plug:
        operator = f"Operator-Descriptor: {ieee754('uint8', [WHOLE_BUDGET])}"
        plug.sendall(
            posted(b"", operator, f"Content-Length: {WHOLE_BUDGET}", "Expect: 100-continue")
        )
        return plug.recv(12) == b"HTTP/1.1 100"


@pytest.mark.parametrize("first", ["large", "chunked", "gzip", "a kernel run", "an index"])
@pytest.mark.parametrize("kind", ["service", "tls"])
def test_client_that_leaves_a_pipeline_gives_the_budget_back(
    request: pytest.FixtureRequest, kind: str, first: str
) -> None:
    """The request at work hears of the end, not only the last that came; the log is looked at."""
    service: Service = request.getfixturevalue(kind)
    assert has_room(service)
    for second in (WHOLE["operators"], WHOLE["small"], WHOLE["large"], WHOLE["large"][:-100]):
        for is_polite in (True, False):
            plugs = [service.connect(20) for _ in range(BURST)]
            for plug in plugs:
                plug.sendall(WHOLE[first] + second)
                if not is_polite:  # over TLS, without a farewell
                    socket.socket.shutdown(plug, socket.SHUT_WR)
                plug.close()
    until(lambda: has_room(service))
    assert service.get("/livez").status == 200


def test_clients_that_leave_within_a_request_or_response_keep_no_memory(service: Service) -> None:
    x = tensor(8 * MIB)
    whole, descriptor = message(x), ieee754("float32", [x.size])
    assert post(service, descriptor, x.tobytes()).status == 200
    before = service.rss()
    for cut in np.linspace(1, len(whole) - 1, 40).astype(int):
        with contextlib.closing(service.connect()) as plug:
            plug.sendall(whole[:cut])
    for wanted in (0, 1, 1000, 100_000, 4 * MIB):
        with contextlib.closing(service.connect()) as plug:
            plug.sendall(whole)
            plug.recv(wanted, socket.MSG_WAITALL) if wanted else None
    assert post(service, descriptor, x.tobytes()).content == np.rint(x).tobytes()
    # Buffers wait a few seconds for the next request, then the system has them back.
    until(lambda: service.rss() - before <= 16 * MIB, 20)
