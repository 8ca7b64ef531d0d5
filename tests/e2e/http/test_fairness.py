"""Callers of one connection have their responses while others send all they can."""

from __future__ import annotations

import contextlib
import hashlib
import socket
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from support.http.floods import Flood, flooded
from support.http.http2_frames import HELLO, block, call_fields, data
from support.http.native_form import Answers, message, tensor
from support.services.server import Service, until
from tensor_round_service.net.http2 import frames
from tensor_round_service.net.http2.frames import END_HEADERS, END_STREAM, Kind

KEY = "a-key-of-the-tests"
X = tensor(256)
LIVEZ = b"GET /livez HTTP/1.1\r\nHost: x\r\n\r\n"
#: Some hundred times what a response takes, and a small part of what it took in the event loop of a
#: connection that has no turns: that went on as long as the flood.
SECONDS = 2.0
#: Sent by a flood that has begun.
BEGUN_BYTES = 512 << 10


@pytest.fixture(scope="module")
def keyed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    """A service with keys, and its metrics on a port of their own."""
    keys: Path = tmp_path_factory.mktemp("keys") / "keys"
    keys.write_text(hashlib.sha256(KEY.encode()).hexdigest())
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    with Service("--api-keys-file", str(keys), "--metrics-port", str(port)) as running:
        yield running


def get(path: str, host: str = "x") -> bytes:
    return f"GET {path} HTTP/1.1\r\nHost: {host}\r\n\r\n".encode()


def rounded(x: np.ndarray) -> bytes:
    return message(x, more=f"X-API-Key: {KEY}\r\n")


def calls(path: str, content: bytes, flags: int = 0) -> bytes:
    """Calls of a method, on all numbers that a connection has for them."""
    head = block(call_fields(path))
    return b"".join(
        frames.frame(Kind.HEADERS, END_HEADERS | flags, number, head)
        + (b"" if flags else data(number, content, ends=True))
        for number in range(1, 1 << 16, 2)
    )


FLOODS: dict[str, Flood] = {
    "no key": Flood(get("/x")),
    "a wrong host": Flood(get("/x", "evil.example")),
    "rounds of 4 bytes": Flood(rounded(X[:1])),
    "refused descriptors": Flood(rounded(X[:1]).replace(b"float32", b"float33")),
    "health": Flood(LIVEZ),
    "no HTTP": Flood(b"\0\r\n\r\n"),
    "chunks of a byte": Flood(
        rounded(X)
        .partition(b"\r\n\r\n")[0]
        .replace(b"Content-Length: 1024", b"Transfer-Encoding: chunked")
        + b"\r\n\r\n"
        + b"".join(b"1\r\n%c\r\n" % byte for byte in X.tobytes())
        + b"0\r\n\r\n"
    ),
    "gRPC health": Flood(calls("/grpc.health.v1.Health/Check", bytes(5)), HELLO),
    "gRPC without a key": Flood(calls("/inference.GRPCInferenceService/ModelInfer", b""), HELLO),
    "gRPC heads alone": Flood(calls("/a.Service/Method", b"", END_STREAM), HELLO),
    "PING": Flood(frames.frame(Kind.PING, 0, 0, bytes(8)), HELLO),
    "SETTINGS": Flood(frames.settings({}), HELLO),
}


@pytest.mark.parametrize("count", [1, 48])
@pytest.mark.parametrize("flood", FLOODS.values(), ids=FLOODS)
def test_others_are_answered_beside_a_flood(keyed: Service, flood: Flood, count: int) -> None:
    waits = []
    with contextlib.ExitStack() as stack:
        tally = stack.enter_context(flooded(keyed.connect, flood, count))
        until(lambda: tally.sent > BEGUN_BYTES or tally.closed > count)
        health = stack.enter_context(keyed.connect())
        rounds = stack.enter_context(keyed.connect())
        alive, tensors = Answers(health), Answers(rounds)
        for _ in range(10):
            began = time.monotonic()
            health.sendall(LIVEZ)
            assert alive.next()[0] == 200
            rounds.sendall(rounded(X))
            tensors.expect(X)
            waits.append(time.monotonic() - began)
    assert max(waits) < SECONDS, waits


def test_a_flood_of_the_metrics_port_delays_nobody(keyed: Service) -> None:
    port = int(keyed.options[keyed.options.index("--metrics-port") + 1])
    connect = partial(socket.create_connection, ("127.0.0.1", port), 60)
    with flooded(connect, Flood(get("/x")), 1) as tally:
        until(lambda: tally.sent > BEGUN_BYTES)
        began = time.monotonic()
        assert keyed.get("/livez").status == 200
        with contextlib.closing(connect()) as scrape:
            scrape.sendall(get("/metrics"))
            assert Answers(scrape).next()[0] == 200
        assert time.monotonic() - began < SECONDS
