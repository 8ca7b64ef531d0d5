"""Requests in every shape in which bytes come: whole, in pieces, one behind another."""

from __future__ import annotations

import contextlib
import json
import socket
import threading
import time
from collections.abc import Callable, Iterator
from itertools import pairwise

import numpy as np
import pytest

from support.cases.descriptors import varied
from support.http.native_form import Answers, inference, message, tensor
from support.services.hosted import HostedService
from support.services.server import Service, tracebacks
from support.services.tls import TlsService

#: Around those from which a body is received into the tensor's memory.
SIZES = [4, 1024, (64 << 10) - 4, 64 << 10, (64 << 10) + 4, 1 << 20, 5 << 20]
LIVE = b"GET /livez HTTP/1.1\r\nHost: x\r\n\r\n"


@pytest.fixture(scope="module")
def service() -> Iterator[HostedService]:
    with HostedService() as running:
        yield running


@contextlib.contextmanager
def connected(service: Service) -> Iterator[tuple[socket.socket, Answers]]:
    with contextlib.closing(service.connect(20)) as plug:
        if plug.family != socket.AF_UNIX:
            plug.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        answers = Answers(plug)
        yield plug, answers
        answers.file.close()  # else the socket stays open with it


def send_in_pieces(plug: socket.socket, whole: bytes, *cuts: int, pause: float = 0.02) -> None:
    for begin, end in pairwise((0, *cuts, len(whole))):
        plug.sendall(whole[begin:end])
        time.sleep(pause)


@pytest.mark.parametrize("size", SIZES)
def test_requests_follow_one_another(service: HostedService, size: int) -> None:
    with connected(service) as (plug, answers):
        for seed in range(4):
            plug.sendall(message(tensor(size, seed)))
            answers.expect(tensor(size, seed))


