"""Memory and time of the threads that a few callers can take: bounded, and given back.

Also by clients that do not read their responses: how long they may take, and what of the service.
"""

from __future__ import annotations

import contextlib
import gzip
import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from support.http.native_form import ieee754, message, post, tensor
from support.services.hosted import HostedService
from support.services.server import Reply, Service, tracebacks, until
from support.services.tls import TlsService
from tensor_round_service.net.http1.head import MAX_HEAD_BYTES

MIB = 1 << 20
JSON = {"Content-Type": "application/json"}
NORMAL = tensor(4 * MIB)


@pytest.fixture(scope="module")
def service() -> Iterator[Service]:
    with Service() as running:
        yield running
    assert not tracebacks(running.log)


@pytest.fixture
def hosted() -> Iterator[HostedService]:
    with HostedService() as running:
        yield running


def nested(count: int) -> bytes:
    """A request whose numbers are one flat array, and whose response nests each 32 deep."""
    descriptor = ieee754("int8", [count] + [1] * 31)
    return f'{{"descriptor":{descriptor},"data":[{",".join("1" * count)}]}}'.encode()


@pytest.mark.slow
def test_stalled_bodies_free_their_memory_when_they_are_refused() -> None:
    """At once, not whenever the garbage collector comes by."""
    x = tensor(8 * MIB)
    with Service("--receive-timeout", "1") as service, contextlib.ExitStack() as stack:
        assert post(service, ieee754("float32", [x.size]), x.tobytes()).status == 200
        before = service.rss()
        plugs = [stack.enter_context(contextlib.closing(service.connect())) for _ in range(6)]
        for plug in plugs:
            plug.sendall(message(x)[:-1000])
        assert all(plug.recv(12) == b"HTTP/1.1 408" for plug in plugs)
        until(lambda: service.rss() - before <= 8 * MIB, 20)


