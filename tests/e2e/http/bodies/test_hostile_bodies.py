"""Bodies made to take time or memory: they get neither."""

from __future__ import annotations

import contextlib
import gzip
import json
import time
from collections.abc import Iterator

import numpy as np
import pytest

from support.http.native_form import ieee754, post
from support.services.fronts import Front
from support.services.server import Reply, Service

MIB = 1 << 20
X = np.array([0.5, 1.5, -2.5], "<f4")


@pytest.fixture(scope="module")
def service(front: Front) -> Iterator[Service]:
    with front("--max-tensor-bytes", "64MiB") as running:
        yield running


@pytest.fixture(scope="module")
def direct(front: Front) -> Iterator[Service]:
    """The same."""
    with front("--max-tensor-bytes", "64MiB") as running:
        yield running


def settled(service: Service) -> int:
    """Resident bytes once what is kept for next requests has been let go of."""
    time.sleep(5)
    return service.rss()


def still_works(service: Service) -> None:
    assert post(service, ieee754("float32", [3]), X.tobytes()).content == np.rint(X).tobytes()


@pytest.mark.slow
def test_a_hundred_malformed_gzip_bodies_keep_no_memory(service: Service) -> None:
    whole = bytearray(gzip.compress(np.random.default_rng(1).bytes(MIB), 1))
    whole[-6] ^= 1  # its checksum, so that all of it is unpacked first
    cut = gzip.compress(bytes(4 * MIB), 9)[:-9]
    bodies = {bytes(whole): MIB, cut: 4 * MIB}
    for body, nbytes in bodies.items():  # what is loaded late is there
        _gzip(service, body, nbytes)
    before = settled(service)
    for _ in range(50):
        for body, nbytes in bodies.items():
            reply = _gzip(service, body, nbytes)
            assert (reply.status, reply.json()["code"]) == (400, "malformed_encoding")
    assert service.rss() - before <= 32 * MIB
    still_works(service)


