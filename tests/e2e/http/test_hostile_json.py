"""Documents and codings made to take more memory than they have bytes: the budget holds."""

from __future__ import annotations

import contextlib
import gzip
import json
import select
import time
from collections.abc import Callable, Iterator

import numpy as np
import pytest

from support.http.inference_form import Answer, binary, document, infer, infer_path, tensor
from support.http.native_form import ieee754, post
from support.services.server import Service

pytestmark = pytest.mark.slow

MIB = 1 << 20
#: Of the service, for all requests together.
BUDGET = 64 * MIB
#: What a process takes beside its budget: the codings' own states, heaps with holes.
BESIDE = 150 * MIB
X = np.array([0.5, 1.5, -2.5], "<f4")
PATHS = ["/round", infer_path("round")]
CROWD = 60


@pytest.fixture(scope="module")
def running() -> Iterator[Service]:
    with Service("--max-bytes-in-flight", str(BUDGET)) as service:
        yield service
    assert not [line for line in service.log if "Traceback" in line]


@pytest.fixture(scope="module")
def before(running: Service) -> int:
    """Resident bytes before any test: the most that a process ever had cannot be unsaid."""
    return running.rss()


@pytest.fixture
def service(running: Service, before: int) -> Iterator[Service]:
    """The service, which has all of its budget again for who comes after a test."""
    yield running
    x = np.full(12 * MIB, 1.5, "<f4")
    deadline = time.monotonic() + 5  # for who hung up
    while (status := post(running, ieee754("float32", [x.size]), x.tobytes()).status) != 200:
        assert status == 503
        assert time.monotonic() < deadline
    assert post(running, ieee754("float32", [3]), X.tobytes()).content == np.rint(X).tobytes()


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
    "data": lambda: (
        b'{"descriptor":%b,"data":%b}' % (ieee754("float32", [3]).encode(), filled(b"[]", 15 * MIB))
    ),
    "a string without end": lambda: b'["' + b"a" * 15 * MIB,
}


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("name", DOCUMENTS)
def test_a_long_document_takes_no_more_than_the_budget(
    service: Service, before: int, name: str, path: str
) -> None:
    reply = service.request("POST", path, DOCUMENTS[name](), {"Content-Type": "application/json"})
    assert reply.status in (400, 413)
    assert service.peak_rss() - before < BUDGET + BESIDE


CROWDED = ["empty arrays", "objects of one", "nested arrays", "numbers"]
#: 55 KiB in all: what is read fits into the budget, what it would be made into is bounded too.
NESTED: dict[str, Callable[[], bytes]] = {
    "one in another": lambda: b"[" * 28_000 + b"]" * 28_000,
    "objects in one another": lambda: b'{"a":' * 9_000 + b"1" + b"}" * 9_000,
    "often as deep as may be": lambda: filled(b"[" * 60 + b"]" * 60, 55 << 10),
    "many names": lambda: b"{" + b",".join(b'"%d":1' % name for name in range(6_000)) + b"}",
}


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("name", [*CROWDED, *NESTED])
def test_a_crowd_of_packed_documents_shares_the_budget(
    service: Service, before: int, name: str, path: str
) -> None:
    body = gzip.compress((DOCUMENTS | NESTED)[name](), 6)
    head = (
        f"POST {path} HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
        f"Content-Encoding: gzip\r\nContent-Length: {len(body)}\r\nConnection: close\r\n\r\n"
    ).encode()
    with contextlib.ExitStack() as stack:
        plugs = [stack.enter_context(contextlib.closing(service.connect())) for _ in range(CROWD)]
        watch = stack.enter_context(contextlib.closing(service.connection()))
        for plug in plugs:
            plug.sendall(head + body)
        waiting, slowest = set(plugs), 0.0
        while waiting:
            began, busy = time.monotonic(), service.busy_seconds()
            watch.request("GET", "/livez")
            assert watch.getresponse().read() == b'{"status":"alive"}'
            # What other processes take of the cores meanwhile is not the service's doing.
            waited = min(time.monotonic() - began, service.busy_seconds() - busy)
            slowest = max(slowest, waited)
            for plug in select.select(list(waiting), [], [], 0.01)[0]:
                assert plug.recv(12)[9:] in (b"400", b"413", b"503")
                waiting.remove(plug)
    assert service.peak_rss() - before < BUDGET + BESIDE
    assert slowest < (2 if name in NESTED else 5)