@pytest.mark.usefixtures("each_started")
@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="page faults are in /proc")
def test_request_like_the_last_costs_no_page_faults() -> None:
    """Memory that a request used is there for the next: no page is faulted in anew."""
    payload, descriptor = bytes(MIB), ieee754("float32", [MIB // 4])
    costs = []
    with Service() as service, contextlib.closing(service.connect()):
        for _ in range(60):
            before = page_faults(service)
            assert post(service, descriptor, payload).content == payload
            costs.append(page_faults(service) - before)
    # Fresh memory costs one a page: 256 for this body. What a young process still does by
    # itself costs some too, in a request or two.
    assert sorted(costs[10:])[40] < 20, costs


def page_faults(service: Service) -> int:
    fields = Path(f"/proc/{service.pid}/stat").read_text().rpartition(")")[2].split()
    return int(fields[7])


@pytest.mark.slow
def test_large_tensor_is_held_once() -> None:
    payload = np.full(32 * MIB, 1.5, "<f4")
    with Service() as service:
        assert post(service, ieee754("float32", [3]), bytes(12)).status == 200
        before = service.rss()
        reply = post(service, ieee754("float32", [payload.size]), payload.data.cast("B"))
        assert (np.frombuffer(reply.content, "<f4") == 2).all()
        assert service.peak_rss() - before <= 1.15 * payload.nbytes


def test_small_request_has_no_vast_response(service: Service) -> None:
    """40,000 numbers in 100 bytes, each nested 32 deep in the response."""
    packed = gzip.compress(nested(40_000))
    reply = service.request("POST", "/round", packed, {**JSON, "Content-Encoding": "gzip"})
    assert (reply.status, reply.json()["code"]) == (422, "invalid_descriptor")
    assert "arrays" in reply.json()["errors"][0]["msg"]
    most = service.request("POST", "/round", nested(33_000), JSON)
    assert np.shape(most.json()["data"]) == (33_000, *[1] * 31)


def test_small_requests_hold_little_of_the_budget(service: Service) -> None:
    """With a stride of 0: 26 of them, whose responses are not read, held 26 GiB."""
    vast, largest = (ieee754("float32", [count], strides=[0]) for count in (1 << 28, 4 << 20))
    reply = post(service, vast, bytes(4))
    assert (reply.status, reply.json()["code"]) == (413, "tensor_too_large")
    assert reply.json()["limit_bytes"] == 16 * MIB
    head = message(np.zeros(1, "<f4")).partition(b"Operator-Descriptor")[0]
    sent = head + f"Operator-Descriptor: {largest}\r\n\r\n".encode() + bytes(4)
    with contextlib.ExitStack() as stack:
        for _ in range(26):
            stack.enter_context(service.connect()).sendall(sent)
        until(lambda: service.metric("bytes_in_flight") > 25 * 16 * MIB)
        assert service.metric("bytes_in_flight") < 27 * 16 * MIB
    until(lambda: not service.metric("bytes_in_flight"))


def test_text_of_a_response_counts_in_the_budget() -> None:
    """30,000 numbers take 2 MiB when they are parsed, and the response 8 MiB."""
    with HostedService(4 * MIB) as service:
        reply = service.request("POST", "/round", nested(30_000), JSON)
        assert (reply.status, reply.json()["code"]) == (413, "tensor_too_large")
        assert service.settled()
        assert service.request("POST", "/round", nested(1000), JSON).status == 200


def numbers(count: int) -> bytes:
    head = f'{{"descriptor":{ieee754("float32", [count])},"data":['
    return (head + ",".join(["0.5"] * count) + "]}").encode()


def request_of(document: bytes) -> bytes:
    head = f"POST /round HTTP/1.1\r\nHost: x\r\nContent-Length: {len(document)}\r\n"
    return f"{head}Content-Type: application/json\r\n\r\n".encode() + document


def test_work_ends_when_its_caller_hangs_up(service: Service) -> None:
    """Each closes its connection, as a process that ends does; nothing else tells the service."""
    document = numbers(700_000)
    began = service.busy_seconds()
    assert service.request("POST", "/round", document, JSON).status == 200
    served = service.busy_seconds() - began
    began, count = service.busy_seconds(), 12
    for _ in range(count):
        with contextlib.closing(service.connect()) as sock:
            sock.sendall(request_of(document))
    until(lambda: not service.metric("bytes_in_flight"))
    assert service.busy_seconds() - began < count / 2 * served


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
    until(lambda: service.metric("connections", state="working") == count + 1)
    try:
        yield replies
    finally:
        for caller in callers:
            caller.join()
    assert [reply.status for reply in replies] == [200] * count


def test_rounding_and_short_documents_do_not_wait_for_comparisons(service: Service) -> None:
    with compared(service, 4) as replies:
        assert post(service, ieee754("float32", [NORMAL.size]), NORMAL.tobytes()).status == 200
        assert service.request("POST", "/round", numbers(5000), JSON).status == 200
        assert not replies


@pytest.mark.slow
def test_health_does_not_wait_for_a_large_transposition(service: Service) -> None:
    # A copy of 256 MiB takes a second or so.
    side = 8192
    descriptor = ieee754("float32", [side, side], strides=[1, side])
    payload, replies = np.zeros(side * side, "<f4"), []
    worker = threading.Thread(
        target=lambda: replies.append(post(service, descriptor, payload.data.cast("B")))
    )
    slowest = 0.0
    worker.start()
    while worker.is_alive():
        began = time.monotonic()
        assert service.get("/livez").status == 200
        slowest = max(slowest, time.monotonic() - began)
    worker.join()
    assert replies[0].status == 200
    assert slowest < 1, f"health waited {slowest:.2f} s"


def test_begun_control_requests_take_little(service: Service) -> None:
    head = b"POST /v2/repository/index HTTP/1.1\r\nHost: x\r\nContent-Length: 60000\r\n\r\n{"
    count = 300
    with contextlib.ExitStack() as stack:
        before = service.rss()
        for _ in range(count):
            stack.enter_context(contextlib.closing(service.connect())).sendall(head)
        until(lambda: service.metric("bytes_in_flight") >= count * 4096)
        assert (service.rss() - before) / count < 128 << 10


def test_head_that_does_not_end_takes_its_length_at_most() -> None:
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
        until(lambda: service.metric("connections", state="head") == count)
        assert (service.rss() - before) / count < 96 << 10
        sock.sendall(b"x")
        assert sock.recv(1 << 10).startswith(b"HTTP/1.1 431 ")


def test_body_of_a_control_request_counts_in_the_budget(hosted: HostedService) -> None:
    with contextlib.closing(socket.socket()) as sock:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        sock.connect(("127.0.0.1", hosted.port))
        sock.settimeout(0.2)
        # Until the service reads no more of them, as nobody reads its answers.
        with contextlib.suppress(TimeoutError):
            while True:
                sock.sendall(b"GET /conformance HTTP/1.1\r\nHost: x\r\n\r\n" * 100)
        until(lambda: hosted.engine.memory.in_use > 4096)
    assert hosted.settled()


def test_health_is_answered_when_the_budget_is_used_up(hosted: HostedService) -> None:
    memory = hosted.engine.memory
    memory.reserve(memory.limit_bytes, of=0)
    try:
        assert hosted.get("/livez").status == 200
        assert hosted.get("/readyz").status == 200
        refused = hosted.get("/conformance")
        assert (refused.status, refused.json()["code"]) == (503, "overloaded")
    finally:
        memory.release(memory.limit_bytes, ())
    assert hosted.get("/conformance").status == 200


#: Two of these do not fit into the budget together.
LARGE = np.full(10 * MIB, 1.5, "<f4")
#: A service that wants its responses read at 1 MiB a second, after a second.
HASTY = (
    "--receive-timeout",
    "1",
    "--min-send-rate",
    str(MIB),
    "--max-bytes-in-flight",
    "64MiB",
    "--max-tensor-bytes",
    "64MiB",
)
CLOSE = "Connection: close\r\n"


@pytest.fixture(scope="module", params=[Service, TlsService], ids=["plain", "tls"])
def hasty(request: pytest.FixtureRequest) -> Iterator[Service]:
    with request.param(*HASTY) as running:
        yield running
    assert not tracebacks(running.log)


def narrow(service: Service) -> socket.socket:
    """A connection on which the kernel holds little on the way to the caller."""
    plug = service.connect()
    plug.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 64 << 10)
    return plug


def aborted(service: Service) -> int:
    return sum("slow reader" in line for line in service.log)


def try_large(service: Service) -> Reply:
    return post(service, ieee754("float32", [LARGE.size]), LARGE.data.cast("B"))


def read(plug: socket.socket, piece: int = 1 << 20, rate: float = 1e12) -> bytearray:
    """All that comes, in pieces, at so many bytes a second."""
    got, began = bytearray(), time.monotonic()
    with contextlib.suppress(ConnectionError):
        while came := plug.recv(piece):
            got += came
            time.sleep(max(0.0, began + len(got) / rate - time.monotonic()))
    return got


@pytest.mark.slow
def test_slow_reader_is_aborted_and_frees_its_memory(hasty: Service) -> None:
    before = aborted(hasty)
    with contextlib.closing(narrow(hasty)) as plug:
        plug.sendall(message(LARGE))
        plug.recv(1)  # so it has been rounded, and holds its part of the budget
        assert try_large(hasty).status == 503
        until(lambda: try_large(hasty).status == 200)
        assert aborted(hasty) == before + 1
        assert len(read(plug)) < LARGE.nbytes


@pytest.mark.slow
@pytest.mark.parametrize("last", ["", CLOSE], ids=["kept", "closed"])
def test_connection_ends_whatever_is_left_unread(tmp_path: Path, last: str) -> None:
    """A Unix socket holds some 200 KiB: these end before it is full, beyond that, between."""
    x = np.full(12 << 10, 1.5, "<f4")
    with contextlib.ExitStack() as stack:
        options = ("--uds", str(tmp_path / "a.sock"), "--keep-alive", "3", *HASTY)
        service = stack.enter_context(Service(*options))
        before = service.descriptors()
        for count in range(1, 12):
            plug = stack.enter_context(contextlib.closing(service.connect(timeout=0.2)))
            with contextlib.suppress(TimeoutError):  # it is not read on while none is taken
                plug.sendall(message(x) * (count - 1) + message(x, more=last))
        until(lambda: service.descriptors() > before + 3)
        until(lambda: service.descriptors() <= before)
        assert aborted(service) > 2
    assert not tracebacks(service.log)


@pytest.mark.slow
def test_unread_response_under_tls_outlasts_the_farewell(tmp_path: Path) -> None:
    """The farewell of TLS ends what is still in its buffers."""
    x = np.full(120 << 10, 1.5, "<f4")
    with (
        TlsService("--uds", str(tmp_path / "a.sock")) as service,
        contextlib.closing(service.connect()) as plug,
    ):
        plug.sendall(message(x, more=CLOSE))
        time.sleep(6)
        assert read(plug).endswith(np.rint(x).tobytes())


def test_stop_does_not_wait_for_a_reader_beyond_the_drain_timeout() -> None:
    with (
        Service("--drain-timeout", "0.5") as service,
        contextlib.closing(narrow(service)) as plug,
    ):
        plug.sendall(message(LARGE))
        plug.recv(1)
        assert service.stop() == 0
    assert "drain timeout" in "".join(service.log)
    assert not [line for line in service.log if "Traceback" in line or "ASGI" in line]


@pytest.mark.slow
def test_steady_reader_above_the_minimum_rate_gets_the_whole_response() -> None:
    """The kernel takes megabytes at once, and then nothing for longer than the grace."""
    rate = 512 << 10
    x = np.full(12 * MIB // 4, 1.5, "<f4")
    with (
        Service("--receive-timeout", "1", "--min-send-rate", str(rate)) as service,
        contextlib.closing(narrow(service)) as plug,
    ):
        plug.sendall(message(x, more=CLOSE))
        assert read(plug, 16 << 10, 4 * rate).endswith(np.rint(x).tobytes())
        assert aborted(service) == 0
