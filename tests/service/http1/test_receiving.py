"""A request as its route sees it: whose it is, whether its caller is gone, and at which rate."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

import pytest

from support.http.http1_site import (
    CLOSE,
    LIMITS,
    Gate,
    Peer,
    answer,
    asked,
    give,
    pass_time,
    serving,
    text,
    until,
)
from tensor_round.contract.errors import ReceiveTimeout
from tensor_round_service.http1.context import ConnectionLimits
from tensor_round_service.http1.head import MalformedRequest, split_head
from tensor_round_service.http1.lifecycle import State
from tensor_round_service.http1.receiving import CONTINUE, DIRECT_BYTES, ReceivedRequest
from tensor_round_service.http1.request import Request
from tensor_round_service.http1.response import Response

pytestmark = pytest.mark.anyio


def received(length: int = 0, early: bytes = b"") -> ReceivedRequest:
    found = split_head(asked(length=length))
    assert found is not None
    return ReceivedRequest(found[0], memoryview(early))


class Asked:
    """A handler's answer that keeps the requests."""

    def __init__(self) -> None:
        self.gate = Gate()
        self.requests: list[Any] = []

    async def __call__(self, request: Request) -> Response:
        self.requests.append(request)
        return await self.gate(request)


@asynccontextmanager
async def being_served(
    sent: bytes = asked(), *, on_unix: bool = False
) -> AsyncIterator[tuple[Peer, ReceivedRequest, asyncio.Event]]:
    """A peer, its request, and the event for which the route waits."""
    respond = Asked()
    async with serving(respond, on_unix=on_unix) as site, site.peer() as peer:
        await peer.send(sent)
        await until(lambda: respond.requests)
        yield peer, respond.requests[0], respond.gate.opens
        respond.gate.opens.set()


@pytest.mark.parametrize("on_unix", [False, True])
async def test_request_has_its_peers_address(on_unix: bool) -> None:
    async with being_served(on_unix=on_unix) as (peer, request, opens):
        assert request.client == (None if on_unix else peer.sock.getsockname())
        assert request.scheme == "http"
        opens.set()
        await peer.response()


async def test_half_closed_client_is_probed_once() -> None:
    async with being_served() as (peer, request, opens):
        assert request.is_gone() is False
        # A client that still sends is not asked.
        with pytest.raises(BlockingIOError):
            peer.sock.recv(1)
        peer.stop_sending()
        await until(lambda: peer.connection._at_eof)
        assert request.is_gone() is False
        assert request.is_gone() is False
        opens.set()
        assert await peer.end() == CONTINUE + answer(b"", CLOSE)


async def test_half_closed_client_that_does_not_read_the_probe_is_gone() -> None:
    async with being_served() as (peer, request, opens):
        peer.sock.close()
        assert request.is_gone() is False
        await until(request.is_gone)
        assert request.is_gone() is True
        assert not request.is_lost
        await peer.state(State.WORKING)
        opens.set()
        await peer.state(State.CLOSED)


async def test_half_closed_client_of_http_1_0_is_not_probed() -> None:
    async with being_served(asked(version="1.0")) as (peer, request, opens):
        peer.stop_sending()
        await until(lambda: peer.connection._at_eof)
        assert request.is_gone() is False
        opens.set()
        assert await peer.end() == answer(b"", CLOSE)
        await peer.state(State.CLOSED)


async def test_half_close_under_tls_is_a_disconnect() -> None:
    respond = Asked()
    async with serving(respond, encrypted=True) as site:
        _, writer, connection = await site.call()
        writer.write(asked())
        await until(lambda: respond.requests)
        (request,) = respond.requests
        assert request.scheme == "https"
        assert request.is_gone() is False
        connection.transport.pause_reading()
        writer.transport.abort()
        await until(request.is_gone)
        respond.gate.opens.set()


async def test_peer_that_was_reset_or_has_no_socket_is_gone() -> None:
    respond = Asked()
    async with serving(respond) as site:
        async with site.peer() as peer:
            await peer.send(asked())
            await until(lambda: respond.requests)
            transport = peer.connection.transport
            await peer.leave()
            assert respond.requests[0].is_gone() is True
            assert respond.requests[0].is_lost is True
        respond.gate.opens.set()
    request = received()
    request.transport = transport
    await until(lambda: transport.get_extra_info("socket").fileno() == -1)
    assert request.is_gone() is True
    request.transport = asyncio.Transport()
    assert request.is_gone() is True


@pytest.mark.parametrize("encrypted", [False, True], ids=["plain", "tls"])
async def test_progress_is_reported_while_a_body_comes_except_under_tls(encrypted: bool) -> None:
    size = 4 * DIRECT_BYTES
    told: list[int] = []

    async def respond(request: Request) -> Response:
        body = memoryview(bytearray(size))
        assert await request.receive_into(body, told.append) == size
        assert await request.receive_into(body) == 0
        return text(body)

    async with serving(respond, encrypted=encrypted) as site:
        if encrypted:
            reader, writer, connection = await site.call()
            writer.write(asked(length=size) + b"a")
        else:
            context = site.peer()
            peer = await context.__aenter__()
            connection = peer.connection
            await peer.send(asked(length=size) + b"a")
        await until(lambda: connection.state is State.RECEIVING)
        give(connection, b"b" * (size - 11))
        give(connection, b"c" * 9)
        give(connection, b"d")
        expected = answer(b"a" + b"b" * (size - 11) + b"c" * 9 + b"d")
        if encrypted:
            assert await reader.readexactly(len(expected)) == expected
            writer.transport.abort()
        else:
            assert await peer.read(len(expected)) == expected
            await context.__aexit__(None, None, None)
        assert told == ([] if encrypted else [10, 1])


