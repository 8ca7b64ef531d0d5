"""What the log says, in text or JSON: a line a request, served or not; and nobody need read it."""

from __future__ import annotations

import contextlib
import json
import os
import re
import socket
import struct
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from support.http.grpc_client import connected
from support.http.native_form import ieee754, post
from support.services.fronts import UnixService
from support.services.server import Reply, Service, until

X = np.array([0.5, 1.5], "<f4")
SECRET = "0123456789-a-secret-of-the-tests"
TRACE = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"


def requested(service: Service) -> None:
    """One request that is served, and one that is refused."""
    fields = {"X_Request_ID": "the-id", "X_API_Key": SECRET, "traceparent": TRACE}
    assert post(service, ieee754("float32", [2]), X.tobytes(), **fields).status == 200
    assert service.request("POST", "/round?a=1", b"", {}).status == 422


def lines_about(service: Service, text: str, count: int) -> list[str]:
    until(lambda: sum(text in line for line in service.log) >= count)
    return [line for line in service.log if text in line]


@pytest.mark.parametrize("level", ["info", "debug"])
def test_each_request_has_a_line_of_text(level: str) -> None:
    """Control characters of callers are escaped."""
    with Service("--access-log", "true", "--log-level", level) as service:
        requested(service)
        served, refused = lines_about(service, " POST /round ", 2)
        with service.connect() as plug:
            plug.sendall(b"GET /%9b%1b[31m%0a%20status=200\xc2\x85 HTTP/1.1\r\nHost: x\r\n\r\n")
            assert plug.recv(1 << 16).startswith(b"HTTP/1.1 40")
        (odd,) = lines_about(service, "31m", 1)
    assert served.startswith("INFO:     POST /round status=200 received_bytes=8 sent_bytes=8 ")
    assert f"request_id=the-id traceparent={TRACE}" in served
    assert " status=422 code=invalid_descriptor " in refused
    assert not any(SECRET in line or "a=1" in line for line in service.log)
    assert odd.rstrip("\n").isprintable()
    assert odd.isascii()
    assert " status=200" not in odd


def test_each_request_has_a_line_of_json(service: Service) -> None:
    requested(service)
    (line, _) = lines_about(service, '"path": "/round"', 2)
    entry: dict[str, Any] = json.loads(line)
    expected = {
        "level": "info",
        "method": "POST",
        "path": "/round",
        "status": 200,
        "received_bytes": 8,
        "sent_bytes": 8,
        "request_id": "the-id",
        "traceparent": TRACE,
    }
    assert expected.items() <= entry.items()
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT[\d:.]+Z", entry["timestamp"])
    for each in service.log:
        assert "event" in json.loads(each), each
    assert not any(SECRET in each for each in service.log)


def test_without_access_log_no_request_has_a_line_but_refusals_name_the_trace() -> None:
    with Service() as service:
        requested(service)
        for trace in (TRACE, TRACE.upper()):
            problem = service.request("POST", "/round", b"", {"traceparent": trace}).json()
            assert problem.get("traceparent") == (trace if trace == TRACE else None)
    assert not any("/round" in line for line in service.log)


def test_probes_and_scrapes_that_succeed_have_no_line_if_a_setting_says_so() -> None:
    """Refused ones have one, and so have all others."""
    options = ("--access-log", "true", "--access-log-probes", "false")
    with Service(*options) as service:
        for path in ("/livez", "/readyz/", "/v2/health/ready", "/metrics", "/operators"):
            assert service.get(path).status == 200
        assert service.request("POST", "/livez", b"").status == 405
        with connected(service) as client:
            for method in ("ServerReady", "ServerMetadata", "/grpc.health.v1.Health/Check"):
                assert client.call(method, b"").status == 0
        service.get("/last")
        lines_about(service, " /last ", 1)
    lines = "".join(service.log)
    assert re.findall(r"INFO: +(\w+ /\S+) status=(\d+)", lines) == [
        ("GET /operators", "200"),
        ("POST /livez", "405"),
        ("POST /inference.GRPCInferenceService/ServerMetadata", "200"),
        ("GET /last", "404"),
    ]


def test_user_agent_is_in_quotes_and_has_a_bound() -> None:
    odd = 'of "mine" \\ (x=1) status=200 \t\x9b31m'
    with Service("--access-log", "true") as service:
        for agent in (odd, "x" * 30_000, ""):
            service.request("GET", "/agent", None, {"User-Agent": agent})
        first, second, third = lines_about(service, " /agent ", 3)
    quoted = re.findall(r' user_agent=("(?:[^"\\]|\\.)*") ', first)
    assert [json.loads(each) for each in quoted] == [odd.replace("\x9b", "\ufffd")]
    assert first.rstrip("\n").isprintable()
    assert first.isascii()
    assert f'user_agent="{"x" * 256}" ' in second
    assert "user_agent" not in third


