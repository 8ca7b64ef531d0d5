"""What a sender may take, in bytes, seconds and memory; and that a refused one reads why."""

from __future__ import annotations

import contextlib
import gzip
import json
import socket
import threading
import time
from collections.abc import Iterator

import numpy as np
import pytest

from support.http.native_form import ieee754, post
from support.services.server import Reply, Service

X = np.array([0.5, 1.5, -2.5], "<f4")
MIB = 1 << 20
ROOM = ("--max-bytes-in-flight", "64MiB", "--max-tensor-bytes", "128MiB")


@pytest.fixture(scope="module")
def hasty() -> Iterator[Service]:
    """A service with little patience; else as the next."""
    pace = ("--receive-timeout", "1", "--min-receive-rate", "65536")
    with Service(*pace, *ROOM) as running:
        yield running


@pytest.fixture(scope="module")
def service() -> Iterator[Service]:
    """A service with 64 MiB for all requests."""
    with Service(*ROOM) as running:
        yield running


def read_to_end(plug: socket.socket) -> bytes:
    with plug.makefile("rb") as file:
        return file.read()


def code_of(answer: bytes) -> tuple[int, str]:
    head, _, content = answer.partition(b"\r\n\r\n")
    return int(head.split()[1]), json.loads(content)["code"]


