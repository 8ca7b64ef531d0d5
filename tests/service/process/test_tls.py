"""TLS: time limits, suites, requests without TLS, and when a certificate expires."""

from __future__ import annotations

import asyncio
import contextlib
import http.client
import socket
import ssl
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import uvloop

from support.services.tls import CA, EXPIRED, SERVER, caller_context
from tensor_round_service.process import certificates, tls
from tensor_round_service.process.tls import ServerTLS, server_context
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


PLAIN = {
    "a request": b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n",
    "a method that OpenSSL does not know": b"DELETE /x HTTP/1.1\r\nHost: localhost\r\n\r\n",
    "a long body": b"POST / HTTP/1.1\r\nContent-Length: 100000\r\n\r\n" + bytes(100_000),
    "HTTP/2": b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
}


@pytest.mark.parametrize("sent", PLAIN.values(), ids=PLAIN)
def test_plain_http_is_answered_in_text(loop: asyncio.AbstractEventLoop, sent: bytes) -> None:
    """And what is neither TLS nor HTTP gets nothing."""

    def call(port: int) -> bytes:
        with socket.create_connection(("127.0.0.1", port), 10) as plug:
            plug.sendall(b"SSH-2.0-x\r\n")
            assert not plug.recv(100)
        with socket.create_connection(("127.0.0.1", port), 10) as plug:
            plug.sendall(sent)
            response = http.client.HTTPResponse(plug)
            response.begin()
            assert (response.status, response.will_close) == (400, True)
            return response.read()

    async def wait() -> None:
        options = ServerTLS(Settings(ssl_certfile=SERVER)).options
        server = await loop.create_server(asyncio.Protocol, "127.0.0.1", 0, **options)
        told = await asyncio.to_thread(call, server.sockets[0].getsockname()[1])
        assert b"https://" in told
        server.close()

    loop.run_until_complete(wait())


def test_suites_have_authenticated_encryption_and_forward_secrecy() -> None:
    for suite in server_context(SERVER).get_ciphers():
        assert suite["aead"]
        assert suite["protocol"] == "TLSv1.3" or suite["kea"] == "kx-ecdhe"


#: Of certificates with a year of two digits, and of four.
ENDS = {EXPIRED: "Jan  2 00:00:00 2020 GMT", SERVER: "Oct 28 11:10:22 2126 GMT"}


@pytest.mark.parametrize(("path", "end"), ENDS.items(), ids=lambda it: getattr(it, "name", ""))
def test_certificate_that_has_less_than_a_week_left_is_a_warning(path: Path, end: str) -> None:
    moment = certificates.expiry(path.read_bytes())
    assert moment == ssl.cert_time_to_seconds(end)
    week = 7 * 86400
    told = [certificates.warning(path, moment, moment - left) for left in (week + 1, week, 0)]
    assert told[0] is None
    assert f"{path} expires at 2" in str(told[1])
    assert f"{path} expired at 2" in str(told[2])


def test_chain_expires_with_its_first_certificate() -> None:
    chain = b"".join(path.read_bytes() for path in (CA, SERVER, EXPIRED, CA))
    assert certificates.expiry(chain) == certificates.expiry(EXPIRED.read_bytes())
    assert certificates.expiry(b"no certificate") is None