async def test_malformed_chunks_are_refused_where_the_route_waits() -> None:
    async def respond(request: Request) -> Response:
        body = memoryview(bytearray(10))
        with pytest.raises(MalformedRequest):
            await request.receive_into(body)
        assert isinstance(request, ReceivedRequest)
        assert not request.is_waiting
        raise MalformedRequest

    async with serving(respond) as site, site.peer() as peer:
        await peer.send(b"POST /p HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n")
        await peer.state(State.RECEIVING)
        give(peer.connection, b"x\r\n")
        assert peer.connection.state is State.WORKING
        assert (await peer.end()).startswith(b"HTTP/1.1 400 ")
        assert site.handler.statuses == [400]


async def test_a_body_below_the_rate_is_refused() -> None:
    async with serving() as site, site.peer() as peer:
        await peer.send(asked(length=10_000), b"a")
        await peer.state(State.RECEIVING)
        # Its grace is 10000 s.
        for _ in range(10):
            assert peer.is_due_in(LIMITS.rate_interval)
            await pass_time(LIMITS.rate_interval)
            assert peer.connection.state is State.RECEIVING
        await pass_time(LIMITS.rate_interval)
        assert peer.connection.state is State.LINGERING
        assert await peer.end() == answer(b"ReceiveTimeout", CLOSE, status=b"400 Bad Request")
        ((path, error),) = site.handler.refused
        assert (path, str(error)) == ("/p", "the body was received at less than 10 bytes a second")
        assert site.handler.statuses == [400]


async def test_bytes_after_the_timeout_are_not_received_into_the_body() -> None:
    limits = replace(LIMITS, rate_interval=2 * LIMITS.receive_timeout)
    async with serving(limits=limits) as site, site.peer() as peer:
        give(peer.connection, asked(length=2 * DIRECT_BYTES))
        assert len(peer.connection.get_buffer(-1)) == 2 * DIRECT_BYTES
        peer.connection._on_deadline()
        assert peer.connection.state is State.WORKING
        assert len(peer.connection.get_buffer(-1)) > 2 * DIRECT_BYTES
        give(peer.connection, b"a")
        assert (await peer.end()).startswith(b"HTTP/1.1 400 ")
        assert isinstance(site.handler.refused[0][1], ReceiveTimeout)


def test_by_default_a_body_that_comes_has_a_second_and_one_that_does_not_has_ten() -> None:
    limits = ConnectionLimits()
    for early, checks in [(0, 10), (limits.min_receive_rate, 1)]:
        request = received(1 << 20, bytes(early))
        request.start_rate(limits)
        for _ in range(checks):
            assert request.holds_rate(limits) is True
        assert request.holds_rate(limits) is False


GRACE = replace(LIMITS, min_receive_rate=1, receive_timeout=100, rate_interval=1, grace_bytes=1000)


@pytest.mark.parametrize(("early", "checks"), [(999, 100), (1000, 1)])
def test_a_body_that_has_begun_has_little_grace(early: int, checks: int) -> None:
    request = received(10_000, bytes(early))
    request.start_rate(GRACE)
    for _ in range(checks):
        assert request.holds_rate(GRACE) is True
        request.start_rate(GRACE)
    assert request.holds_rate(GRACE) is False


@pytest.mark.parametrize(
    ("before", "further", "checks"), [(0, 999, 100), (0, 1000, 1), (998, 1, 100), (998, 2, 1)]
)
def test_a_body_that_begins_loses_its_grace(before: int, further: int, checks: int) -> None:
    request = received(10_000, bytes(before))
    request.start_rate(GRACE)
    request.keep(memoryview(bytes(further)))
    assert request.holds_rate(GRACE) is True
    for _ in range(checks):
        assert request.holds_rate(GRACE) is True
    assert request.holds_rate(GRACE) is False


def test_a_body_loses_its_grace_once() -> None:
    request = received(10_000, bytes(1000))
    request.start_rate(GRACE)
    request.keep(memoryview(bytes(500)))
    for _ in range(101):
        assert request.holds_rate(GRACE) is True
    assert request.holds_rate(GRACE) is False


def test_a_rate_is_that_of_the_last_interval_while_a_route_reads() -> None:
    limits = replace(GRACE, min_receive_rate=100, receive_timeout=1)
    request = received(100_000, bytes(5000))
    request.start_rate(limits)
    assert request.holds_rate(limits) is True  # by its grace
    for further, is_held in [(100, True), (99, False), (101, True), (99, False)]:
        request.keep(memoryview(bytes(further)))
        assert request.holds_rate(limits) is is_held
    request.keep(memoryview(bytes(5000)))
    request.start_rate(limits)
    assert request.holds_rate(limits) is False