def head_for(nbytes: int, shape: int | None = None, more: str = "") -> bytes:
    descriptor = ieee754("float32", [nbytes // 4 if shape is None else shape])
    return (
        f"POST /round HTTP/1.1\r\nHost: x\r\nContent-Length: {nbytes}\r\n{more}"
        f"Operator-Descriptor: {descriptor}\r\n\r\n"
    ).encode()


def still_works(service: Service) -> None:
    assert post(service, ieee754("float32", [3]), X.tobytes()).content == np.rint(X).tobytes()


def test_a_silent_connection_is_closed(hasty: Service) -> None:
    with contextlib.closing(hasty.connect(timeout=20)) as plug:
        began = time.monotonic()
        assert read_to_end(plug) == b""
        assert 0.5 < time.monotonic() - began < 20


def test_half_a_head_gets_408(hasty: Service) -> None:
    with contextlib.closing(hasty.connect(timeout=20)) as plug:
        plug.sendall(b"POST /round HTTP/1.1\r\nHost: x\r\nX-Slow")
        assert code_of(read_to_end(plug)) == (408, "receive_timeout")
    still_works(hasty)


def test_half_a_head_after_a_request_gets_408(hasty: Service) -> None:
    with contextlib.closing(hasty.connect(timeout=20)) as plug:
        plug.sendall(head_for(12) + X.tobytes() + b"POST /rou")
        answers = read_to_end(plug)
        assert answers.startswith(b"HTTP/1.1 200 OK")
        assert b"HTTP/1.1 408" in answers


@pytest.mark.parametrize("more", ["", "Content-Encoding: gzip\r\n"], ids=["direct", "encoded"])
@pytest.mark.parametrize("nbytes", [1000, 10 * MIB])
def test_a_body_that_stops_gets_408(hasty: Service, nbytes: int, more: str) -> None:
    with contextlib.closing(hasty.connect(timeout=20)) as plug:
        # The beginning of a gzip stream, or of a tensor.
        plug.sendall(head_for(nbytes, more=more) + gzip.compress(bytes(nbytes))[:12])
        began = time.monotonic()
        assert code_of(read_to_end(plug)) == (408, "receive_timeout")
        assert time.monotonic() - began < 20
    still_works(hasty)


def test_a_body_that_stops_after_its_beginning_gets_no_grace(hasty: Service) -> None:
    with contextlib.closing(hasty.connect(timeout=20)) as plug:
        plug.sendall(head_for(10 * MIB) + bytes(200 << 10))
        assert code_of(read_to_end(plug)) == (408, "receive_timeout")


def test_a_slow_chunked_body_gets_408(hasty: Service) -> None:
    with contextlib.closing(hasty.connect(timeout=20)) as plug:
        descriptor = ieee754("float32", [3])
        plug.sendall(
            b"POST /round HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n"
            b"Operator-Descriptor: " + descriptor.encode() + b"\r\n\r\n4\r\nabcd\r\n"
        )
        assert code_of(read_to_end(plug)) == (408, "receive_timeout")


def test_a_body_at_a_fair_pace_is_served(hasty: Service) -> None:
    x = np.full(60_000, 1.5, "<f4")
    with contextlib.closing(hasty.connect()) as plug:
        plug.sendall(head_for(x.nbytes, more="Connection: close\r\n"))
        for at in range(0, x.nbytes, 30_000):
            plug.sendall(x.tobytes()[at : at + 30_000])
            time.sleep(0.3)
        assert read_to_end(plug).endswith(np.rint(x).tobytes())


@pytest.mark.parametrize(
    "head",
    [
        pytest.param(b"X-Long: " + b"a" * 40_000 + b"\r\n\r\n", id="one-long-field"),
        pytest.param(b"X-Long: " + b"a" * 40_000, id="one-that-does-not-end"),
        pytest.param(b"X-Many: 1\r\n" * 101 + b"\r\n", id="many-fields"),
        pytest.param(b"X-Many: 12345678\r\n" * 60_000 + b"\r\n", id="a-megabyte"),
    ],
)
def test_large_heads_get_431(hasty: Service, head: bytes) -> None:
    with contextlib.closing(hasty.connect(timeout=20)) as plug:
        with contextlib.suppress(ConnectionError):
            plug.sendall(b"GET /livez HTTP/1.1\r\nHost: x\r\n" + head)
        assert code_of(read_to_end(plug)) == (431, "headers_too_large")
    still_works(hasty)


def test_a_refused_head_request_gets_no_body(hasty: Service) -> None:
    with contextlib.closing(hasty.connect(timeout=20)) as plug:
        plug.sendall(b"HEAD /livez HTTP/1.1\r\nHost: x\r\n" + b"X-Many: 1\r\n" * 101 + b"\r\n")
        answer = read_to_end(plug)
        assert answer.startswith(b"HTTP/1.1 431")
        assert answer.endswith(b"\r\n\r\n")


def test_a_refused_sender_reads_why(hasty: Service) -> None:
    """The whole body is pushed at a service that refused after the head."""
    refused = 0
    for _ in range(20):
        with contextlib.closing(hasty.connect(timeout=20)) as plug:
            plug.sendall(head_for(6 * MIB, shape=3))
            with contextlib.suppress(ConnectionError):
                plug.sendall(bytes(6 * MIB))
            refused += code_of(read_to_end(plug)) == (400, "payload_size_mismatch")
    assert refused == 20


def test_a_refused_sender_of_very_much_is_not_heard_to_the_end(hasty: Service) -> None:
    with contextlib.closing(hasty.connect(timeout=20)) as plug:
        plug.sendall(head_for(1 << 40, shape=3))
        sent = 0
        with contextlib.suppress(ConnectionError):
            while sent < 256 * MIB:
                sent += plug.send(bytes(MIB))
        assert sent < 64 * MIB


def test_a_request_larger_than_the_budget_is_413(service: Service) -> None:
    head = {"Operator-Descriptor": ieee754("float32", [100 * MIB // 4])}
    reply = service.request("POST", "/round", bytes(100 * MIB), head)
    assert reply.status == 413
    assert reply.json()["limit_bytes"] == 60 * MIB
    assert reply.json()["got_bytes"] == 100 * MIB


def test_a_full_service_says_503_at_once_and_small_ones_still_fit(service: Service) -> None:
    half = np.full(8 * MIB, 1.5, "<f4")  # 32 MiB; two are more than 60
    with contextlib.closing(service.connect()) as first:
        first.sendall(head_for(half.nbytes, more="Connection: close\r\n"))
        first.sendall(half.tobytes()[: 20 * MIB])
        time.sleep(0.2)
        began = time.monotonic()
        reply = post(service, ieee754("float32", [half.size]), half.tobytes())
        assert (reply.status, reply.json()["code"]) == (503, "overloaded")
        assert int(reply.headers["Retry-After"]) >= 1
        assert time.monotonic() - began < 20
        still_works(service)
        assert service.get("/livez").status == 200
        first.sendall(half.tobytes()[20 * MIB :])
        assert read_to_end(first).endswith(np.rint(half).tobytes())
    assert post(service, ieee754("float32", [half.size]), half.tobytes()).status == 200


def test_silent_senders_of_much_hold_little(hasty: Service) -> None:
    with contextlib.ExitStack() as stack:
        for _ in range(50):
            plug = stack.enter_context(contextlib.closing(hasty.connect()))
            plug.sendall(head_for(50 * MIB))
        large = np.full(10 * MIB, 1.5, "<f4")
        reply = post(hasty, ieee754("float32", [large.size]), large.tobytes())
        assert reply.status == 200, reply.content


def test_many_at_once_are_served_or_told_to_wait(service: Service) -> None:
    x = np.full(4 * MIB, 2.5, "<f4")
    replies: list[Reply] = []

    def send() -> None:
        replies.append(post(service, ieee754("float32", [x.size]), x.data.cast("B")))

    senders = [threading.Thread(target=send) for _ in range(24)]
    for sender in senders:
        sender.start()
    for sender in senders:
        sender.join()
    assert {reply.status for reply in replies} <= {200, 503}
    served = [reply for reply in replies if reply.status == 200]
    assert served
    assert all(reply.content == np.rint(x).tobytes() for reply in served)
    assert len(replies) == len(senders)
    assert service.peak_rss() < 400 * MIB
    still_works(service)
