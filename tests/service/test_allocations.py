"""How much memory a request has Python allocate at once, and how much it leaves. No clock.

The client is in this process, too, but takes next to none: its bytes lie ready. Nor do the tensors
themselves count, which are in memory that the service keeps.
"""

from __future__ import annotations

import socket
import time
import tracemalloc
from collections.abc import Callable
from typing import TypeAlias

import numpy as np
import pytest

from support.http.grpc_client import SERVICE, framed, infer_request
from support.http.http2_frames import HELLO, block, call_fields, data
from support.http.inference_form import binary, document
from support.http.native_form import message
from support.memory import traced
from support.services.hosted import HostedService
from tensor_round_service.backends.select import compiled_kernels
from tensor_round_service.net.http2 import frames
from tensor_round_service.net.http2.frames import Kind, Setting

KIB, MIB = 1 << 10, 1 << 20
#: Requests until caches and pools are full; those of a round, and rounds.
WARM_UP, REQUESTS, ROUNDS = 60, 20, 3
#: Seconds after which the service has dropped what a request had.
SETTLED = 0.02
#: Bytes that may stay of a request: those of the last one, shared among all.
LEFT = 64

Tensor: TypeAlias = np.ndarray[tuple[int], np.dtype[np.float32]]
#: Asks once. The response is in memory that was there before.
Ask: TypeAlias = Callable[[], None]


def native(sock: socket.socket, x: Tensor) -> Ask:
    """``POST /round``."""
    sent, rounded, response = message(x), np.rint(x).tobytes(), bytearray(x.nbytes + 4 * KIB)
    room = memoryview(response)

    def ask() -> None:
        sock.sendall(sent)
        got = end = 0
        while not end or got < end + len(rounded):
            got += sock.recv_into(room[got:])
            end = response.find(b"\r\n\r\n", 0, got) + 4
        assert room[end:got] == rounded

    return ask


def grpc(sock: socket.socket, x: Tensor) -> Ask:
    """``ModelInfer``, in frames that the next call has again, but for the stream's number."""
    request = infer_request(document(binary("FP32", [x.size], x.nbytes)), x.tobytes())
    fields = block(call_fields(f"/{SERVICE}/ModelInfer"))
    head = frames.frame(Kind.HEADERS, frames.END_HEADERS, 1, fields)
    sent = bytearray(head + data(1, framed(request), ends=True))
    rounded, response = np.rint(x).tobytes(), bytearray(x.nbytes + 4 * KIB)
    room = memoryview(response)
    windows = {
        Setting.INITIAL_WINDOW_SIZE: frames.MAX_WINDOW,
        Setting.MAX_FRAME_SIZE: frames.MAX_FRAME_BYTES,
    }
    sock.sendall(HELLO + frames.settings(windows))
    sock.sendall(frames.window_update(0, frames.MAX_WINDOW - frames.DEFAULT_WINDOW))
    number = 1

    def ask() -> None:
        nonlocal number
        for at in (0, len(head)):
            sent[at + 5 : at + 9] = number.to_bytes(4)
        number += 2
        sock.sendall(sent)
        got = at = 0
        is_over = False
        while not is_over:
            got += sock.recv_into(room[got:])
            while not is_over and got >= (end := at + frames.HEAD_BYTES):
                length = int.from_bytes(room[at : at + 3])
                if got < end + length:
                    break
                is_over = room[at + 3] == Kind.HEADERS and bool(room[at + 4] & frames.END_STREAM)
                at = end + length
        assert response.find(rounded[-KIB:], 0, got) > 0

    return ask


@pytest.mark.parametrize(
    ("protocol", "nbytes", "budget"),
    [
        (native, KIB, 9 * KIB),
        (native, 64 * KIB, 140 * KIB),
        (native, MIB, 180 * KIB),
        (grpc, KIB, 13 * KIB),
        (grpc, 64 * KIB, 210 * KIB),
    ],
)
def test_allocations_of_a_request(
    protocol: Callable[[socket.socket, Tensor], Ask], nbytes: int, budget: int
) -> None:
    if (kernels := compiled_kernels()) is not None:
        kernels.wait()
    x = np.random.default_rng(1).normal(scale=9, size=nbytes // 4).astype("<f4")
    with HostedService() as service, service.connect() as sock, traced() as most:
        ask = protocol(sock, x)
        for _ in range(WARM_UP):
            ask()
        # What a request has, each round has: the least is that of no tick of the server.
        peaks, left = zip(*(measured(ask, most) for _ in range(ROUNDS)), strict=True)
    assert min(peaks) <= budget
    assert min(left) <= LEFT


def measured(ask: Ask, most: Callable[[], int]) -> tuple[int, float]:
    """The most bytes at once over those before, and what stays of a request."""
    time.sleep(SETTLED)
    before, _ = tracemalloc.get_traced_memory()
    tracemalloc.reset_peak()
    for _ in range(REQUESTS):
        ask()
    time.sleep(SETTLED)
    after, _ = tracemalloc.get_traced_memory()
    return most() - before, (after - before) / REQUESTS
