"""Servers that hold TLS callers to their time."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import ssl
import time
from collections.abc import Iterator
from typing import Any

import pytest
import uvloop

from support.services.tls import SERVER, caller_context
from tensor_round_service.process import tls
from tensor_round_service.process.tls import ServerTLS

LOOPS = {"asyncio": asyncio.new_event_loop, "uvloop": uvloop.new_event_loop}


@pytest.fixture(params=LOOPS)
def loop(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> Iterator[asyncio.AbstractEventLoop]:
    monkeypatch.setattr(tls, "SHUTDOWN_SECONDS", 0.3)
    with contextlib.closing(LOOPS[request.param]()) as made:
        yield made


class Hurried(asyncio.Protocol):
    """Closes what it has greeted, and tells when it is over."""

    def __init__(self, over: asyncio.Future[None]) -> None:
        self._over = over

    def connection_made(self, transport: Any) -> None:
        transport.write(b"hello")
        transport.close()

    def connection_lost(self, _exc: Exception | None) -> None:
        self._over.set_result(None)


async def listening(over: asyncio.Future[None]) -> tuple[asyncio.Server, int]:
    """A server of the running loop, and its port."""
    server = await asyncio.get_running_loop().create_server(
        lambda: Hurried(over), "127.0.0.1", 0, **ServerTLS(SERVER, handshake_seconds=0.3).options
    )
    return server, server.sockets[0].getsockname()[1]


def test_a_caller_that_never_greets(loop: asyncio.AbstractEventLoop) -> None:
    async def wait() -> float:
        server, port = await listening(loop.create_future())
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        began = time.monotonic()
        with contextlib.suppress(ConnectionResetError):
            assert await reader.read() == b""
        writer.close()
        server.close()
        return time.monotonic() - began

    assert 0.2 < loop.run_until_complete(wait()) < 5


def test_a_caller_that_never_says_goodbye(loop: asyncio.AbstractEventLoop) -> None:
    def call(port: int) -> ssl.SSLSocket:
        raw = socket.create_connection(("127.0.0.1", port), 10)
        plug = caller_context().wrap_socket(raw, server_hostname="localhost")
        assert plug.recv(5) == b"hello"
        return plug

    async def wait() -> None:
        over = loop.create_future()
        server, port = await listening(over)
        with await asyncio.to_thread(call, port):
            await asyncio.wait_for(over, 30)
        server.close()

    loop.run_until_complete(wait())
