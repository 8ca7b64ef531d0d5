"""Requests behind one another that once were lost, or held something for ever."""

from __future__ import annotations

import contextlib
import gzip
import json
import os
import random
import socket
import time
from collections.abc import Callable, Iterator
from itertools import pairwise

import numpy as np
import pytest

from support.http.native_form import ieee754
from support.http.responses import Answers
from support.services.server import Service, tracebacks
from support.services.tls import TlsService

MIB = 1 << 20
BUDGET = 64 * MIB
#: The most that one large tensor can have of it.
WHOLE = BUDGET - BUDGET // 16
HOST = "Host: localhost"
LIVE = f"GET /livez HTTP/1.1\r\n{HOST}\r\n\r\n".encode()
ALIVE = b'{"status":"alive"}'


@pytest.fixture(scope="module", params=[Service, TlsService], ids=["plain", "tls"])
def running(request: pytest.FixtureRequest) -> Iterator[Service]:
    with request.param("--max-bytes-in-flight", str(BUDGET)) as running:
        yield running
        began = time.monotonic()
        assert running.stop() == 0
        # Nobody is connected, so there is nobody to wait for: DRAIN_TIMEOUT is 30 seconds.
        assert time.monotonic() - began < 20
    assert_well(running)


@pytest.fixture
def service(running: Service) -> Iterator[Service]:
    yield running
    assert_well(running)


def assert_well(service: Service) -> None:
    assert not tracebacks(service.log)
    assert not [line for line in service.log if "failure" in line]


def post(body: bytes, *fields: str, path: str = "/round") -> bytes:
    lines = (f"POST {path} HTTP/1.1", HOST, *fields, f"Content-Length: {len(body)}", "", "")
    return "\r\n".join(lines).encode() + body


def octets(x: np.ndarray) -> bytes:
    return post(x.tobytes(), f"Operator-Descriptor: {ieee754('float32', [x.size])}")


def short(x: np.ndarray) -> bytes:
    """DirectML rounds lengths up to 4; an odd count of float16 is sent without the last two."""
    layout = {"DataType": "FLOAT16", "Sizes": [x.size]}
    operator = {
        "dialect": "directml",
        "feature_level": "3_0",
        "type": "DML_OPERATOR_ELEMENT_WISE_ROUND",
        "desc": {"InputTensor": layout, "OutputTensor": layout, "RoundingMode": 0},
    }
    return post(x.tobytes(), f"Operator-Descriptor: {json.dumps(operator)}")


def halves(count: int, dtype: str = "<f2") -> np.ndarray:
    return (np.arange(count) % 1000 / 2 - 200).astype(dtype)


def expect(answers: Answers, content: bytes) -> None:
    status, _, found = answers.next()
    assert (status, found) == (200, content)


def has_room(service: Service) -> bool:
    """Whether there is room for a tensor that takes the whole budget; it is not sent."""
    lines = (
        "POST /round HTTP/1.1",
        HOST,
        f"Content-Length: {WHOLE}",
        "Expect: 100-continue",
        f"Operator-Descriptor: {ieee754('uint8', [WHOLE])}",
    )
    with contextlib.closing(service.connect(20)) as plug:
        plug.sendall("\r\n".join((*lines, "", "")).encode())
        return plug.recv(12) == b"HTTP/1.1 100"


def descriptors(service: Service) -> int:
    return len(os.listdir(f"/proc/{service.pid}/fd"))


def within(seconds: float, what: Callable[[], bool]) -> None:
    deadline = time.monotonic() + seconds
    while not what():
        assert time.monotonic() < deadline, "not in time"
        time.sleep(0.05)


