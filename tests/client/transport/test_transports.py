"""Transports of httpx2's in place of the client's own: the one seam."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from typing import Any

import httpx2
import numpy as np
import pytest

import tensor_round as tr

OUTPUT = '{"dtype":"float32","shape":[3],"strides":[1],"byte_length":12}'
HEADERS = {"Content-Type": "application/octet-stream", "Output-Descriptor": OUTPUT}
X = np.array([0.5, 1.5, 2.5], "<f4")
ROUNDED = np.array([0, 2, 2], "<f4")


def rint(request: httpx2.Request) -> httpx2.Response:
    x = np.frombuffer(request.read(), "<f4")
    return httpx2.Response(200, headers=HEADERS, content=np.rint(x).tobytes())


def raising(error: Exception) -> Callable[[httpx2.Request], httpx2.Response]:
    def handle(request: httpx2.Request) -> httpx2.Response:
        raise error

    return handle


class Pieces(httpx2.SyncByteStream):
    """A body in pieces, which may break off by an exception; says when it is closed."""

    def __init__(self, *pieces: bytes | Exception) -> None:
        self.pieces = pieces
        self.is_closed = False

    def __iter__(self) -> Iterator[bytes]:
        for piece in self.pieces:
            if isinstance(piece, Exception):
                raise piece
            yield piece

    def close(self) -> None:
        self.is_closed = True


def client(handle: Callable[[httpx2.Request], httpx2.Response], retries: int = 0) -> tr.Client:
    return tr.Client("http://x", transport=httpx2.MockTransport(handle), retries=retries)


def test_any_transport_will_do() -> None:
    with client(rint) as mocked:
        assert np.array_equal(mocked.round(X), ROUNDED)
        assert np.array_equal(mocked.round(X, out=X.copy()), ROUNDED)


def test_an_asynchronous_transport() -> None:
    async def ask() -> Any:
        async with tr.AsyncClient("http://x", transport=httpx2.MockTransport(rint)) as mocked:
            return await mocked.round(X)

    assert np.array_equal(asyncio.run(ask()), ROUNDED)


def test_a_transport_is_closed_with_its_client() -> None:
    class Closing(httpx2.MockTransport):
        closed = 0

        def close(self) -> None:
            self.closed += 1

    transport = Closing(rint)
    with tr.Client("http://x", transport=transport):
        pass
    assert transport.closed == 1


EXCEPTIONS: dict[str, tuple[Exception, type[tr.TensorRoundError]]] = {
    "connect": (httpx2.ConnectError("x"), tr.ConnectionFailed),
    "read": (httpx2.ReadError("x"), tr.ConnectionFailed),
    "write": (httpx2.WriteError("x"), tr.ConnectionFailed),
    "proxy": (httpx2.ProxyError("x"), tr.ConnectionFailed),
    "connect-timeout": (httpx2.ConnectTimeout("x"), tr.DeadlineExceeded),
    "pool-timeout": (httpx2.PoolTimeout("x"), tr.DeadlineExceeded),
    "builtin-timeout": (TimeoutError("x"), tr.DeadlineExceeded),
    "hung-up": (
        httpx2.RemoteProtocolError("Server disconnected without sending a response."),
        tr.ConnectionFailed,
    ),
    "cut": (
        httpx2.RemoteProtocolError("peer closed connection without sending complete message body"),
        tr.ConnectionFailed,
    ),
    "garbled": (httpx2.RemoteProtocolError("illegal status line"), tr.ProtocolViolation),
    "local": (httpx2.LocalProtocolError("x"), tr.InvalidArgument),
    "unsupported": (httpx2.UnsupportedProtocol("x"), tr.InvalidArgument),
    "stream": (httpx2.StreamClosed(), tr.ConnectionFailed),
    "system": (OSError(5, "x"), tr.ConnectionFailed),
}


@pytest.mark.parametrize(("error", "ours"), EXCEPTIONS.values(), ids=EXCEPTIONS)
def test_no_exception_of_a_library_leaks(error: Exception, ours: type[tr.TensorRoundError]) -> None:
    with client(raising(error)) as mocked:
        with pytest.raises(ours) as caught:
            mocked.round(X)
        assert caught.value.request_id

    async def ask() -> None:
        transport = httpx2.MockTransport(raising(error))
        async with tr.AsyncClient("http://x", transport=transport, retries=0) as awaited:
            await awaited.round(X)

    with pytest.raises(ours):
        asyncio.run(ask())


@pytest.mark.parametrize(
    ("pieces", "ours"),
    [
        ((b"\0" * 5, httpx2.ReadError("x")), tr.ConnectionFailed),
        ((b"\0" * 5,), tr.ConnectionFailed),
        ((b"\0" * 13,), tr.ProtocolViolation),
        ((b"\0" * 12, httpx2.ReadTimeout("x")), tr.DeadlineExceeded),
    ],
    ids=["breaks-off", "short", "long", "late"],
)
def test_a_body_that_goes_wrong_is_closed(
    pieces: tuple[bytes | Exception, ...], ours: type[tr.TensorRoundError]
) -> None:
    body = Pieces(*pieces)
    with client(lambda _: httpx2.Response(200, headers=HEADERS, stream=body)) as mocked:
        with pytest.raises(ours):
            mocked.round(X)
        assert body.is_closed


def test_a_body_that_is_not_wanted_is_closed_unread() -> None:
    body = Pieces(AssertionError("must not be read"))
    with client(lambda _: httpx2.Response(200, headers={}, stream=body)) as mocked:
        with pytest.raises(tr.ProtocolViolation):
            mocked.round(X)
        assert body.is_closed


def test_each_try_is_a_request_of_its_own() -> None:
    seen: list[httpx2.Request] = []

    def handle(request: httpx2.Request) -> httpx2.Response:
        seen.append(request)
        return rint(request) if len(seen) == 3 else httpx2.Response(503)

    with client(handle, retries=2) as mocked:
        assert np.array_equal(mocked.round(X), ROUNDED)
    assert len({request.headers["x-request-id"] for request in seen}) == 3
    assert all(request.read() == X.tobytes() for request in seen)
    assert all(request.extensions["timeout"]["read"] <= 30 for request in seen)
    with client(handle) as mocked, pytest.raises(tr.UnknownRefusal) as caught:
        mocked.round(X)
    assert caught.value.request_id == seen[-1].headers["x-request-id"]


def test_httpx2_s_own_transport_meets_the_same_service() -> None:
    """Its exceptions and its pieces are the ones this package expects."""
    from support.http.proxy import Fault, Proxy

    busy = b"HTTP/1.1 503 Busy\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
    plan = [
        Fault(answer=b"", cut_down=0),
        Fault(answer=b"HTTP/1.1 200", cut_down=9),
        Fault(answer=busy),
        Fault(answer=b"220 smtp\r\n\r\n"),
    ]
    expected = [tr.ConnectionFailed, tr.ConnectionFailed, tr.UnknownRefusal, tr.ProtocolViolation]
    with (
        Proxy(None, lambda number: plan[number]) as proxy,
        tr.Client(proxy.url, retries=0, transport=httpx2.HTTPTransport()) as plain,
    ):
        for kind in expected:
            with pytest.raises(kind):
                plain.round(X)
