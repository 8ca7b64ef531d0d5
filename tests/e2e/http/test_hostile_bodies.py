"""Bodies made to take more memory or time than they have bytes: the limits and the budget hold."""

from __future__ import annotations

import contextlib
import gzip
import json
import select
import time
from collections.abc import Callable, Iterator
from itertools import cycle

import numpy as np
import pytest

from support.http.inference_form import Outcome, binary, document, infer, infer_path, tensor
from support.http.native_form import ieee754, post
from support.services.fronts import Front
from support.services.server import Service, tracebacks, until

MIB = 1 << 20
#: Of the service, for all requests together.
BUDGET = 64 * MIB
#: What a process takes beside its budget: the codings' own states, heaps with holes.
BESIDE = 150 * MIB
X = np.array([0.5, 1.5, -2.5], "<f4")
DESCRIPTOR = ieee754("float32", [3])
JSON = {"Content-Type": "application/json"}
PATHS = ["/round", infer_path("round")]
CROWD = 60


@pytest.fixture(scope="module")
def limited(front: Front) -> Iterator[Service]:
    with front("--max-tensor-bytes", "64MiB") as running:
        yield running
    assert not tracebacks(running.log)


def still_works(service: Service) -> None:
    assert post(service, DESCRIPTOR, X.tobytes()).content == np.rint(X).tobytes()


