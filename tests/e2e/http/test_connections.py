"""Connections in every shape: cut anywhere, pipelined, kept, dropped."""

from __future__ import annotations

import contextlib
import socket
import time
from collections.abc import Iterator

import numpy as np
import pytest

from support.http.native_form import ieee754, post
from support.http.responses import Answers, message, tensor
from support.services.server import Service

#: Of resident memory after a burst; one 8 MiB buffer in use, and what was loaded lazily.
ALLOWED_GROWTH = 16 << 20


@pytest.fixture(scope="module")
def service() -> Iterator[Service]:
    with Service() as running:
        yield running


SIZES = [4, 1024, (64 << 10) - 4, 64 << 10, (64 << 10) + 4, 1 << 20, 5 << 20]


@pytest.mark.parametrize("size", SIZES)
def test_sizes_around_the_large_one(service: Service, size: int) -> None:
    x = tensor(size)
    with contextlib.closing(service.connect()) as plug:
        answers = Answers(plug)
        for _ in range(3):
            plug.sendall(message(x))
            answers.expect(x)


def test_pipelined_requests_are_answered_in_order(service: Service) -> None:
    tensors = [tensor(size, size) for size in (4, 1 << 20, 1024, 200 << 10, 70 << 10, 4, 1 << 20)]
    with contextlib.closing(service.connect()) as plug:
        # Written from one side while read from the other, as the buffers between are finite.
        import threading

        writer = threading.Thread(target=plug.sendall, args=(b"".join(map(message, tensors)),))
        writer.start()
        Answers(plug).expect(*tensors)
        writer.join()


@pytest.mark.parametrize("size", [40, 100 << 10])
def test_requests_that_come_in_pieces(service: Service, size: int) -> None:
    x = tensor(size)
    whole = message(x)
    head = whole.index(b"\r\n\r\n") + 4
    cuts = [1, head - 2, head, head + 1, head + 7, len(whole) - 1]
    with contextlib.closing(service.connect()) as plug:
        plug.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        answers = Answers(plug)
        for cut in cuts:
            plug.sendall(whole[:cut])
            time.sleep(0.02)
            plug.sendall(whole[cut:])
            answers.expect(x)


def test_one_byte_at_a_time(service: Service) -> None:
    x = tensor(40)
    with contextlib.closing(service.connect()) as plug:
        plug.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for byte in message(x):
            plug.sendall(bytes([byte]))
        Answers(plug).expect(x)


@pytest.mark.parametrize("size", [1024, 1 << 20])
def test_http_1_0_closes_after_the_answer(service: Service, size: int) -> None:
    x = tensor(size)
    with contextlib.closing(service.connect()) as plug:
        plug.sendall(message(x, version="1.0"))
        answers = Answers(plug)
        answers.expect(x)
        assert answers.at_end()


@pytest.mark.parametrize("size", [1024, 1 << 20])
def test_connection_close_is_honoured(service: Service, size: int) -> None:
    x = tensor(size)
    with contextlib.closing(service.connect()) as plug:
        plug.sendall(message(x, more="Connection: close\r\n"))
        answers = Answers(plug)
        status, headers, content = answers.next()
        assert (status, headers["Connection"]) == (200, "close")
        assert content == np.rint(x).tobytes()
        assert answers.at_end()


@pytest.mark.parametrize("size", [1024, 1 << 20])
def test_expect_100_continue_before_a_body_of_any_size(service: Service, size: int) -> None:
    x = tensor(size)
    whole = message(x, more="Expect: 100-continue\r\n")
    head = whole.index(b"\r\n\r\n") + 4
    with contextlib.closing(service.connect()) as plug:
        plug.sendall(whole[:head])
        interim = b"HTTP/1.1 100 Continue\r\n\r\n"
        assert plug.recv(len(interim), socket.MSG_WAITALL) == interim
        plug.sendall(whole[head:])
        Answers(plug).expect(x)