@pytest.mark.parametrize("size", [40, 1024, 100 << 10, 5 << 20])
def test_request_may_come_in_pieces(service: HostedService, size: int) -> None:
    """As from clients that write head and body each by itself."""
    whole = message(tensor(size))
    head = len(whole) - size
    with connected(service) as (plug, answers):
        for cut in (1, 30, head - 2, head, head + 1, head + size // 2, len(whole) - 1):
            send_in_pieces(plug, whole, cut)
            answers.expect(tensor(size))
        cuts = (head, head + 10, head + size // 4, head + size - 4)
        send_in_pieces(plug, whole, *cuts)
        answers.expect(tensor(size))


def test_request_may_come_a_byte_at_a_time(service: HostedService) -> None:
    x = tensor(64)
    with connected(service) as (plug, answers):
        for _ in range(2):
            for byte in message(x):
                plug.sendall(bytes([byte]))
            answers.expect(x)


def test_pipelined_requests_are_answered_in_order(service: HostedService) -> None:
    sizes = [1024] * 200 + [4, 1 << 20, 1024, 200 << 10, 70 << 10, 4, 1 << 20]
    tensors = [tensor(size, seed) for seed, size in enumerate(sizes)]
    with connected(service) as (plug, answers):
        # Written from one side while read from the other, as the buffers between are finite.
        whole = b"".join(map(message, tensors))
        writer = threading.Thread(target=plug.sendall, args=(whole,))
        writer.start()
        answers.expect(*tensors)
        writer.join()


@pytest.mark.parametrize("size", [1024, 70 << 10, 300 << 10])
def test_bytes_behind_a_request_are_the_next(service: HostedService, size: int) -> None:
    x, y = tensor(size, 1), tensor(1024, 2)
    both = message(x) + message(y)
    with connected(service) as (plug, answers):
        plug.sendall(both)
        answers.expect(x, y)
        for cut in (100, len(both) - 2000, len(both) - 1100, len(both) - 10):
            send_in_pieces(plug, both + message(x), cut)
            answers.expect(x, y, x)
        plug.sendall(message(x) + b"nonsense\r\n\r\n")
        answers.expect(x)
        assert answers.next()[0] == 400
        assert answers.at_end()


@pytest.mark.parametrize("lines", [b"\r\n\r\n", b"\n\r\n\r\n", b"\r\n", b"\r\n" * 40_000])
def test_empty_lines_before_a_request_are_ignored(service: HostedService, lines: bytes) -> None:
    """They may be taken for the end of a head, before which nothing says how long a body is."""
    for size in (64, 1024, 1 << 20):
        with connected(service) as (plug, answers):
            for _ in range(2):
                whole = lines + message(tensor(size))
                send_in_pieces(plug, whole, len(whole) - size)
                answers.expect(tensor(size))


def test_field_before_a_request_is_refused(service: HostedService) -> None:
    with connected(service) as (plug, answers):
        plug.sendall(b"\r\nX-Request-ID: one\r\n" + message(tensor(64)))
        assert answers.next()[0] == 400
        assert answers.at_end()


@pytest.mark.parametrize("size", [1024, 1 << 20])
@pytest.mark.parametrize("how", [{"version": "1.0"}, {"more": "Connection: close\r\n"}], ids=str)
def test_http_1_0_and_connection_close_end_the_connection(
    service: HostedService, how: dict[str, str], size: int
) -> None:
    x = tensor(size)
    with connected(service) as (plug, answers):
        plug.sendall(message(x, **how))
        status, headers, content = answers.next()
        assert (status, headers["Connection"]) == (200, "close")
        assert content == np.rint(x).tobytes()
        assert answers.at_end()


@pytest.mark.parametrize("size", [8, 1024, 1 << 20])
def test_expect_100_continue_is_answered_before_the_body(service: HostedService, size: int) -> None:
    whole = message(tensor(size), more="Expect: 100-continue\r\n")
    interim = b"HTTP/1.1 100 Continue\r\n\r\n"
    with connected(service) as (plug, answers):
        plug.sendall(whole[:-size])
        assert plug.recv(len(interim), socket.MSG_WAITALL) == interim
        plug.sendall(whole[-size:])
        answers.expect(tensor(size))
    with connected(service) as (plug, answers):  # and a refusal, instead of it
        plug.sendall(whole[:-size].replace(b"ties_to_even", b"ties_to_nope"))
        assert answers.next()[0] == 422


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ("", None),
        ("X-Request-ID: a/b:c\r\n", "a/b:c"),
        ("X-Request-ID: " + "x" * 128 + "\r\n", "x" * 128),
        ("X-Request-ID: " + "x" * 129 + "\r\n", None),
        ("X-Request-ID: not sane\r\n", None),
        ("x-request-id: one\r\nX-Request-ID: two\r\n", "one"),
        ("X-Request-ID:one\r\n", "one"),
    ],
)
def test_sane_request_id_comes_back_and_any_other_gets_a_new_one(
    service: HostedService, fields: str, expected: str | None
) -> None:
    with connected(service) as (plug, answers):
        ids = set()
        for _ in range(3):
            plug.sendall(message(tensor(64), more=fields))
            ids.add(answers.next()[1]["X-Request-ID"])
        plug.sendall(message(tensor(64), more="X-Request-ID: own\r\n"))
        assert answers.next()[1]["X-Request-ID"] == "own"
    assert len(ids) == 3 if expected is None else ids == {expected}


def count_of_inferences(service: Service) -> int:
    stats = json.loads(service.get("/v2/models/round/stats").content)
    return int(stats["model_stats"][0]["inference_count"])


@pytest.mark.parametrize("size", [1024, 200 << 10, 1 << 20])
def test_inferences_may_differ_in_their_json_alone(service: HostedService, size: int) -> None:
    before = count_of_inferences(service)
    with connected(service) as (plug, answers):
        for seed, name in enumerate("aabbacb"):
            x = tensor(size, seed)
            send_in_pieces(plug, inference(x, name), 70 << 10, pause=0.01)
            status, headers, content = answers.next()
            assert status == 200, content
            length = int(headers["Inference-Header-Content-Length"])
            assert json.loads(content[:length])["id"] == name
            assert content[length:] == np.rint(x).tobytes()
    assert count_of_inferences(service) - before == 7


