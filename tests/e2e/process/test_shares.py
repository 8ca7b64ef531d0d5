"""What a few callers can take from all others: memory, and time of the threads."""

from __future__ import annotations

import contextlib
import gzip
import json
import re
import socket
import threading
import time
from collections.abc import Iterator

import numpy as np
import pytest

from stress.shares import bytes_in_flight, nested
from support.http.native_form import ieee754, post
from support.services.hosted import HostedService
from support.services.server import Reply, Service
from tensor_round_service.http1.head import MAX_HEAD_BYTES

MIB = 1 << 20
JSON = {"Content-Type": "application/json"}
NORMAL = np.full(MIB, 1.5, "<f4")


@pytest.fixture(scope="module")
def service() -> Iterator[Service]:
    with Service() as running:
        yield running
    assert not [line for line in running.log if "Traceback" in line]


def test_a_small_request_has_no_vast_response(service: Service) -> None:
    """40,000 numbers in 100 bytes, each nested 32 deep in the response."""
    packed = gzip.compress(nested(40_000))
    reply = service.request("POST", "/round", packed, {**JSON, "Content-Encoding": "gzip"})
    assert reply.status == 422
    assert reply.json()["code"] == "invalid_descriptor"
    assert "arrays" in reply.json()["errors"][0]["msg"]
    most = service.request("POST", "/round", nested(33_000), JSON)
    assert most.status == 200
    assert np.shape(most.json()["data"]) == (33_000, *[1] * 31)


def test_the_text_of_a_response_is_in_the_budget() -> None:
    """30,000 numbers take 2 MiB when they are parsed, and the response 8 MiB."""
    with HostedService(4 << 20) as service:
        reply = service.request("POST", "/round", nested(30_000), JSON)
        assert (reply.status, reply.json()["code"]) == (413, "tensor_too_large")
        assert service.settled()
        assert service.request("POST", "/round", nested(1000), JSON).status == 200


def numbers(count: int) -> bytes:
    head = f'{{"descriptor":{ieee754("float32", [count])},"data":['
    return (head + ",".join(["0.5"] * count) + "]}").encode()


def test_work_ends_when_its_caller_hangs_up(service: Service) -> None:
    """Each closes its connection, as a process that ends does; nothing else tells the service."""
    document = numbers(700_000)
    began = service.busy_seconds()
    assert service.request("POST", "/round", document, JSON).status == 200
    served = service.busy_seconds() - began
    head = f"POST /round HTTP/1.1\r\nHost: x\r\nContent-Length: {len(document)}\r\n"
    message = f"{head}Content-Type: application/json\r\n\r\n".encode() + document
    began, count = service.busy_seconds(), 12
    for _ in range(count):
        with contextlib.closing(service.connect()) as sock:
            sock.sendall(message)
    assert at_rest(service)
    assert service.busy_seconds() - began < count / 2 * served


def at_rest(service: Service) -> bool:
    """Whether the budget is whole again, in a minute."""
    for _ in range(600):
        if not bytes_in_flight(service):
            return True
        time.sleep(0.1)
    return False


def test_half_closed_caller_still_gets_its_work_done(service: Service) -> None:
    """It is asked by 100 Continue whether it still reads, however long the work takes."""
    document = numbers(700_000)
    with contextlib.closing(service.connect()) as sock:
        head = f"POST /round HTTP/1.1\r\nHost: x\r\nContent-Length: {len(document)}\r\n"
        sock.sendall(f"{head}Content-Type: application/json\r\n\r\n".encode() + document)
        sock.shutdown(socket.SHUT_WR)
        with sock.makefile("rb") as file:
            received = file.read()
    while received.startswith(b"HTTP/1.1 100 "):
        received = received.partition(b"\r\n\r\n")[2]
    head_, _, body = received.partition(b"\r\n\r\n")
    assert head_.startswith(b"HTTP/1.1 200 ")
    assert json.loads(body)["data"] == [0.0] * 700_000


