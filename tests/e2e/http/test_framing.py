"""Where a request ends and the next begins: what others could read otherwise is refused or fixed.

And what waits of them: many requests at once, trailers and extensions without end, are bytes that
the service does not take, not memory.
"""

from __future__ import annotations

import contextlib
import json
import re
import threading
import time
from collections.abc import Iterator

import numpy as np
import pytest

from support.http.native_form import ieee754, response_to
from support.services.server import Service

MIB = 1 << 20
X = np.array([0.5, 1.5, -2.5, 3.5], "<f4")
BODY, ROUNDED = X.tobytes(), np.rint(X).tobytes()
FIELD = f"Operator-Descriptor: {ieee754('float32', [4])}\r\n".encode()
HEAD = b"POST /round HTTP/1.1\r\nHost: x\r\n" + FIELD
LIVE = b"GET /livez HTTP/1.1\r\nHost: x\r\n\r\n"
LENGTH = b"Content-Length: 16\r\n"
CHUNKED = b"Transfer-Encoding: chunked\r\n"
CHUNKS = b"10\r\n" + BODY + b"\r\n0\r\n\r\n"


@pytest.fixture(scope="module")
def service() -> Iterator[Service]:
    with Service() as running:
        yield running


def statuses(service: Service, sent: bytes, pieces: int = 1) -> list[int]:
    """The answers to all that is sent, and then a request that asks for the end."""
    sent += LIVE.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n")
    size = -(-len(sent) // pieces)
    parts = (sent[begin : begin + size] for begin in range(0, len(sent), size))
    return list(map(int, re.findall(rb"HTTP/1\.1 (\d+) ", response_to(service, *parts))))


AMBIGUOUS = [
    ("two-lengths", LENGTH * 2, BODY),
    ("a-list-of-lengths", b"Content-Length: 16, 16\r\n", BODY),
    ("a-signed-length", b"Content-Length: +16\r\n", BODY),
    ("space-before-the-colon", b"Content-Length : 16\r\n", BODY),
    ("length-and-chunked", LENGTH + CHUNKED, CHUNKS),
    ("chunked-and-length", CHUNKED + LENGTH, CHUNKS),
    ("chunked-twice", CHUNKED * 2, CHUNKS),
    ("unknown-coding", b"Transfer-Encoding: xchunked\r\n", CHUNKS),
    ("chunked-not-last", b"Transfer-Encoding: chunked, identity\r\n", CHUNKS),
    ("another-coding-below", b"Transfer-Encoding: gzip, chunked\r\n", CHUNKS),
    ("a-folded-field", b"X-A: b\r\n c\r\n" + LENGTH, BODY),
    ("a-folded-length", b"Content-Length:\r\n 16\r\n", BODY),
    ("a-bare-cr", b"X-A: b\rContent-Length: 4\r\n" + LENGTH, BODY),
    ("a-nul", b"X-A: b\0\r\n" + LENGTH, BODY),
    ("a-chunk-that-ends-in-lf", CHUNKED, CHUNKS.replace(b"\r\n", b"\n")),
    ("a-chunk-too-long", CHUNKED, b"1" + b"0" * 16 + b"\r\n" + BODY),
    ("a-chunk-without-end", CHUNKED, CHUNKS.replace(b"\r\n0", b"XX0")),
]


@pytest.mark.parametrize("pieces", [1, 7])
@pytest.mark.parametrize(
    ("fields", "body"), [case[1:] for case in AMBIGUOUS], ids=[case[0] for case in AMBIGUOUS]
)
def test_ambiguous_framing_is_refused_and_closes_the_connection(
    service: Service, fields: bytes, body: bytes, pieces: int
) -> None:
    (status,) = statuses(service, HEAD + fields + b"\r\n" + body, pieces)
    assert status in (400, 415)


def test_sender_of_bytes_that_are_not_http_reads_the_refusal(service: Service) -> None:
    for begin in (b"no HTTP\r\n\r\n", HEAD + CHUNKED + b"\r\n4\r\nno chunk"):
        answer = response_to(service, begin, *[bytes(200 << 10)] * 20)
        assert answer.startswith(b"HTTP/1.1 400 ")
        assert answer.count(b"HTTP/1.1") == 1


@pytest.mark.parametrize("garbage", [b"\0\0\0\r\n\r\n", b"GET / HTTP/9.9\r\n\r\n"])
@pytest.mark.parametrize(
    ("whole", "content"),
    [(LIVE, b'{"status":"alive"}'), (HEAD + LENGTH + b"\r\n" + BODY, ROUNDED)],
    ids=["framework", "direct"],
)
def test_request_before_garbage_gets_its_response(
    service: Service, whole: bytes, content: bytes, garbage: bytes
) -> None:
    answers = response_to(service, whole + garbage)
    assert answers.startswith(b"HTTP/1.1 200 OK")
    assert content in answers


@pytest.mark.parametrize("target", [b"POST /round", b"GET /livez"])
def test_garbage_within_a_body_is_refused_once(service: Service, target: bytes) -> None:
    """Also where the request is one that can be answered without its body."""
    head = HEAD.replace(b"POST /round", target) + CHUNKED
    assert statuses(service, head + b"\r\n4\r\nabcd\r\nnot a length\r\n") == [400]


UPGRADE = b"Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABk\r\n"


@pytest.mark.parametrize("pieces", [1, 2, 50])
@pytest.mark.parametrize(
    ("framing", "form"), [(LENGTH, BODY), (CHUNKED, CHUNKS)], ids=["length", "chunked"]
)
def test_upgrade_request_is_served_in_http_1_1(
    service: Service, framing: bytes, form: bytes, pieces: int
) -> None:
    """As Java's HttpClient asks by default, and curl --http2."""
    assert statuses(service, (HEAD + UPGRADE + framing + b"\r\n" + form) * 2, pieces) == [200] * 3


@pytest.mark.parametrize("size", [100, 64 << 10, MIB])
def test_body_of_an_upgrade_hides_no_request(service: Service, size: int) -> None:
    body = (LIVE + bytes(size))[:size]
    with contextlib.closing(service.connection()) as connection:
        for _ in range(2):
            fields = {"Connection": "upgrade", "Upgrade": "websocket"}
            fields["Operator-Descriptor"] = ieee754("uint8", [size])
            connection.request("POST", "/round", body, fields)
            answer = connection.getresponse()
            assert (answer.status, answer.read()) == (200, body)


def test_bytes_behind_connect_are_not_read(service: Service) -> None:
    assert len(statuses(service, b"CONNECT /livez HTTP/1.1\r\nHost: x\r\n\r\n" + LIVE)) == 1


def test_trailers_are_ignored(service: Service) -> None:
    head = b"POST /round HTTP/1.1\r\nHost: x\r\nConnection: close\r\n" + CHUNKED
    answer = response_to(service, head + b"\r\n" + CHUNKS[:-2] + FIELD + b"\r\n")
    assert json.loads(answer.partition(b"\r\n\r\n")[2])["code"] == "missing_descriptor"
    assert (
        statuses(service, HEAD + CHUNKED + b"\r\n" + CHUNKS[:-2] + b"X-A: b\r\n\r\n") == [200] * 2
    )


@pytest.mark.parametrize(
    ("begin", "more"),
    [
        pytest.param(b"\r\n", b"X-A: b\r\n", id="trailers"),
        pytest.param(b"\r\n", b"a" * 8, id="one-trailer"),
        pytest.param(b";", b"a" * 8, id="extension"),
    ],
)
def test_body_framing_is_limited(service: Service, begin: bytes, more: bytes) -> None:
    sent = (HEAD + CHUNKED + b"\r\n" + CHUNKS[:-4] + begin, more * (5 << 10))
    assert response_to(service, *sent).startswith(b"HTTP/1.1 431 ")


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
