"""Limits of a sender, in bytes, seconds and memory; and that a refused one reads why."""

from __future__ import annotations

import contextlib
import gzip
import json
import time
from collections.abc import Iterator

import numpy as np
import pytest

from support.http.native_form import Answers, ieee754, message, post, response_to, tensor
from support.services.server import Service

MIB = 1 << 20
X = tensor(12)
ROOM = ("--max-bytes-in-flight", "64MiB", "--max-tensor-bytes", "128MiB")


@pytest.fixture(scope="module")
def hasty() -> Iterator[Service]:
    """A service with little patience; else as the next."""
    pace = ("--receive-timeout", "0.5", "--keep-alive", "0.5")
    with Service(*pace, *ROOM) as running:
        yield running


@pytest.fixture(scope="module")
def service() -> Iterator[Service]:
    """A service with 64 MiB for all requests."""
    with Service(*ROOM) as running:
        yield running


def code_of(answer: bytes) -> tuple[int, str]:
    head, _, content = answer.rpartition(b"\r\n\r\n")
    return int(head.rpartition(b"HTTP/1.1 ")[2].split()[0]), json.loads(content)["code"]


def head_for(nbytes: int, shape: int | None = None, more: str = "") -> bytes:
    descriptor = ieee754("float32", [nbytes // 4 if shape is None else shape])
    return (
        f"POST /round HTTP/1.1\r\nHost: x\r\nContent-Length: {nbytes}\r\n{more}"
        f"Operator-Descriptor: {descriptor}\r\n\r\n"
    ).encode()


def still_works(service: Service) -> None:
    assert post(service, ieee754("float32", [3]), X.tobytes()).content == np.rint(X).tobytes()


GZIP = "Content-Encoding: gzip\r\n"
CHUNKED = head_for(12).replace(b"Content-Length: 12", b"Transfer-Encoding: chunked")
STALLED: dict[str, bytes] = {
    "head": b"POST /round HTTP/1.1\r\nHost: x\r\nX-Slow",
    "head after a request": message(X) + b"POST /rou",
    "body": head_for(1000) + bytes(12),
    "large body": head_for(10 * MIB) + bytes(12),
    "large body that has begun": head_for(10 * MIB) + bytes(200 << 10),
    "gzip": head_for(10 * MIB, more=GZIP) + gzip.compress(bytes(1000))[:12],
    "chunks": CHUNKED + b"4\r\nabcd\r\n",
}


@pytest.mark.parametrize("sent", STALLED.values(), ids=STALLED)
def test_sender_that_stalls_gets_408(hasty: Service, sent: bytes) -> None:
    began = time.monotonic()
    answer = response_to(hasty, sent)
    assert code_of(answer) == (408, "receive_timeout")
    assert answer.count(b"HTTP/1.1 200 ") == sent.startswith(message(X))
    assert 0.4 < time.monotonic() - began < 20
    still_works(hasty)


def test_idle_connection_is_closed_and_a_busy_one_kept(hasty: Service) -> None:
    """An empty line is no request."""
    with contextlib.closing(hasty.connect(20)) as plug:
        answers = Answers(plug)
        began = time.monotonic()
        while time.monotonic() < began + 1.2:
            plug.sendall(message(X))
            answers.expect(X)
            time.sleep(0.05)
        plug.sendall(b"\r\n")
        last = time.monotonic()
        assert answers.at_end()
        assert 0.3 < time.monotonic() - last < 4.5


def test_refused_head_request_gets_no_body(hasty: Service) -> None:
    head = b"HEAD /livez HTTP/1.1\r\nHost: x\r\n" + b"X-Many: 1\r\n" * 101 + b"\r\n"
    answer = response_to(hasty, head)
    assert answer.startswith(b"HTTP/1.1 431")
    assert answer.endswith(b"\r\n\r\n")


def test_refused_sender_reads_why_whatever_it_still_sends(hasty: Service) -> None:
    """The whole body is pushed at a service that refused after the head."""
    for _ in range(20):
        answer = response_to(hasty, head_for(6 * MIB, shape=3) + bytes(6 * MIB))
        assert code_of(answer) == (400, "payload_size_mismatch")


def test_refused_sender_of_very_much_is_not_heard_to_the_end(hasty: Service) -> None:
    with contextlib.closing(hasty.connect(timeout=20)) as plug:
        plug.sendall(head_for(1 << 40, shape=3))
        sent = 0
        with contextlib.suppress(ConnectionError):
            while sent < 256 * MIB:
                sent += plug.send(bytes(MIB))
        assert sent < 64 * MIB


def test_request_larger_than_the_budget_is_413(service: Service) -> None:
    reply = post(service, ieee754("float32", [25 * MIB]), bytes(100 * MIB))
    assert reply.status == 413
    assert (reply.json()["limit_bytes"], reply.json()["got_bytes"]) == (60 * MIB, 100 * MIB)


def test_full_service_says_503_at_once_and_small_requests_still_fit(service: Service) -> None:
    half = np.full(8 * MIB, 1.5, "<f4")  # 32 MiB; two are more than 60
    with contextlib.closing(service.connect()) as first:
        first.sendall(head_for(half.nbytes) + half.tobytes()[: 20 * MIB])
        time.sleep(0.2)
        began = time.monotonic()
        reply = post(service, ieee754("float32", [half.size]), half.tobytes())
        assert (reply.status, reply.json()["code"]) == (503, "overloaded")
        assert int(reply.headers["Retry-After"]) >= 1
        assert time.monotonic() - began < 20
        still_works(service)
        assert service.get("/livez").status == 200
        first.sendall(half.tobytes()[20 * MIB :])
        Answers(first).expect(half)
    assert post(service, ieee754("float32", [half.size]), half.tobytes()).status == 200