def test_senders_that_hang_up_leave_nothing_behind(service: Service) -> None:
    x = tensor(8 << 20)
    whole = message(x)
    post(service, ieee754("float32", [x.size]), x.tobytes())
    before = service.rss()
    for cut in np.linspace(1, len(whole) - 1, 40).astype(int):
        with contextlib.closing(service.connect()) as plug:
            plug.sendall(whole[:cut])
    reply = post(service, ieee754("float32", [x.size]), x.tobytes())
    assert reply.content == np.rint(x).tobytes()
    # Buffers wait a few seconds for the next request, then the system has them back.
    deadline = time.monotonic() + 20
    while service.rss() - before > ALLOWED_GROWTH and time.monotonic() < deadline:
        time.sleep(0.2)
    assert service.rss() - before <= ALLOWED_GROWTH


def test_readers_that_hang_up_leave_nothing_behind(service: Service) -> None:
    x = tensor(8 << 20)
    for wanted in (0, 1, 1000, 100_000, 4 << 20):
        with contextlib.closing(service.connect()) as plug:
            plug.sendall(message(x))
            plug.recv(wanted, socket.MSG_WAITALL) if wanted else None
    reply = post(service, ieee754("float32", [x.size]), x.tobytes())
    assert reply.content == np.rint(x).tobytes()


def test_answers_never_mix_on_many_connections(service: Service) -> None:
    tensors = [tensor(1 << 20, seed) for seed in range(8)]
    with contextlib.ExitStack() as stack:
        plugs = [stack.enter_context(contextlib.closing(service.connect())) for _ in tensors]
        for _ in range(3):
            for plug, x in zip(plugs, tensors, strict=True):
                plug.sendall(message(x)[:-1])
            for plug, x in zip(plugs, tensors, strict=True):
                plug.sendall(x.tobytes()[-1:])
            for plug, x in zip(plugs, tensors, strict=True):
                Answers(plug).expect(x)


def test_a_slow_reader_gets_its_own_answer(service: Service) -> None:
    slow, fast = tensor(16 << 20, 1), tensor(16 << 20, 2)
    with contextlib.closing(service.connect()) as plug:
        plug.sendall(message(slow))
        # While the answer waits in the service, others come and go with buffers of that size.
        for _ in range(3):
            reply = post(service, ieee754("float32", [fast.size]), fast.tobytes())
            assert reply.content == np.rint(fast).tobytes()
        Answers(plug).expect(slow)


def test_chunked_bodies_of_any_size(service: Service) -> None:
    x = tensor(3 << 20)
    reply = service.request(
        "POST",
        "/round",
        (x.tobytes()[at : at + 50_000] for at in range(0, x.nbytes, 50_000)),
        {"Operator-Descriptor": ieee754("float32", [x.size]), "Transfer-Encoding": "chunked"},
    )
    assert reply.content == np.rint(x).tobytes()


@pytest.mark.parametrize(
    "target", ["POST /rounds", "DELETE /round", "GET /livez", "POST /v2/models/none/infer"]
)
def test_no_request_is_lost_behind_a_body_that_came_after_its_answer(
    service: Service, target: str
) -> None:
    """Where the connection ends with an answer, the answer says so."""
    with contextlib.closing(service.connection()) as connection:
        connection.putrequest(*target.split())
        connection.putheader("Content-Length", "4000")
        connection.endheaders()
        time.sleep(0.1)
        connection.send(bytes(4000))
        answer = connection.getresponse()
        assert answer.status in (200, 404, 405)
        assert answer.read()
        if not answer.will_close:
            connection.request("GET", "/livez")
            assert connection.getresponse().status == 200


@pytest.mark.parametrize("target", ["POST /rounds", "GET /livez"])
def test_a_connection_is_kept_after_an_answer_that_needed_no_body(
    service: Service, target: str
) -> None:
    with contextlib.closing(service.connect()) as plug:
        request = f"{target} HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\n\r\nabc"
        plug.sendall(2 * request.encode())
        plug.sendall(b"GET /livez HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
        with plug.makefile("rb") as answers:
            assert answers.read().count(b"HTTP/1.1 ") == 3