@pytest.mark.parametrize("trusted", ["unix:", "*", "127.0.0.1"])
def test_proxy_on_a_unix_socket_is_trusted_if_a_word_says_so(trusted: str) -> None:
    options = ("--access-log", "true", "--forwarded-allow-ips", trusted)
    with UnixService(*options) as service:
        fields = {"X-Forwarded-For": "203.0.113.7"}
        assert service.request("GET", "/operators", None, fields).status == 200
        (line,) = lines_about(service, " /operators ", 1)
    assert (" client=203.0.113.7 " in line) == (trusted != "127.0.0.1")


ROUND = f"POST /round HTTP/1.1\r\nHost: x\r\nOperator-Descriptor: {ieee754('float32', [25])}\r\n"
LENGTH = f"{ROUND}Content-Length: 100\r\n\r\n".encode()
CHUNKED = f"{ROUND}Transfer-Encoding: chunked\r\n\r\n".encode()
LARGE = np.zeros(16 << 20, "<f4")
FILE = "/docs/swagger-ui-bundle.js"
SECONDS = 0.5


def finished(plug: socket.socket) -> None:
    """Read to the end."""
    while plug.recv(1 << 16):
        pass


def left(plug: socket.socket) -> None:
    """Leave, once the service has what was sent."""
    time.sleep(0.2)


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


GONE = (499, "client_disconnected")
UNSERVED = {
    "malformed head": Unserved(
        b"GET /odd HTTP/1.1\r\nno field\r\n\r\n", 400, "malformed_http", "other",
        received=31, method=None, path="/odd",
    ),
    "malformed chunk": Unserved(CHUNKED + b"zz\r\n", 400, "malformed_http", "/round", received=4),
    "slow head": Unserved(
        b"GET /slow HTTP/1.1\r\n", 408, "receive_timeout", "other",
        received=20, method=None, path="/slow",
    ),
    "large head": Unserved(
        b"GET /large HTTP/1.1\r\nX: " + b"x" * 40000, 431, "headers_too_large", "other",
        received=0, method=None, path="/large",
    ),
    "slow body": Unserved(LENGTH + bytes(50), 408, "receive_timeout", "/round", received=50),
    "gone in the head": Unserved(
        b"GET /gone HTTP/1.1\r\nHost", *GONE, "other", received=24, end=left, method=None,
        path="/gone",
    ),
    "gone in the body": Unserved(LENGTH + bytes(50), *GONE, "/round", received=50, end=left),
    "gone in a control request": Unserved(
        b"POST /v2/repository/index HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\n{", *GONE,
        "/v2", received=1, end=left, path="/v2/repository/index",
    ),
    "malformed chunk for a page": Unserved(
        b"GET /livez HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
        400, "malformed_http", "/livez", received=4, method="GET", path="/livez"),
    "gone in a page": Unserved(
        f"GET {FILE} HTTP/1.1\r\nHost: x\r\n\r\n".encode() * 16, *GONE, FILE,
        received=0, end=reset, method="GET", path=FILE),
    "gone in the response": Unserved(
        ROUND.replace("[25]", f"[{LARGE.size}]").encode()
        + f"Content-Length: {LARGE.nbytes}\r\n\r\n".encode() + LARGE.tobytes(),
        *GONE, "/round", received=LARGE.nbytes, end=reset,
    ),
}  # fmt: skip


@pytest.fixture(scope="module")
def service() -> Iterator[Service]:
    options = ("--access-log", "true", "--log-format", "json")
    with Service(*options, "--receive-timeout", str(SECONDS)) as running:
        yield running


def counted(service: Service, route: str, status: int, code: str) -> float:
    return service.metric("requests_total", route=route, status=str(status), code=code)


def entries(service: Service) -> list[dict[str, Any]]:
    found = [json.loads(line) for line in service.log]
    return [entry for entry in found if entry["event"] == "request"]


def unserved(service: Service, skipped: int) -> list[dict[str, Any]]:
    return [entry for entry in entries(service)[skipped:] if entry["status"] >= 400]


@pytest.mark.parametrize("case", UNSERVED.values(), ids=UNSERVED)
def test_unserved_request_is_counted_once_and_has_its_line(
    service: Service, case: Unserved
) -> None:
    kind = (case.route, case.status, case.code)
    before, skipped = counted(service, *kind), len(entries(service))
    total = service.metric("requests_total", route=case.route)
    with service.connect() as plug:
        plug.sendall(case.sent)
        case.end(plug)
    until(lambda: counted(service, *kind) > before and unserved(service, skipped))
    assert counted(service, *kind) == before + 1
    lines = [entry for entry in entries(service)[skipped:] if entry["path"] == case.path]
    assert service.metric("requests_total", route=case.route) - total == len(lines)
    (entry,) = unserved(service, skipped)
    assert (entry["status"], entry["code"], entry["path"]) == (case.status, case.code, case.path)
    assert entry.get("method") == case.method
    assert entry["client"] == "127.0.0.1"
    if case.received or case.method == "GET":
        assert entry["received_bytes"] == case.received
    assert (entry["sent_bytes"] > 0) == (case.status != 499)
    assert 0 <= entry["duration_ms"] < 120_000
    if case.status == 408:
        assert entry["duration_ms"] >= 0.9 * SECONDS * 1e3