@pytest.mark.parametrize("count", [50, 5000])
def test_body_of_unknown_length_of_tensor_may_come_in_pieces(
    service: HostedService, count: int
) -> None:
    with connected(service) as (plug, answers):
        for seed in range(3):
            x = tensor(4 * count, seed)
            source = {"name": "X", "datatype": "FP32", "shape": [x.size], "data": x.tolist()}
            output = {"name": "Y", "parameters": {"binary_data": True}}
            text = json.dumps({"inputs": [source], "outputs": [output]}).ljust(32 * x.size)
            head = "POST /v2/models/round/infer HTTP/1.1\r\nHost: x\r\n"
            whole = f"{head}Content-Length: {len(text)}\r\n\r\n{text}".encode()
            send_in_pieces(plug, whole, *range(50_000, len(whole), 50_000), pause=0.01)
            status, headers, content = answers.next()
            assert status == 200, content
            length = int(headers["Inference-Header-Content-Length"])
            assert content[length:] == np.rint(x).tobytes()


def test_refusal_changes_nothing_for_the_next_request(service: HostedService) -> None:
    x = tensor(64)
    with connected(service) as (plug, answers):
        for _ in range(3):
            plug.sendall(message(x).replace(b"ties_to_even", b"ties_to_nope"))
            assert answers.next()[0] == 422
            plug.sendall(message(x))
            answers.expect(x)


@pytest.mark.parametrize(
    "target", ["POST /rounds", "DELETE /round", "GET /livez", "POST /v2/models/none/infer"]
)
def test_late_body_of_an_answered_request_loses_no_other(
    service: HostedService, target: str
) -> None:
    """Where the connection ends with an answer, the answer says so."""
    with contextlib.closing(service.connection()) as connection:
        connection.putrequest(*target.split())
        connection.putheader("Content-Length", "4000")
        connection.endheaders()
        time.sleep(0.1)
        connection.send(bytes(4000))
        answer = connection.getresponse()
        assert answer.status in (200, 404, 405)
        assert answer.read()
        if not answer.will_close:
            connection.request("GET", "/livez")
            assert connection.getresponse().status == 200
    with connected(service) as (plug, answers):
        whole = f"{target} HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\n\r\nabc".encode()
        plug.sendall(2 * whole + LIVE)
        assert [answers.next()[0] for _ in range(3)][-1] == 200


def test_answers_never_mix_on_many_connections(service: HostedService) -> None:
    tensors = [tensor(1 << 20, seed) for seed in range(8)]
    with contextlib.ExitStack() as stack:
        pairs = [stack.enter_context(connected(service)) for _ in tensors]
        for _ in range(3):
            for (plug, _answers), x in zip(pairs, tensors, strict=True):
                plug.sendall(message(x)[:-1])
            for (plug, _answers), x in zip(pairs, tensors, strict=True):
                plug.sendall(x.tobytes()[-1:])
            for (_plug, answers), x in zip(pairs, tensors, strict=True):
                answers.expect(x)


@pytest.fixture(scope="module", params=[Service, TlsService], ids=["plain", "tls"])
def started(request: pytest.FixtureRequest) -> Iterator[Service]:
    with request.param() as running:
        yield running
    assert not tracebacks(running.log)
    assert not [line for line in running.log if "failure" in line]


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


def expect(answers: Answers, content: bytes) -> None:
    status, _, found = answers.next()
    assert (status, found) == (200, content)


#: What is sent in one segment with a short form, and what is behind it in the next.
BEHIND: dict[str, Callable[[int], tuple[bytes, bytes]]] = {
    "request": lambda count: (LIVE, b""),
    "body two bytes shorter": lambda count: (message(tensor(4 * (count // 2))), b""),
    "begun": lambda count: (LIVE[:10], LIVE[10:]),
    "line": lambda count: (b"\r\n", LIVE),
}


@pytest.mark.parametrize("behind", BEHIND.values(), ids=BEHIND)
def test_unrounded_length_of_directml_ends_before_the_bytes_behind_it(
    started: Service, behind: Callable[[int], tuple[bytes, bytes]]
) -> None:
    for count in (1, 3, 33, 1001, 51_201):
        x = halves(count)
        with connected(started) as (plug, answers):
            for _ in range(2):
                first, second = behind(count)
                plug.sendall(short(x) + first)
                expect(answers, np.rint(x).tobytes() + bytes(2))
                plug.sendall(second)
                assert answers.next()[0] == 200
            whole = short(x)
            send_in_pieces(plug, whole, len(whole) - x.nbytes // 2, len(whole) - 1)
            expect(answers, np.rint(x).tobytes() + bytes(2))
