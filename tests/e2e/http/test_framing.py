"""Where a request ends and the next begins, and what waits of many that are sent at once.

``test_stress.py`` plays connections with all kinds of requests, cut anywhere; which heads and
chunks are malformed, tests/service/net/http1 tests.
"""

from __future__ import annotations

import contextlib
import json
import re
import threading
import time
from collections.abc import Callable, Iterator

import numpy as np
import pytest

from support.cases.descriptors import varied
from support.http.native_form import Answers, ieee754, message, response_to, tensor
from support.services.server import Service, tracebacks
from support.services.tls import TlsService

MIB = 1 << 20
X = np.array([0.5, 1.5, -2.5, 3.5], "<f4")
BODY = X.tobytes()
FIELD = f"Operator-Descriptor: {ieee754('float32', [4])}\r\n".encode()
HEAD = b"POST /round HTTP/1.1\r\nHost: x\r\n" + FIELD
LIVE = b"GET /livez HTTP/1.1\r\nHost: x\r\n\r\n"
LENGTH = b"Content-Length: 16\r\n"
CHUNKED = b"Transfer-Encoding: chunked\r\n"
CHUNKS = b"10\r\n" + BODY + b"\r\n0\r\n\r\n"


@pytest.fixture(scope="module", params=[Service, TlsService], ids=["plain", "tls"])
def service(request: pytest.FixtureRequest) -> Iterator[Service]:
    with request.param() as running:
        yield running
    assert not tracebacks(running.log)
    assert not [line for line in running.log if "failure" in line]


def statuses(service: Service, sent: bytes) -> list[int]:
    """The answers to all that is sent, and then a request that asks for the end."""
    sent += LIVE.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n")
    return list(map(int, re.findall(rb"HTTP/1\.1 (\d+) ", response_to(service, sent))))


@pytest.mark.parametrize("target", [b"POST /round", b"GET /livez"])
def test_garbage_within_a_body_is_refused_once(service: Service, target: bytes) -> None:
    """Also where the request is one that can be answered without its body."""
    head = HEAD.replace(b"POST /round", target) + CHUNKED
    assert statuses(service, head + b"\r\n4\r\nabcd\r\nnot a length\r\n") == [400]


def test_trailers_are_ignored(service: Service) -> None:
    head = b"POST /round HTTP/1.1\r\nHost: x\r\nConnection: close\r\n" + CHUNKED
    answer = response_to(service, head + b"\r\n" + CHUNKS[:-2] + FIELD + b"\r\n")
    assert json.loads(answer.partition(b"\r\n\r\n")[2])["code"] == "missing_descriptor"
    assert (
        statuses(service, HEAD + CHUNKED + b"\r\n" + CHUNKS[:-2] + b"X-A: b\r\n\r\n") == [200] * 2
    )


def halves(count: int) -> np.ndarray:
    return (np.arange(count) % 1000 / 2 - 200).astype("<f2")


def short(x: np.ndarray) -> bytes:
    """DirectML rounds lengths up to 4; an odd count of float16 is sent without the last two."""
    layout = {"DataType": "FLOAT16", "Sizes": [x.size]}
    changes = {"desc.InputTensor": layout, "desc.OutputTensor": layout, "desc.RoundingMode": 0}
    descriptor = json.dumps(varied("directml", changes))
    lines = ("POST /round HTTP/1.1", "Host: x", f"Content-Length: {x.nbytes}")
    head = "\r\n".join((*lines, f"Operator-Descriptor: {descriptor}", "", ""))
    return head.encode() + x.tobytes()


#: What is sent in one segment with a short form, and what is behind it in the next.
BEHIND: dict[str, Callable[[int], tuple[bytes, bytes]]] = {
    "request": lambda count: (LIVE, b""),
    "body two bytes shorter": lambda count: (message(tensor(4 * (count // 2))), b""),
    "begun": lambda count: (LIVE[:10], LIVE[10:]),
    "line": lambda count: (b"\r\n", LIVE),
}


@pytest.mark.parametrize("behind", BEHIND.values(), ids=BEHIND)
def test_unrounded_length_of_directml_ends_before_the_bytes_behind_it(
    service: Service, behind: Callable[[int], tuple[bytes, bytes]]
) -> None:
    for count in (1, 3, 33, 1001, 51_201):
        x = halves(count)
        first, second = behind(count)
        with contextlib.closing(service.connect(20)) as plug:
            answers = Answers(plug)
            for _ in range(2):
                plug.sendall(short(x) + first)
                status, _, content = answers.next()
                assert (status, content) == (200, np.rint(x).tobytes() + bytes(2))
                plug.sendall(second)
                assert answers.next()[0] == 200


def test_head_that_waits_behind_other_requests_is_not_late() -> None:
    """The first piece ends within a head, whose rest waits behind the requests before it."""
    count = 150
    requested = b"GET /openapi.json HTTP/1.1\r\nHost: x\r\n\r\n"
    with (
        Service("--receive-timeout", "0.5", "--min-send-rate", "0") as service,
        contextlib.closing(service.connect(timeout=20)) as plug,
    ):
        plug.sendall(requested * (count - 1) + requested[:-2] + b"Connection: close\r\n\r\n")
        time.sleep(1.5)
        with plug.makefile("rb") as file:
            assert file.read().count(b"HTTP/1.1 200 ") == count


@pytest.mark.slow
@pytest.mark.parametrize(
    "requested",
    [
        pytest.param(LIVE, id="framework"),
        pytest.param(HEAD + LENGTH + b"\r\n" + BODY, id="direct"),
        pytest.param(HEAD + CHUNKED + b"\r\n" + CHUNKS, id="chunked"),
    ],
)
def test_requests_sent_all_at_once_take_little_memory(requested: bytes) -> None:
    count = 10_000
    with Service() as service, contextlib.closing(service.connect()) as plug:
        statuses(service, requested * 500)
        before = service.rss()
        sender = threading.Thread(target=plug.sendall, args=(requested * count,))
        sender.start()
        answered, end = 0, b""
        while answered < count:
            came = plug.recv(1 << 16)
            assert came, "the connection ended early"
            answered += (end + came).count(b"HTTP/1.1 200 ")
            end = came[-12:]
        sender.join()
        # What the heap keeps, and a little; made into objects they took 30 MiB.
        assert service.peak_rss() - before < 12 * MIB