def _gzip(service: Service, body: bytes, nbytes: int) -> Reply:
    descriptor = ieee754("float32", [nbytes // 4])
    return post(service, descriptor, body, Content_Encoding="gzip")


@pytest.fixture(scope="module")
def bomb() -> bytes:
    """A gibibyte of zeros, a thousand times smaller: gzip may be made of parts."""
    return gzip.compress(bytes(64 * MIB), 9) * 16


@pytest.mark.parametrize(
    ("headers", "status", "code"),
    [
        pytest.param(
            {"Operator-Descriptor": ieee754("float32", [MIB // 4])},
            *(400, "payload_size_mismatch"),
            id="octets",
        ),
        pytest.param({"Content-Type": "application/json"}, 413, "tensor_too_large", id="json"),
        pytest.param({"Content-Type": "application/x-npy"}, 400, "malformed_npy", id="npy"),
    ],
)
def test_a_bomb_is_refused_at_the_limit(
    service: Service, bomb: bytes, headers: dict[str, str], status: int, code: str
) -> None:
    assert len(bomb) * 1000 < 1 << 30 < len(bomb) * 1100
    before, busy = service.rss(), service.busy_seconds()
    reply = service.request("POST", "/round", bomb, {**headers, "Content-Encoding": "gzip"})
    assert (reply.status, reply.json()["code"]) == (status, code)
    assert service.busy_seconds() - busy < 2
    # Sixteen mebibytes of JSON may have come, and doubled once; never a gibibyte.
    assert service.peak_rss() - before < 96 * MIB
    still_works(service)


@pytest.mark.not_behind("nginx", reason="it has a limit of its own, or waits for the body")
def test_ten_declared_gibibytes_are_refused_at_once(direct: Service) -> None:
    declared = 10 << 30
    head = (
        f"POST /round HTTP/1.1\r\nHost: x\r\nContent-Length: {declared}\r\n"
        f"Operator-Descriptor: {ieee754('float32', [declared // 4])}\r\n\r\n"
    ).encode()
    _refused(direct, head)
    before = direct.rss()
    durations = [_refused(direct, head) for _ in range(20)]
    assert sorted(durations)[10] < 0.5
    assert direct.rss() - before <= 2 * MIB


def _refused(service: Service, head: bytes) -> float:
    """Seconds until the first line of a refusal."""
    with contextlib.closing(service.connect()) as plug:
        began = time.monotonic()
        plug.sendall(head)
        with plug.makefile("rb") as answer:
            assert answer.readline().split()[1] == b"413"
            took = time.monotonic() - began
            _, _, content = answer.read().partition(b"\r\n\r\n")
        problem = json.loads(content)
        assert problem["got_bytes"] == 10 << 30
        assert problem["limit_bytes"] == 64 * MIB
        return took


@pytest.mark.not_behind("nginx", reason="it hears the sender out")
def test_an_undeclared_body_is_refused_at_the_limit(direct: Service) -> None:
    sent = 0

    def pieces() -> Iterator[bytes]:
        nonlocal sent
        while sent < 64 * MIB:
            sent += MIB
            yield bytes(MIB)

    head = {"Operator-Descriptor": ieee754("float32", [3]), "Transfer-Encoding": "chunked"}
    reply = direct.request("POST", "/round", pieces(), head)
    assert (reply.status, reply.json()["code"]) == (400, "payload_size_mismatch")
    assert sent < 32 * MIB


@pytest.mark.slow
def test_a_million_chunks_of_one_byte(service: Service) -> None:
    x = np.arange(250_000, dtype="<f4")
    payload = x.tobytes()
    lines = np.full((len(payload), 6), np.frombuffer(b"1\r\n?\r\n", np.uint8))
    lines[:, 3] = np.frombuffer(payload, np.uint8)
    head = (
        "POST /round HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n"
        f"Operator-Descriptor: {ieee754('float32', [x.size])}\r\n\r\n"
    ).encode()
    before = service.rss()
    slowest = 0.0
    with contextlib.closing(service.connect()) as plug:
        whole = memoryview(head + lines.tobytes() + b"0\r\n\r\n")
        for at in range(0, len(whole), 256 << 10):
            plug.sendall(whole[at : at + (256 << 10)])
            began = time.monotonic()
            assert service.get("/livez").status == 200
            slowest = max(slowest, time.monotonic() - began)
        with plug.makefile("rb") as answer:
            assert answer.read().endswith(payload)
    # Others are served meanwhile, and chunks cost no memory of their own.
    assert slowest < 2
    assert service.rss() - before < 16 * MIB


@pytest.mark.not_behind("nginx", reason="garbage does not come to the service")
@pytest.mark.parametrize("garbage", [b"\0\0\0\r\n\r\n", b"GET / HTTP/9.9\r\n\r\n"])
@pytest.mark.parametrize("size", [3, 100_000])
def test_a_request_before_garbage_has_its_answer(
    direct: Service, size: int, garbage: bytes
) -> None:
    x = np.full(size, 1.5, "<f4")
    request = (
        f"POST /round HTTP/1.1\r\nHost: x\r\nContent-Length: {x.nbytes}\r\n"
        f"Operator-Descriptor: {ieee754('float32', [size])}\r\n\r\n"
    ).encode() + x.tobytes()
    alive = b"GET /livez HTTP/1.1\r\nHost: x\r\n\r\n"
    for message, end in ((request, np.rint(x).tobytes()), (alive, b'{"status":"alive"}')):
        with contextlib.closing(direct.connect()) as plug:
            plug.sendall(message + garbage)
            with plug.makefile("rb") as answers:
                content = answers.read()
            assert content.startswith(b"HTTP/1.1 200 OK")
            assert end in content
    still_works(direct)


@pytest.mark.not_behind("nginx", reason="garbage does not come to the service")
@pytest.mark.parametrize("target", ["POST /round", "GET /livez"])
def test_garbage_within_a_body_is_400(service: Service, target: str) -> None:
    """Once: also where the request is one that can be answered without its body."""
    head = (
        f"{target} HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n"
        f"Operator-Descriptor: {ieee754('float32', [3])}\r\n\r\n"
    ).encode()
    with contextlib.closing(service.connect()) as plug:
        plug.sendall(head + b"4\r\nabcd\r\nnot a length\r\n")
        with plug.makefile("rb") as answer:
            content = answer.read()
    assert content.startswith(b"HTTP/1.1 400")
    assert content.count(b"HTTP/1.1") == 1
    still_works(service)
    assert not [line for line in service.log if "Traceback" in line]


@pytest.mark.slow
@pytest.mark.parametrize("end", ["hang-up", "stall"])
def test_bodies_that_end_early_keep_no_memory(end: str) -> None:
    """Their memory goes back at once, not whenever the garbage collector comes by."""
    x = np.full(2 * MIB, 1.5, "<f4")
    request = (
        f"POST /round HTTP/1.1\r\nHost: x\r\nContent-Length: {x.nbytes}\r\n"
        f"Operator-Descriptor: {ieee754('float32', [x.size])}\r\n\r\n"
    ).encode() + x.tobytes()
    with Service("--receive-timeout", "2") as service:
        post(service, ieee754("float32", [x.size]), x.tobytes())
        before = service.rss()
        with contextlib.ExitStack() as stack:
            plugs = [stack.enter_context(contextlib.closing(service.connect())) for _ in range(12)]
            for plug in plugs:
                plug.sendall(request[:-1000])
            if end == "stall":
                assert all(plug.recv(12) == b"HTTP/1.1 408" for plug in plugs)
        assert settled(service) - before <= 8 * MIB
        still_works(service)
