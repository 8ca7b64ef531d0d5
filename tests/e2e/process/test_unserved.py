"""What never gets a tensor back has its count, and its line in the access log: refused, or gone."""

from __future__ import annotations

import json
import socket
import struct
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from prometheus_client.parser import text_string_to_metric_families

from support.http.native_form import ieee754
from support.services.server import Service

ROUND = f"POST /round HTTP/1.1\r\nHost: x\r\nOperator-Descriptor: {ieee754('float32', [25])}\r\n"
LARGE = np.zeros(16 << 20, "<f4")
SECONDS = 1.0


def finished(plug: socket.socket) -> None:
    """Read to the end."""
    while plug.recv(1 << 16):
        pass


def left(plug: socket.socket) -> None:
    """Leave, once the service has what was sent."""
    time.sleep(0.3)


def reset(plug: socket.socket) -> None:
    """Leave within the response, which waits."""
    time.sleep(0.5)
    plug.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))


@dataclass(frozen=True)
class Unserved:
    """What is sent, how the caller goes on, and what is to be counted and logged."""

    sent: bytes
    status: int
    code: str
    route: str
    received: int
    end: Callable[[socket.socket], None] = finished
    method: str | None = "POST"
    path: str = "/round"


CASES = {
    "malformed head": Unserved(
        b"GET /odd HTTP/1.1\r\nno field\r\n\r\n", 400, "malformed_http", "other",
        received=31, method=None, path="/odd",
    ),
    "no HTTP": Unserved(
        b"\x16\x03\x01\x02\x00\x9b", 400, "malformed_http", "other",
        received=6, method=None, path="",
    ),
    "length and chunks": Unserved(
        f"{ROUND}Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n".encode(),
        400, "malformed_http", "/round", received=0, method=None,
    ),
    "malformed chunk": Unserved(
        f"{ROUND}Transfer-Encoding: chunked\r\n\r\nzz\r\n".encode(), 400, "malformed_http",
        "/round", received=4,
    ),
    "slow head": Unserved(
        b"GET /slow HTTP/1.1\r\n", 408, "receive_timeout", "other",
        received=20, method=None, path="/slow",
    ),
    "large head": Unserved(
        b"GET /large HTTP/1.1\r\nX: " + b"x" * 40000, 431, "headers_too_large", "other",
        received=0, method=None, path="/large",
    ),
    "slow body": Unserved(
        f"{ROUND}Content-Length: 100\r\n\r\n".encode() + bytes(50), 408, "receive_timeout",
        "/round", received=50,
    ),
    "gone in the head": Unserved(
        b"GET /gone HTTP/1.1\r\nHost", 499, "client_disconnected", "other",
        received=24, end=left, method=None, path="/gone",
    ),
    "gone in the body": Unserved(
        f"{ROUND}Content-Length: 100\r\n\r\n".encode() + bytes(50), 499, "client_disconnected",
        "/round", received=50, end=left,
    ),
    "gone in a chunk": Unserved(
        f"{ROUND}Transfer-Encoding: chunked\r\n\r\n64\r\n".encode() + bytes(50), 499,
        "client_disconnected", "/round", received=54, end=left,
    ),
    "gone in a control request": Unserved(
        b"POST /v2/repository/index HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\n{", 499,
        "client_disconnected", "/v2", received=1, end=left, path="/v2/repository/index",
    ),
    "gone in the response": Unserved(
        ROUND.replace("[25]", f"[{LARGE.size}]").encode()
        + f"Content-Length: {LARGE.nbytes}\r\n\r\n".encode() + LARGE.tobytes(),
        499, "client_disconnected", "/round", received=LARGE.nbytes, end=reset,
    ),
}  # fmt: skip


@pytest.fixture(scope="module")
def service() -> Iterator[Service]:
    options = ("--access-log", "true", "--log-format", "json")
    with Service(*options, "--receive-timeout", str(SECONDS)) as running:
        yield running


def counted(service: Service, case: Unserved) -> float:
    labels = {"route": case.route, "status": str(case.status), "code": case.code}
    families = text_string_to_metric_families(service.get("/metrics").content.decode())
    return sum(
        sample.value
        for family in families
        for sample in family.samples
        if sample.name == "tensor_round_requests_total" and labels.items() <= sample.labels.items()
    )


def entries(service: Service) -> list[dict[str, Any]]:
    found = [json.loads(line) for line in service.log]
    return [entry for entry in found if entry["event"] == "request"]


def unserved(service: Service, skipped: int) -> list[dict[str, Any]]:
    return [entry for entry in entries(service)[skipped:] if entry["status"] >= 400]


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_each_is_counted_once_and_has_its_line(service: Service, case: Unserved) -> None:
    before, skipped = counted(service, case), len(entries(service))
    with service.connect() as plug:
        plug.sendall(case.sent)
        case.end(plug)
    deadline = time.monotonic() + 30
    while counted(service, case) == before or not unserved(service, skipped):
        assert time.monotonic() < deadline, service.log
        time.sleep(0.02)
    assert counted(service, case) == before + 1
    (entry,) = unserved(service, skipped)
    assert (entry["status"], entry["code"], entry["path"]) == (case.status, case.code, case.path)
    assert entry.get("method") == case.method
    assert entry["client"] == "127.0.0.1"
    if case.received:
        assert entry["received_bytes"] == case.received
    assert (entry["sent_bytes"] > 0) == (case.status != 499)
    assert 0 <= entry["duration_ms"] < 120_000
    if case.status == 408:
        assert entry["duration_ms"] >= 0.9 * SECONDS * 1e3


def test_a_refused_end_of_a_body_is_no_success(service: Service) -> None:
    """The tensor is whole, but not the chunks: there was one response."""
    body = b"64\r\n" + bytes(100) + b"\r\nzz\r\n"
    case = Unserved(b"", 400, "malformed_http", "/round", 0)
    served = Unserved(b"", 200, "", "/round", 0)
    before = counted(service, served), counted(service, case)
    with service.connect() as plug:
        plug.sendall(f"{ROUND}Transfer-Encoding: chunked\r\n\r\n".encode() + body)
        assert plug.recv(1 << 16).startswith(b"HTTP/1.1 400 ")
    assert (counted(service, served), counted(service, case)) == (before[0], before[1] + 1)


def test_a_connection_without_a_byte_is_no_request(service: Service) -> None:
    """As balancers make them, to see whether a port is open."""
    skipped = len(entries(service))
    with service.connect():
        time.sleep(0.1)
    service.get("/livez")
    assert not unserved(service, skipped)


def test_control_characters_of_callers_are_escaped_in_text() -> None:
    with Service("--access-log", "true") as running:
        with running.connect() as plug:
            plug.sendall(b"GET /%9b%1b[31m%0a%20status=200\xc2\x85 HTTP/1.1\r\nHost: x\r\n\r\n")
            assert plug.recv(1 << 16).startswith(b"HTTP/1.1 40")
        deadline = time.monotonic() + 30
        while not (found := [line for line in running.log if "31m" in line]):
            assert time.monotonic() < deadline
            time.sleep(0.02)
    (line,) = found
    assert line.rstrip("\n").isprintable()
    assert line.isascii()
    assert " status=200" not in line
