"""Bodies in every shape they come in, the first of their kind and later ones."""

from __future__ import annotations

import contextlib
import gc
import json
import signal
import socket
import time
import tracemalloc
from collections.abc import Iterator

import numpy as np
import pytest

from support.http.responses import Answers, message, tensor
from support.services.hosted import HostedService
from support.services.server import Service
from tensor_round_service.engine.job import Job

from .test_requests import infer

LARGE = [64 << 10, 100 << 10, 1 << 20, 5 << 20]


@pytest.fixture(params=["first", "later"])
def service(request: pytest.FixtureRequest) -> Iterator[HostedService]:
    """One that has seen no such request before, or some."""
    with HostedService() as running:
        if request.param == "later":
            with contextlib.closing(running.connect()) as plug:
                answers = Answers(plug)
                for size in (64, 1024, 160 << 10, *LARGE):
                    plug.sendall(message(tensor(size)) + infer(tensor(size), "a"))
                    assert (answers.next()[0], answers.next()[0]) == (200, 200)
        yield running


@pytest.mark.parametrize("cut", [0, 1, 500, -1])
def test_a_body_may_come_behind_its_head(service: HostedService, cut: int) -> None:
    """As many clients send it: http.client writes head and body each by itself."""
    with contextlib.closing(service.connect()) as plug:
        answers = Answers(plug)
        for seed in range(4):
            x = tensor(1024, seed)
            whole = message(x)
            at = len(whole) - x.nbytes + cut if cut >= 0 else cut
            plug.sendall(whole[:at])
            time.sleep(0.02)
            plug.sendall(whole[at:])
            answers.expect(x)


def test_one_byte_at_a_time(service: HostedService) -> None:
    x = tensor(64)
    with contextlib.closing(service.connect()) as plug:
        plug.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        answers = Answers(plug)
        for _ in range(2):
            plug.sendall(message(x))
            answers.expect(x)
            for byte in message(x):
                plug.sendall(bytes([byte]))
            answers.expect(x)


def test_more_may_come_with_the_rest_of_a_request(service: HostedService) -> None:
    x, y = tensor(1024, 1), tensor(1024, 2)
    with contextlib.closing(service.connect()) as plug:
        answers = Answers(plug)
        plug.sendall(message(x))
        answers.expect(x)
        for _ in range(3):
            plug.sendall(message(x)[:-500])
            time.sleep(0.02)
            plug.sendall(message(x)[-500:] + message(y) + message(x))
            answers.expect(x, y, x)


@pytest.mark.parametrize("size", LARGE)
@pytest.mark.parametrize("pause", [0.0, 0.02])
def test_large_bodies(service: HostedService, size: int, pause: float) -> None:
    with contextlib.closing(service.connect()) as plug:
        answers = Answers(plug)
        for seed in range(4):
            x = tensor(size, seed)
            whole = message(x)
            head = len(whole) - x.nbytes
            begin = 0
            for end in (head, head + 10, head + (70 << 10), head + size - 4):
                if pause and begin < end:
                    plug.sendall(whole[begin:end])
                    time.sleep(pause)
                    begin = end
            plug.sendall(whole[begin:])
            answers.expect(x)


@pytest.mark.parametrize("size", [70 << 10, 300 << 10])
def test_what_comes_behind_a_large_body_is_the_next_request(
    service: HostedService, size: int
) -> None:
    x, y = tensor(size, 1), tensor(1024, 2)
    both = message(x) + message(y)
    with contextlib.closing(service.connect()) as plug:
        answers = Answers(plug)
        plug.sendall(message(x) + message(y))
        answers.expect(x, y)
        for cut in (100, len(both) - 2000, len(both) - 1100, len(both) - 10):
            plug.sendall(message(x))
            answers.expect(x)
            plug.sendall(both[:cut])
            time.sleep(0.02)
            plug.sendall(both[cut:] + message(x))
            answers.expect(x, y, x)


def document(x: np.ndarray) -> bytes:
    """A request of which the service reads messages, as it knows no length of the tensor."""
    tensor = {"name": "X", "datatype": "FP32", "shape": [x.size], "data": x.tolist()}
    output = {"name": "Y", "parameters": {"binary_data": True}}
    text = json.dumps({"inputs": [tensor], "outputs": [output]}).ljust(32 * x.size).encode()
    head = f"POST /v2/models/round/infer HTTP/1.1\r\nHost: x\r\nContent-Length: {len(text)}\r\n\r\n"
    return head.encode() + text


