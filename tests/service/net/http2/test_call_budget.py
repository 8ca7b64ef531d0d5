"""How many Python functions one small request has the service call. No clock."""

from __future__ import annotations

import socket
from collections.abc import Callable

import hpack
import numpy as np
import pytest

from support.calls import first_thread_profiled, hold
from support.http.http2_frames import HELLO, data, split
from support.http.native_form import ieee754
from support.services.hosted import HostedService
from tensor_round_service.backends.select import compiled_kernels
from tensor_round_service.net.http2 import frames
from tensor_round_service.net.http2.frames import Kind

TENSOR = np.random.default_rng(1).normal(scale=9, size=256).astype("<f4")
#: The first requests load what later ones find: they are not counted.
WARM_UP = range(3)
COUNTED = range(3, 9)


@pytest.mark.parametrize(
    ("own", "budget"),
    [(lambda _: {}, 63), (lambda number: {"x-request-id": f"{number:016x}"}, 80)],
    ids=["alike", "x-request-id"],
)
def test_calls_of_a_request(own: Callable[[int], dict[str, str]], budget: int) -> None:
    if (kernels := compiled_kernels()) is not None:
        kernels.wait()  # until then NumPy rounds, by more calls
    encoder = hpack.Encoder()
    with (
        first_thread_profiled() as calls,
        HostedService() as service,
        service.connect() as sock,
    ):
        sock.sendall(HELLO + frames.window_update(0, 1 << 20))

        def request(number: int) -> None:
            exchange(sock, 2 * number + 1, encoder.encode(head(own(number))))

        for number in WARM_UP:
            request(number)
        hold(calls.of_each(request, COUNTED), budget)


def head(own: dict[str, str]) -> list[tuple[str, str]]:
    """The head of a request, as clients send it."""
    fields = {
        ":method": "POST",
        ":scheme": "http",
        ":path": "/round",
        ":authority": "127.0.0.1",
        "content-length": str(TENSOR.nbytes),
        "operator-descriptor": ieee754("float32", [TENSOR.size]),
        **own,
    }
    return [*fields.items()]


def exchange(sock: socket.socket, number: int, block: bytes) -> None:
    """One request, and its whole response."""
    sock.sendall(
        frames.headers(number, block, ends=False) + data(number, TENSOR.tobytes(), ends=True)
    )
    content, rest, is_ended = b"", b"", False
    while not is_ended:
        received = sock.recv(1 << 16)
        assert received, rest
        found, rest = split(rest + received)
        content += b"".join(each.payload for each in found if each.kind == Kind.DATA)
        is_ended = any(each.ends for each in found)
    assert content == np.rint(TENSOR).tobytes()
