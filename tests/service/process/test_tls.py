"""The time limit of a TLS shutdown."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import ssl
from collections.abc import Iterator
from typing import Any

import pytest
import uvloop

from support.services.tls import SERVER, caller_context
from tensor_round_service.process import tls
from tensor_round_service.process.tls import ServerTLS
from tensor_round_service.settings import Settings

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


def test_client_that_sends_no_close_notify_is_closed_in_time(
    loop: asyncio.AbstractEventLoop,
) -> None:
    def call(port: int) -> ssl.SSLSocket:
        raw = socket.create_connection(("127.0.0.1", port), 10)
        plug = caller_context().wrap_socket(raw, server_hostname="localhost")
        assert plug.recv(5) == b"hello"
        return plug

    async def wait() -> None:
        over = loop.create_future()
        options = ServerTLS(Settings(ssl_certfile=SERVER, receive_timeout=0.3)).options
        server = await loop.create_server(lambda: Hurried(over), "127.0.0.1", 0, **options)
        with await asyncio.to_thread(call, server.sockets[0].getsockname()[1]):
            await asyncio.wait_for(over, 30)
        server.close()

    loop.run_until_complete(wait())