@pytest.mark.parametrize("count", [50, 5000])
def test_bodies_that_are_read_in_messages(service: HostedService, count: int) -> None:
    with contextlib.closing(service.connect()) as plug:
        answers = Answers(plug)
        for seed in range(4):
            x = tensor(4 * count, seed)
            whole = document(x)
            for begin in range(0, len(whole), 50_000):
                plug.sendall(whole[begin : begin + 50_000])
                time.sleep(0.01)
            status, headers, content = answers.next()
            length = int(headers["Inference-Header-Content-Length"])
            assert status == 200, content
            assert content[length:] == np.rint(x).tobytes()


def test_a_sender_may_go_within_a_body(service: HostedService) -> None:
    x = tensor(1 << 20)
    with contextlib.closing(service.connect()) as plug:
        plug.sendall(message(x))
        Answers(plug).expect(x)
    for cut in (100, 1000, 70 << 10, 500 << 10):
        with contextlib.closing(service.connect()) as plug:
            plug.sendall(message(x)[:cut])
            time.sleep(0.02)
    assert service.settled()


@pytest.mark.parametrize("size", [1 << 20, 2 << 20])
def test_a_large_body_may_be_refused(size: int) -> None:
    x = tensor(size)
    with HostedService(4 << 20) as service, contextlib.closing(service.connect()) as plug:
        answers = Answers(plug)
        plug.sendall(message(x))
        answers.expect(x)
        others = Job(service.engine.memory)
        others.reserve(7 << 19)
        plug.sendall(message(x)[: 200 << 10])
        status, headers, _ = answers.next()
        assert (status, headers["Connection"]) == (503, "close")
        others.end(reusable=True)
        assert answers.at_end()
        assert service.settled()


@pytest.mark.parametrize("size", [200 << 10, 1 << 20])
def test_large_inferences_may_differ_in_their_json_alone(service: HostedService, size: int) -> None:
    with contextlib.closing(service.connect()) as plug:
        answers = Answers(plug)
        for seed, name in enumerate("aabbacb"):
            x = tensor(size, seed)
            whole = infer(x, name)
            plug.sendall(whole[: 70 << 10])
            time.sleep(0.01)
            plug.sendall(whole[70 << 10 :])
            status, headers, content = answers.next()
            length = int(headers["Inference-Header-Content-Length"])
            assert status == 200, content
            assert json.loads(content[:length])["id"] == name
            assert content[length:] == np.rint(x).tobytes()


def test_who_stops_within_a_large_body_is_told_and_counted(service: HostedService) -> None:
    """Its memory is all taken by then, so it has a second's patience, not ten."""

    def failed() -> int:
        stats = json.loads(service.get("/v2/models/round/stats").content)
        return int(stats["model_stats"][0]["inference_stats"]["fail"]["count"])

    x = tensor(1 << 20)
    with contextlib.closing(service.connect()) as plug:
        answers = Answers(plug)
        for _ in range(2):
            plug.sendall(infer(x, "a"))
            assert answers.next()[0] == 200
        before = failed()
        began = time.monotonic()
        plug.sendall(infer(x, "a")[: 100 << 10])
        status, headers, _ = answers.next()
        assert (status, headers["Connection"]) == (408, "close")
        assert headers["X-Request-ID"]
        assert time.monotonic() - began < 5
        assert answers.at_end()
        assert failed() - before == 1
    assert service.settled()


def test_a_server_that_leaves_waits_for_a_large_body_and_then_no_more() -> None:
    x = tensor(1 << 20)
    limits = ("--drain-timeout", "1", "--receive-timeout", "30", "--min-receive-rate", "0")
    with Service(*limits) as running, contextlib.ExitStack() as stack:
        plugs = [stack.enter_context(contextlib.closing(running.connect())) for _ in range(2)]
        for plug in plugs:
            for _ in range(2):
                plug.sendall(message(x))
                Answers(plug).expect(x)
            plug.sendall(message(x)[: 100 << 10])
        time.sleep(0.1)
        running.process.send_signal(signal.SIGTERM)
        time.sleep(0.3)
        plugs[0].sendall(message(x)[100 << 10 :])
        status, headers, content = Answers(plugs[0]).next()
        assert (status, headers["Connection"], content) == (200, "close", np.rint(x).tobytes())
        status, headers, content = Answers(plugs[1]).next()
        assert (status, json.loads(content)["code"]) == (503, "draining")
        assert running.process.wait(20) == 0


def test_a_slow_body_is_refused() -> None:
    limits = ("--receive-timeout", "0.5")
    for x in (tensor(1024), tensor(1 << 20)):
        with (
            Service(*limits) as running,
            contextlib.closing(running.connect()) as plug,
        ):
            answers = Answers(plug)
            plug.sendall(message(x))
            answers.expect(x)
            plug.sendall(message(x)[:800])
            assert answers.next()[0] == 408
            assert answers.at_end()