@pytest.mark.parametrize(("nbytes", "budget"), [(3 * MIB // 2, BUDGET), (6 * MIB, 256 * MIB)])
@pytest.mark.parametrize("path", PATHS)
def test_single_request_over_the_budget_is_not_told_to_retry(
    path: str, nbytes: int, budget: int
) -> None:
    numbers = ",".join(["1.5"] * (nbytes // 4))
    shape = [nbytes // 4]
    head = json.dumps({"descriptor": json.loads(ieee754("float32", shape)), "data": None})
    if path != "/round":
        head = json.dumps(document(tensor("FP32", shape, data=None)))
    body = head.replace("null", f"[{numbers}]").encode()
    with Service("--max-bytes-in-flight", str(budget)) as service:
        before = service.rss()
        for _ in range(2):
            reply = service.request("POST", path, body, {"Content-Type": "application/json"})
            assert reply.status in (200, 413), reply.content[:200]
            if reply.status == 413:
                assert b"the service has" in reply.content
        assert service.peak_rss() - before < budget + BESIDE


def test_packed_answers_count_too(service: Service, before: int) -> None:
    """What cannot be packed takes its memory twice."""
    x = np.random.default_rng(1).integers(0, 256, 8 * MIB, np.uint8)
    request = json.dumps(
        document(
            binary("UINT8", [x.size], x.size),
            outputs=[{"name": "Y", "parameters": {"binary_data": True}}],
        )
    ).encode()
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
    assert set(statuses) <= {b"200", b"503"}
    assert b"200" in statuses
    assert service.peak_rss() - before < BUDGET + BESIDE
    packed = infer(service, request, x.tobytes(), headers={"Accept-Encoding": "gzip"})
    assert packed.headers["Content-Encoding"] == "gzip"
    assert Answer.of(packed, gzip.decompress(packed.content)).payload == x.tobytes()


def test_an_answer_that_has_no_room_to_be_packed_is_refused(service: Service) -> None:
    x = np.zeros(40 * MIB, np.uint8)
    source = binary("UINT8", [x.size], x.size)
    request = document(source, outputs=[{"name": "Y", "parameters": {"binary_data": True}}])
    reply = infer(service, request, x.tobytes(), headers={"Accept-Encoding": "gzip"})
    assert reply.status == 413
    assert infer(service, request, x.tobytes()).status == 200


@pytest.mark.parametrize("form", ["octets", "json", "npy", "infer"])
def test_gzip_of_empty_members_is_not_read_for_ever(service: Service, form: str) -> None:
    fields = {
        "octets": f"Operator-Descriptor: {ieee754('float32', [1024])}",
        "json": "Content-Type: application/json",
        "npy": "Content-Type: application/x-npy",
        "infer": "Content-Type: application/json",
    }
    path = PATHS[form == "infer"]
    members = gzip.compress(b"", 9) * 3_200
    whole = 112 * MIB
    sent = 0
    with contextlib.closing(service.connect()) as plug:
        plug.sendall(
            f"POST {path} HTTP/1.1\r\nHost: x\r\nContent-Encoding: gzip\r\n"
            f"Content-Length: {whole}\r\n{fields[form]}\r\n\r\n".encode()
        )
        while sent < whole and not select.select([plug], [], [], 0)[0]:
            plug.sendall(members)
            sent += len(members)
        with plug.makefile("rb") as answer:
            assert b" 400 " in answer.readline()
    assert sent < 16 * MIB
    with contextlib.closing(service.connection()) as connection:
        connection.request("GET", "/livez")
        assert connection.getresponse().status == 200