def test_refused_end_of_a_body_does_not_count_as_success(service: Service) -> None:
    """The tensor is whole, but not the chunks: there was one response."""
    kinds = [("/round", 200, ""), ("/round", 400, "malformed_http")]
    before = [counted(service, *kind) for kind in kinds]
    with service.connect() as plug:
        plug.sendall(CHUNKED + b"64\r\n" + bytes(100) + b"\r\nzz\r\n")
        assert plug.recv(1 << 16).startswith(b"HTTP/1.1 400 ")
    assert [counted(service, *kind) for kind in kinds] == [before[0], before[1] + 1]


#: Each makes a line of 8 KiB, so that a few hundred fill the pipe and all that may wait.
LONG = "/" + "x" * 8000
REQUESTS = 600
FORMATS = pytest.mark.parametrize("log_format", ["console", "json"])


class UnreadService(Service):
    """A service on a Unix socket, whose log goes to a file that this process need not read."""

    def __init__(self, folder: Path, errors: int, *options: str) -> None:
        socket = str(folder / "http.sock")
        super().__init__("--uds", socket, "--access-log", "true", *options)
        self.uds = socket
        self._errors = errors

    def __enter__(self) -> UnreadService:
        launch = type(self).launch
        self.process = launch(self.module, self._options(), self._whole_environment(), self._errors)
        self._wait_until_ready()
        return self


@contextlib.contextmanager
def pipe() -> Iterator[tuple[int, int]]:
    """The ends of a pipe."""
    ends = os.pipe()
    try:
        yield ends
    finally:
        for end in ends:
            os.close(end)


def ask(service: Service, count: int = REQUESTS) -> None:
    for _ in range(0, count, 50):
        with contextlib.closing(service.connection()) as connection:
            for _ in range(50):
                connection.request("GET", LONG)
                assert Reply.read(connection).status == 404


def dropped(service: Service) -> int:
    return int(service.metric("log_lines_dropped_total"))


def read_lines(read: int, last: str) -> list[str]:
    """The lines of a pipe up to one that contains that text."""
    content = b""
    while last.encode() not in content or not content.endswith(b"\n"):
        content += os.read(read, 1 << 16)
    return content.decode().splitlines()


@pytest.mark.slow
@pytest.mark.parametrize(("workers", "log_format"), [("1", "json"), ("2", "console")])
def test_stalled_reader_of_the_log_stops_nothing(
    workers: str, log_format: str, tmp_path: Path
) -> None:
    """SIGTERM ends the service, with its exit code, though nobody has read what it wrote."""
    options = ("--workers", workers, "--log-format", log_format)
    with pipe() as (_, write), UnreadService(tmp_path, write, *options) as service:
        ask(service)
        assert service.get("/livez").status == 200
        until(lambda: dropped(service) > 0)


@pytest.mark.slow
@FORMATS
def test_reader_of_the_log_that_goes_on_reads_how_many_lines_were_dropped(
    log_format: str, tmp_path: Path
) -> None:
    with (
        pipe() as (read, write),
        UnreadService(tmp_path, write, "--log-format", log_format) as service,
    ):
        ask(service)
        lost = dropped(service)
        assert 0 < lost < REQUESTS
        lines = read_lines(read, "lines of the log")
        service.get("/after")
        lines += read_lines(read, "/after")
        # The first scrape has a line itself, for which there may have been no room.
        assert lost <= dropped(service) <= lost + 1
        lost = dropped(service)
    notices = [line for line in lines if "lines of the log" in line]
    assert sum(int(re.findall(r"(\d+) lines of the log", line)[0]) for line in notices) == lost
    assert "WARNING:" in notices[0] or '"level": "warning"' in notices[0]
    # The probes have lines, too.
    assert REQUESTS - lost - 5 <= sum(LONG in line for line in lines) <= REQUESTS - lost + 5


@pytest.mark.parametrize("kind", ["full", "gone"])
def test_full_disk_or_closed_pipe_of_the_log_stops_nothing(kind: str, tmp_path: Path) -> None:
    """What cannot be written is counted as dropped."""
    with contextlib.ExitStack() as stack:
        if kind == "full":
            errors = stack.enter_context(open("/dev/full", "wb")).fileno()
        else:
            read, errors = os.pipe()
            os.close(read)
            stack.callback(os.close, errors)
        service = stack.enter_context(UnreadService(tmp_path, errors))
        ask(service, 100)
        until(lambda: dropped(service) >= 100)