def filled(service: HostedService, size: int) -> tuple[socket.socket, list[np.ndarray]]:
    """A connection whose last answer waits in the service, and the tensors it was asked for."""
    plug = socket.socket()
    plug.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    plug.connect(("127.0.0.1", service.port))
    plug.settimeout(20)
    held, asked = service.engine.memory.in_use, []
    while service.engine.memory.in_use == held:
        asked.append(tensor(size, len(asked)))
        assert len(asked) < 100, "the system takes everything"
        plug.sendall(message(asked[-1]))
        time.sleep(0.02)
    return plug, asked


def test_memory_is_not_used_again_before_an_answer_is_taken(service: HostedService) -> None:
    size = 160 << 10
    with contextlib.closing(service.connect()) as quick:
        answers = Answers(quick)
        quick.sendall(message(tensor(size)))
        answers.expect(tensor(size))
        slow = [filled(service, size) for _ in range(4)]
        for seed in range(100, 120):
            quick.sendall(message(tensor(size, seed)))
            answers.expect(tensor(size, seed))
        for plug, asked in slow:
            with plug:
                Answers(plug).expect(*asked)
    assert service.settled()


def test_who_takes_no_answer_gives_its_memory_back_when_it_goes(service: HostedService) -> None:
    size = 160 << 10
    with contextlib.closing(service.connect()) as plug:
        plug.sendall(message(tensor(size)))
        Answers(plug).expect(tensor(size))
    with filled(service, size)[0]:
        time.sleep(0.1)
        assert service.engine.memory.in_use >= size
    assert service.settled()


def test_an_idle_connection_is_closed() -> None:
    x = tensor(1024)
    with (
        HostedService(keep_alive=1.0) as service,
        contextlib.closing(service.connect()) as plug,
    ):
        answers = Answers(plug)
        began = time.monotonic()
        while time.monotonic() < began + 1.5:
            plug.sendall(message(x))
            answers.expect(x)
            time.sleep(0.05)
        last = time.monotonic()
        assert answers.at_end()
        assert 0.5 < time.monotonic() - last < 5


def test_memory_is_not_left_to_the_garbage_collector_by_who_goes(service: HostedService) -> None:
    x = tensor(100 << 10)
    with contextlib.closing(service.connect()) as plug:
        plug.sendall(message(x))
        Answers(plug).expect(x)
    assert service.settled()
    gc.collect()
    gc.disable()
    tracemalloc.start()
    try:
        for _ in range(20):
            with contextlib.closing(service.connect()) as plug:
                plug.sendall(message(x)[:-1])
                time.sleep(0.02)
        assert service.settled()
        held, _ = tracemalloc.get_traced_memory()
        assert held < 4 * x.nbytes
    finally:
        tracemalloc.stop()
        gc.enable()


def test_an_idle_connection_has_its_time_from_when_the_answer_was_taken() -> None:
    size, seconds = 100 << 10, 2.0
    with HostedService(keep_alive=seconds) as service:
        with contextlib.closing(service.connect()) as plug:
            plug.sendall(message(tensor(size)))
            Answers(plug).expect(tensor(size))
        began = time.monotonic()
        plug, asked = filled(service, size)
        with plug:
            # Longer than an idle connection is kept.
            time.sleep(began + 1.8 * seconds - time.monotonic())
            answers = Answers(plug)
            answers.expect(*asked)
            taken = time.monotonic()
            assert answers.at_end()
            assert time.monotonic() - taken > 0.5 * seconds


def test_an_empty_line_does_not_keep_an_idle_connection() -> None:
    x = tensor(1024)
    with HostedService(keep_alive=1.0) as service:
        for count in (1, 2):
            with contextlib.closing(service.connect()) as plug:
                answers = Answers(plug)
                for _ in range(count):
                    plug.sendall(message(x))
                    answers.expect(x)
                    plug.sendall(b"\r\n")
                    time.sleep(0.1)
                began = time.monotonic()
                assert answers.at_end()
                assert 0.5 < time.monotonic() - began < 5


def test_a_refusal_does_not_wait_for_the_body(service: HostedService) -> None:
    x = tensor(1024)
    spoilt = message(x).replace(b'"float32"', b'"float33"')
    head = spoilt[: -x.nbytes]
    for sent in (spoilt, head, head + b"more", head, spoilt, head):
        with contextlib.closing(service.connect()) as plug:
            began = time.monotonic()
            plug.sendall(sent)
            assert Answers(plug).next()[0] == 422
            assert time.monotonic() - began < 0.5
