"""Bodies in every shape they come in, the first of their kind and later ones."""

from __future__ import annotations

import contextlib
import json
import socket
import time

import numpy as np
import pytest

from support.http.responses import LARGE, Answers, inference, message, tensor
from support.services.hosted import HostedService


@pytest.mark.slow
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


@pytest.mark.slow
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
def test_bytes_behind_a_large_body_are_the_next_request(service: HostedService, size: int) -> None:
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


@pytest.mark.parametrize("size", [200 << 10, 1 << 20])
def test_large_inferences_may_differ_in_their_json_alone(service: HostedService, size: int) -> None:
    with contextlib.closing(service.connect()) as plug:
        answers = Answers(plug)
        for seed, name in enumerate("aabbacb"):
            x = tensor(size, seed)
            whole = inference(x, name)
            plug.sendall(whole[: 70 << 10])
            time.sleep(0.01)
            plug.sendall(whole[70 << 10 :])
            status, headers, content = answers.next()
            length = int(headers["Inference-Header-Content-Length"])
            assert status == 200, content
            assert json.loads(content[:length])["id"] == name
            assert content[length:] == np.rint(x).tobytes()