@pytest.mark.slow
def test_malformed_gzip_bodies_keep_no_memory(limited: Service) -> None:
    whole = bytearray(gzip.compress(np.random.default_rng(1).bytes(MIB), 1))
    whole[-6] ^= 1  # its checksum, so that all of it is unpacked first
    bodies = {bytes(whole): MIB, gzip.compress(bytes(4 * MIB), 9)[:-9]: 4 * MIB}
    before = 0
    for turn in range(27):
        for body, nbytes in bodies.items():
            descriptor = ieee754("float32", [nbytes // 4])
            reply = post(limited, descriptor, body, Content_Encoding="gzip")
            assert (reply.status, reply.json()["code"]) == (400, "malformed_encoding")
        if turn == 1:  # what is loaded late is there
            before = limited.rss()
    assert limited.rss() - before <= 16 * MIB
    still_works(limited)


@pytest.fixture(scope="module")
def bomb() -> bytes:
    """A gibibyte of zeros, a thousand times smaller: gzip may be made of parts."""
    return gzip.compress(bytes(64 * MIB), 9) * 16


@pytest.mark.parametrize(
    ("headers", "status", "code"),
    [
        pytest.param(
            {"Operator-Descriptor": ieee754("float32", [MIB // 4])},
            400,
            "payload_size_mismatch",
            id="octets",
        ),
        pytest.param(JSON, 413, "tensor_too_large", id="json"),
        pytest.param({"Content-Type": "application/x-npy"}, 400, "malformed_npy", id="npy"),
    ],
)
def test_bomb_is_refused_at_the_limit(
    limited: Service, bomb: bytes, headers: dict[str, str], status: int, code: str
) -> None:
    assert len(bomb) * 1000 < 1 << 30 < len(bomb) * 1100
    before, busy = limited.rss(), limited.busy_seconds()
    reply = limited.request("POST", "/round", bomb, {**headers, "Content-Encoding": "gzip"})
    assert (reply.status, reply.json()["code"]) == (status, code)
    assert limited.busy_seconds() - busy < 2
    # Sixteen mebibytes of JSON may have come, and doubled once; never a gibibyte.
    assert limited.peak_rss() - before < 96 * MIB
    still_works(limited)


@pytest.mark.not_behind("nginx", reason="it hears the sender out")
def test_undeclared_body_is_refused_at_the_limit(limited: Service) -> None:
    sent = 0

    def pieces() -> Iterator[bytes]:
        nonlocal sent
        while sent < 64 * MIB:
            sent += MIB
            yield bytes(MIB)

    head = {"Operator-Descriptor": DESCRIPTOR, "Transfer-Encoding": "chunked"}
    reply = limited.request("POST", "/round", pieces(), head)
    assert (reply.status, reply.json()["code"]) == (400, "payload_size_mismatch")
    assert sent < 32 * MIB


@pytest.mark.slow
def test_million_chunks_of_one_byte_delay_nobody(limited: Service) -> None:
    x = np.arange(250_000, dtype="<f4")
    lines = np.full((x.nbytes, 6), np.frombuffer(b"1\r\n?\r\n", np.uint8))
    lines[:, 3] = x.view(np.uint8)
    head = (
        "POST /round HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n"
        f"Operator-Descriptor: {ieee754('float32', [x.size])}\r\n\r\n"
    ).encode()
    before, slowest = limited.rss(), 0.0
    with contextlib.closing(limited.connect()) as plug:
        whole = memoryview(head + lines.tobytes() + b"0\r\n\r\n")
        for at in range(0, len(whole), 256 << 10):
            plug.sendall(whole[at : at + (256 << 10)])
            began = time.monotonic()
            assert limited.get("/livez").status == 200
            slowest = max(slowest, time.monotonic() - began)
        with plug.makefile("rb") as answer:
            assert answer.read().endswith(x.tobytes())
    assert slowest < 2
    assert limited.rss() - before < 16 * MIB


@pytest.fixture(scope="module")
def running() -> Iterator[Service]:
    with Service("--max-bytes-in-flight", str(BUDGET)) as service:
        yield service
    assert not tracebacks(service.log)


@pytest.fixture(scope="module")
def before(running: Service) -> int:
    """Resident bytes before any test: the most that a process ever had cannot be unsaid."""
    return running.rss()


@pytest.fixture
def service(running: Service, before: int) -> Iterator[Service]:
    """The service, whose memory holds, and which has all of its budget again after a test."""
    yield running
    assert running.peak_rss() - before < BUDGET + BESIDE
    x = np.full(12 * MIB, 1.5, "<f4")
    descriptor = ieee754("float32", [x.size])
    until(lambda: post(running, descriptor, x.tobytes()).status == 200, 5)
    still_works(running)


def filled(unit: bytes, nbytes: int = 16 * MIB) -> bytes:
    """An array of the same value again and again."""
    count = (nbytes - 1) // (len(unit) + 1)
    return b"[" + b",".join([unit] * count) + b"]"


DOCUMENTS: dict[str, Callable[[], bytes]] = {
    "empty arrays": lambda: filled(b"[]"),
    "arrays of one": lambda: filled(b"[0]"),
    "objects of one": lambda: filled(b'{"a":[]}'),
    "empty objects": lambda: filled(b"{}"),
    "empty strings": lambda: filled(b'""'),
    "numbers": lambda: filled(b"1"),
    "nested arrays": lambda: b"[" * 8 * MIB + b"]" * 8 * MIB,
    "nested objects": lambda: b'{"a":' * 2 * MIB + b"1" + b"}" * 2 * MIB,
    "many names": lambda: b"{" + b",".join(b'"%d":[]' % name for name in range(1_300_000)) + b"}",
    "data": lambda: b'{"descriptor":%b,"data":%b}' % (DESCRIPTOR.encode(), filled(b"[]", 15 * MIB)),
    "a string without end": lambda: b'["' + b"a" * 15 * MIB,
}


@pytest.mark.slow
@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("name", DOCUMENTS)
def test_long_document_takes_no_more_than_the_budget(
    service: Service, name: str, path: str
) -> None:
    reply = service.request("POST", path, DOCUMENTS[name](), JSON)
    assert reply.status in (400, 413)


#: 55 KiB in all: what is read fits into the budget, what it would be made into is bounded too.
NESTED: dict[str, Callable[[], bytes]] = {
    "one in another": lambda: b"[" * 28_000 + b"]" * 28_000,
    "objects in one another": lambda: b'{"a":' * 9_000 + b"1" + b"}" * 9_000,
    "often as deep as may be": lambda: filled(b"[" * 60 + b"]" * 60, 55 << 10),
    "few names": lambda: b"{" + b",".join(b'"%d":1' % name for name in range(6_000)) + b"}",
}
CROWDED = ["empty arrays", "objects of one", "nested arrays", "numbers", *NESTED]


@pytest.mark.slow
@pytest.mark.parametrize("name", CROWDED)
def test_crowd_of_packed_documents_shares_the_budget(service: Service, name: str) -> None:
    body = gzip.compress((DOCUMENTS | NESTED)[name](), 6)
    fields = (
        "HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Encoding: gzip\r\n"
        f"Content-Length: {len(body)}\r\nConnection: close\r\n\r\n"
    )
    with contextlib.ExitStack() as stack:
        plugs = [stack.enter_context(contextlib.closing(service.connect())) for _ in range(CROWD)]
        watch = stack.enter_context(contextlib.closing(service.connection()))
        for plug, path in zip(plugs, cycle(PATHS), strict=False):
            plug.sendall(f"POST {path} {fields}".encode() + body)
        waiting, slowest = set(plugs), 0.0
        while waiting:
            began, busy = time.monotonic(), service.busy_seconds()
            watch.request("GET", "/livez")
            assert watch.getresponse().read() == b'{"status":"alive"}'
            # What other processes take of the cores meanwhile is not the service's doing.
            waited = min(time.monotonic() - began, service.busy_seconds() - busy)
            slowest = max(slowest, waited)
            for plug in select.select(list(waiting), [], [], 0.01)[0]:
                assert plug.recv(12)[9:] in (b"400", b"413", b"422", b"503")
                waiting.remove(plug)
    assert slowest < (2 if name in NESTED else 5)


@pytest.mark.slow
@pytest.mark.parametrize("path", PATHS)
def test_single_request_over_the_budget_is_not_told_to_retry(path: str) -> None:
    shape = [3 * MIB // 8]
    head = {"descriptor": json.loads(ieee754("float32", shape)), "data": None}
    if path != "/round":
        head = document(tensor("FP32", shape, data=None))
    numbers = ",".join(["1.5"] * shape[0])
    body = json.dumps(head).replace("null", f"[{numbers}]").encode()
    with Service("--max-bytes-in-flight", str(BUDGET)) as service:
        before = service.rss()
        for _ in range(2):
            reply = service.request("POST", path, body, JSON)
            assert reply.status in (200, 413), reply.content[:200]
            assert reply.status == 200 or b"the service has" in reply.content
        assert service.peak_rss() - before < BUDGET + BESIDE


def wished(count: int) -> bytes:
    outputs = [{"name": "Y", "parameters": {"binary_data": True}}]
    return json.dumps(document(binary("UINT8", [count], count), outputs=outputs)).encode()


@pytest.mark.slow
def test_packed_responses_count_too(service: Service) -> None:
    """What cannot be packed takes its memory twice."""
    x = np.random.default_rng(1).integers(0, 256, 8 * MIB, np.uint8)
    request = wished(x.size)
    head = (
        f"POST {infer_path('round')} HTTP/1.1\r\nHost: x\r\nAccept-Encoding: gzip\r\n"
        f"Inference-Header-Content-Length: {len(request)}\r\n"
        f"Content-Length: {len(request) + x.size}\r\nConnection: close\r\n\r\n"
    ).encode()
    statuses = []
    with contextlib.ExitStack() as stack:
        plugs = [stack.enter_context(contextlib.closing(service.connect())) for _ in range(24)]
        for plug in plugs:
            with contextlib.suppress(BrokenPipeError, ConnectionResetError):
                plug.sendall(head + request)
                plug.sendall(x.data)
        for plug in plugs:
            with contextlib.suppress(ConnectionResetError):
                statuses.append(plug.recv(12)[9:])
    assert b"200" in statuses
    assert set(statuses) <= {b"200", b"503"}
    packed = infer(service, request, x.tobytes(), headers={"Accept-Encoding": "gzip"})
    assert packed.headers["Content-Encoding"] == "gzip"
    assert Outcome.of(packed, gzip.decompress(packed.content)).payload == x.tobytes()
    # One that has no room to be packed is refused.
    zeros = bytes(40 * MIB)
    refused = infer(service, wished(len(zeros)), zeros, headers={"Accept-Encoding": "gzip"})
    assert refused.status == 413
    assert infer(service, wished(len(zeros)), zeros).status == 200


def test_strings_without_an_end_delay_nobody(service: Service) -> None:
    """Each once took half a second and more: a match that failed was tried again at every quote."""
    control = gzip.compress(b'"' + b'\\",' * 21_000 + b"\\")
    assert len(control) < 256
    descriptor = '"' + '\\",' * 5_000 + "\\"
    began = time.monotonic()
    for _ in range(3):
        index = {"Content-Encoding": "gzip"}
        assert service.request("POST", "/v2/repository/index", control, index).status == 400
        assert post(service, descriptor, X.tobytes()).status == 400
    assert time.monotonic() - began < 1.5


FORMS = {
    "octets": ("/round", f"Operator-Descriptor: {ieee754('float32', [1024])}"),
    "json": ("/round", "Content-Type: application/json"),
    "npy": ("/round", "Content-Type: application/x-npy"),
    "infer": (infer_path("round"), "Content-Type: application/json"),
}


@pytest.mark.slow
@pytest.mark.parametrize("form", FORMS)
def test_gzip_of_empty_members_is_not_read_for_ever(service: Service, form: str) -> None:
    path, fields = FORMS[form]
    members = gzip.compress(b"", 9) * 3_200
    whole, sent = 112 * MIB, 0
    with contextlib.closing(service.connect()) as plug:
        plug.sendall(
            f"POST {path} HTTP/1.1\r\nHost: x\r\nContent-Encoding: gzip\r\n"
            f"Content-Length: {whole}\r\n{fields}\r\n\r\n".encode()
        )
        while sent < whole and not select.select([plug], [], [], 0)[0]:
            plug.sendall(members)
            sent += len(members)
        with plug.makefile("rb") as answer:
            assert b" 400 " in answer.readline()
    assert sent < 16 * MIB
    assert service.get("/livez").status == 200