#: What is sent in one segment with a short form, and what is behind it in the next.
BEHIND: dict[str, Callable[[int], tuple[bytes, bytes]]] = {
    "request": lambda count: (LIVE, b""),
    "body two bytes shorter": lambda count: (octets(halves(count // 2, "<f4")), b""),
    "begun": lambda count: (LIVE[:10], LIVE[10:]),
    "line": lambda count: (b"\r\n", LIVE),
}


@pytest.mark.parametrize("behind", BEHIND.values(), ids=BEHIND)
def test_a_short_form_is_answered_with_other_bytes_behind_it(
    service: Service, behind: Callable[[int], tuple[bytes, bytes]]
) -> None:
    before = descriptors(service)
    for count in (1, 3, 33, 1001, 51_201):
        x = halves(count)
        with contextlib.closing(service.connect(20)) as plug:
            answers = Answers(plug)
            for _ in range(2):
                first, second = behind(count)
                plug.sendall(short(x) + first)
                expect(answers, np.rint(x).tobytes() + bytes(2))
                plug.sendall(second)
                assert answers.next()[0] == 200
            answers.file.close()  # else the socket stays open with it
    within(30, lambda: descriptors(service) <= before)


def test_a_large_short_form_is_answered_in_pieces(service: Service) -> None:
    x = halves(51_201)
    whole = short(x)
    with contextlib.closing(service.connect(20)) as plug:
        answers = Answers(plug)
        for cut in (30_016, len(whole) - 1671, len(whole) - 1):
            plug.sendall(whole[:cut])
            time.sleep(0.01)
            plug.sendall(whole[cut:])
            expect(answers, np.rint(x).tobytes() + bytes(2))


def mix(chance: random.Random) -> tuple[bytes, list[bytes]]:
    """Small requests that come again and again, and their answers."""
    message, right = b"", []
    for _ in range(chance.randint(1, 8)):
        kind = chance.random()
        if kind < 0.5:
            x = halves(chance.choice((1, 4, 16, 256, 3000)), "<f4")
            message += octets(x)
            right.append(np.rint(x).tobytes())
        elif kind < 0.8:
            x = halves(chance.choice((1, 3, 5, 33, 1001)))
            message += short(x)
            right.append(np.rint(x).tobytes() + bytes(2))
        else:
            message += LIVE
            right.append(ALIVE)
    return message, right


def exchange(service: Service, chance: random.Random) -> None:
    with contextlib.closing(service.connect(20)) as plug:
        plug.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        answers = Answers(plug)
        for _ in range(chance.randint(1, 4)):
            message, right = mix(chance)
            cuts = sorted(chance.randrange(len(message)) for _ in range(chance.choice((0, 1, 3))))
            for begin, end in pairwise((0, *cuts, len(message))):
                plug.sendall(message[begin:end])
                time.sleep(chance.choice((0, 0, 0.001)))
            for content in right:
                expect(answers, content)


def test_no_answer_is_lost_of_small_requests_in_any_mix(service: Service) -> None:
    for number in range(50):
        exchange(service, random.Random(f"before {number}"))
    before, open_before = service.rss(), descriptors(service)
    lost = []
    for number in range(500):
        try:
            exchange(service, random.Random(number))
        except TimeoutError:
            lost.append(number)
            assert len(lost) < 3, f"no answers on connections {lost}"
    assert not lost, f"no answers on connections {lost}"
    within(30, lambda: descriptors(service) <= open_before)
    assert service.rss() - before <= 16 * MIB


def test_a_pipeline_that_ends_behind_a_packed_body_gives_the_budget_back(
    service: Service,
) -> None:
    x = halves(25_000, "<f4")
    operator = f"Operator-Descriptor: {ieee754('float32', [x.size])}"
    packed = post(gzip.compress(x.tobytes(), 1), operator, "Content-Encoding: gzip")
    assert has_room(service)
    for is_polite in (True, False):
        plugs = [service.connect(20) for _ in range(30)]
        for plug in plugs:
            plug.sendall(packed + octets(x)[:-100])
            if is_polite:
                plug.close()
            else:
                # Over TLS, without a farewell.
                socket.socket.shutdown(plug, socket.SHUT_WR)
        for plug in plugs:
            plug.close()
    within(30, lambda: has_room(service))


def test_hang_up_within_a_control_request_is_not_an_error(service: Service) -> None:
    """What the log says of it is looked at behind each test, and when the service has ended."""
    json_type = "Content-Type: application/json"
    whole = post(b'{"ready": true}', json_type, path="/v2/repository/index")
    for cut in (1, 8):
        with contextlib.closing(service.connect(20)) as plug:
            plug.sendall(whole[:-cut])
            time.sleep(0.05)
    assert service.get("/livez").status == 200