@contextlib.contextmanager
def compared(service: Service, count: int) -> Iterator[list[Reply]]:
    """So many comparisons of 32 MiB that have begun; the list has the responses to them."""
    x = np.full(8 * MIB, 1.5, "<f4")
    replies: list[Reply] = []

    def compare() -> None:
        fields = {"Operator-Descriptor": ieee754("float32", [x.size])}
        replies.append(service.request("POST", "/compare", x.data.cast("B"), fields))

    callers = [threading.Thread(target=compare) for _ in range(count)]
    for caller in callers:
        caller.start()
    # All are received; the request for the metrics is at work, too.
    while connections(service, "working") < count + 1:
        time.sleep(0.01)
    try:
        yield replies
    finally:
        for caller in callers:
            caller.join()
    assert [reply.status for reply in replies] == [200] * count


def connections(service: Service, state: str) -> int:
    """How many are in this state."""
    text = service.get("/metrics").content.decode()
    found = re.search(rf'^tensor_round_connections{{state="{state}"}} (\d+)', text, re.MULTILINE)
    return int(found[1]) if found else 0


def test_rounding_does_not_wait_for_comparisons(service: Service) -> None:
    with compared(service, 4) as replies:
        assert post(service, ieee754("float32", [NORMAL.size]), NORMAL.tobytes()).status == 200
        assert not replies


def test_a_short_document_does_not_wait_for_long_work(service: Service) -> None:
    with compared(service, 4) as replies:
        assert service.request("POST", "/round", numbers(5000), JSON).status == 200
        assert not replies


def test_a_control_request_takes_little_before_its_body_comes() -> None:
    head = b"POST /v2/repository/index HTTP/1.1\r\nHost: x\r\nContent-Length: 60000\r\n\r\n{"
    count = 300
    with Service() as service, contextlib.ExitStack() as stack:
        before = service.rss()
        for _ in range(count):
            stack.enter_context(contextlib.closing(service.connect())).sendall(head)
        while bytes_in_flight(service) < count * 4096:
            time.sleep(0.05)
        assert (service.rss() - before) / count < 128 << 10


def test_a_head_that_does_not_end_takes_its_length_at_most() -> None:
    """What docs/security.md says of memory outside the budget: 96 KiB a connection."""
    head = b"GET / HTTP/1.1\r\nHost: x\r\nX-Long: "
    head += b"x" * (MAX_HEAD_BYTES - len(head))
    count = 300
    with Service("--receive-timeout", "60") as service, contextlib.ExitStack() as stack:
        before = service.rss()
        for _ in range(count):
            sock = stack.enter_context(contextlib.closing(service.connect()))
            for start in range(0, len(head), 8 << 10):
                sock.sendall(head[start : start + (8 << 10)])
        while connections(service, "head") < count:
            time.sleep(0.05)
        assert (service.rss() - before) / count < 96 << 10
        sock.sendall(b"x")
        assert sock.recv(1 << 10).startswith(b"HTTP/1.1 431 ")


def test_body_of_a_control_request_counts_in_the_budget() -> None:
    with HostedService() as service, contextlib.ExitStack() as stack:
        sock = stack.enter_context(contextlib.closing(socket.socket()))
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        sock.connect(("127.0.0.1", service.port))
        sock.settimeout(0.2)
        # Until the service reads no more of them, as nobody reads its answers.
        with contextlib.suppress(TimeoutError):
            while True:
                sock.sendall(b"GET /conformance HTTP/1.1\r\nHost: x\r\n\r\n" * 100)
        deadline = time.monotonic() + 20
        while service.engine.memory.in_use <= 4096:
            assert time.monotonic() < deadline
            time.sleep(0.05)
        stack.close()
        assert service.settled()


def test_health_is_answered_when_the_budget_is_used_up() -> None:
    with HostedService(1 << 20) as service:
        memory = service.engine.memory
        memory.reserve(memory.limit_bytes, of=0)
        try:
            assert service.get("/livez").status == 200
            assert service.get("/readyz").status == 200
            refused = service.get("/conformance")
            assert refused.status == 503
            assert refused.json()["code"] == "overloaded"
        finally:
            memory.release(memory.limit_bytes, ())
        assert service.get("/conformance").status == 200
