"""A connection while its request comes, its response is read, and it closes: peers and rates."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

import pytest

from support.http.http1_site import (
    CLOSE,
    LATE,
    LIMITS,
    Gate,
    Peer,
    answer,
    asked,
    fixed,
    give,
    pass_time,
    serving,
    text,
    until,
)
from tensor_round.contract.errors import ReceiveTimeout
from tensor_round_service.net.head import MalformedRequest
from tensor_round_service.net.http1.head import split_head
from tensor_round_service.net.http1.receiving import CONTINUE, DIRECT_BYTES, ReceivedRequest
from tensor_round_service.net.lifecycle import State
from tensor_round_service.net.limits import ConnectionLimits
from tensor_round_service.net.request import Request
from tensor_round_service.net.response import Response

pytestmark = pytest.mark.anyio


def received(length: int = 0, early: bytes = b"") -> ReceivedRequest:
    found = split_head(asked(length=length))
    assert found is not None
    return ReceivedRequest(found[0], memoryview(early))


@asynccontextmanager
async def being_served(
    sent: bytes = asked(), **options: bool
) -> AsyncIterator[tuple[Peer, Any, Gate]]:
    """A peer, its request, and the gate that its answer waits for."""
    gate = Gate()
    async with serving(gate, **options) as site, site.peer() as peer:
        await peer.send(sent)
        await until(lambda: gate.requests)
        yield peer, gate.requests[0], gate
        gate.opens.set()


@pytest.mark.parametrize("on_unix", [False, True])
async def test_request_has_its_peers_address(on_unix: bool) -> None:
    async with being_served(on_unix=on_unix) as (peer, request, _):
        assert request.client == (None if on_unix else peer.sock.getsockname())
        assert request.scheme == "http"


@pytest.mark.parametrize(("version", "probe"), [("1.1", CONTINUE), ("1.0", b"")])
async def test_half_closed_client_is_probed_once_if_its_version_has_interim_responses(
    version: str, probe: bytes
) -> None:
    async with being_served(asked(version=version)) as (peer, request, gate):
        assert request.is_gone() is False
        # A client that still sends is not asked.
        with pytest.raises(BlockingIOError):
            peer.sock.recv(1)
        peer.stop_sending()
        await until(lambda: peer.connection._at_eof)
        assert request.is_gone() is False
        assert request.is_gone() is False
        gate.opens.set()
        assert await peer.end() == probe + answer(b"", CLOSE)


async def test_half_closed_client_that_does_not_read_the_probe_is_gone() -> None:
    async with being_served() as (peer, request, gate):
        peer.sock.close()
        assert request.is_gone() is False
        await until(request.is_gone)
        assert request.is_gone() is True
        assert not request.is_lost
        await peer.state(State.WORKING)
        gate.opens.set()
        await peer.state(State.CLOSED)


async def test_half_close_under_tls_is_a_disconnect() -> None:
    async with being_served(encrypted=True) as (peer, request, _):
        assert request.scheme == "https"
        assert request.is_gone() is False
        peer.connection.transport.pause_reading()
        peer.writer.transport.abort()
        await until(request.is_gone)


async def test_peer_that_was_reset_or_has_no_socket_is_gone() -> None:
    async with being_served() as (peer, request, _):
        transport = peer.connection.transport
        await peer.leave()
        assert request.is_gone() is True
        assert request.is_lost is True
    other = received()
    other.transport = transport
    await until(lambda: transport.get_extra_info("socket").fileno() == -1)
    assert other.is_gone() is True
    other.transport = asyncio.Transport()
    assert other.is_gone() is True


@pytest.mark.parametrize("encrypted", [False, True], ids=["plain", "tls"])
async def test_progress_is_reported_while_a_body_comes_except_under_tls(encrypted: bool) -> None:
    size = 4 * DIRECT_BYTES
    told: list[int] = []

    async def respond(request: Request) -> Response:
        body = memoryview(bytearray(size))
        assert await request.receive_into(body, told.append) == size
        assert await request.receive_into(body) == 0
        return text(body)

    async with serving(respond, encrypted=encrypted) as site, site.peer() as peer:
        await peer.send(asked(length=size) + b"a")
        await peer.state(State.RECEIVING)
        give(peer.connection, b"b" * (size - 11))
        give(peer.connection, b"c" * 9)
        give(peer.connection, b"d")
        await peer.response(b"a" + b"b" * (size - 11) + b"c" * 9 + b"d")
        assert told == ([] if encrypted else [10, 1])


async def test_malformed_chunks_are_refused_where_the_route_waits(peer: Peer) -> None:
    async def respond(request: Request) -> Response:
        body = memoryview(bytearray(10))
        with pytest.raises(MalformedRequest):
            await request.receive_into(body)
        assert isinstance(request, ReceivedRequest)
        assert not request.is_waiting
        raise MalformedRequest

    peer.handler.answer = respond
    await peer.send(b"POST /p HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n")
    await peer.state(State.RECEIVING)
    give(peer.connection, b"x\r\n")
    assert peer.connection.state is State.WORKING
    assert (await peer.end()).startswith(b"HTTP/1.1 400 ")
    assert peer.handler.statuses == [400]


async def test_a_body_below_the_rate_is_refused(peer: Peer) -> None:
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
    ((path, error),) = peer.handler.refused
    assert (path, str(error)) == ("/p", "the body was received at less than 10 bytes a second")
    assert peer.handler.statuses == [400]


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


DEFAULT = ConnectionLimits()
GRACE = replace(LIMITS, min_receive_rate=1, receive_timeout=100, rate_interval=1, grace_bytes=1000)
HASTY = replace(GRACE, min_receive_rate=100, receive_timeout=1)
#: Limits, bytes that came before a route reads, then the bytes until each check and whether it
#: is held; after the last of them nothing comes, and so many further checks are held.
RATES: dict[str, tuple[ConnectionLimits, int, list[tuple[int, bool]], int]] = {
    "one that has not begun has ten seconds": (DEFAULT, 0, [], 10),
    "one that has begun has a second": (DEFAULT, DEFAULT.min_receive_rate, [], 1),
    "a little is no beginning": (GRACE, 999, [], 100),
    "one that has begun has little grace": (GRACE, 1000, [], 1),
    "a little further is no beginning": (GRACE, 0, [(999, True)], 100),
    "one that begins loses its grace": (GRACE, 0, [(1000, True)], 1),
    "a byte too few": (GRACE, 998, [(1, True)], 100),
    "the last byte of a beginning": (GRACE, 998, [(2, True)], 1),
    "grace is lost once": (GRACE, 1000, [(500, True)], 100),
    "a rate is that of the last interval": (
        HASTY,
        5000,
        [(0, True), (100, True), (99, False), (101, True), (99, False)],
        0,
    ),
}


@pytest.mark.parametrize(("limits", "early", "steps", "checks"), RATES.values(), ids=RATES)
def test_rate_of_a_body(
    limits: ConnectionLimits, early: int, steps: list[tuple[int, bool]], checks: int
) -> None:
    request = received(1 << 20, bytes(early))
    for further, is_held in [*steps, *[(0, True)] * checks, (0, False)]:
        request.start_rate(limits)
        request.keep(memoryview(bytes(further)))
        assert request.holds_rate() is is_held


def test_bytes_that_come_before_a_route_reads_do_not_hold_its_rate() -> None:
    request = received(100_000, bytes(5000))
    request.start_rate(HASTY)
    assert request.holds_rate() is True  # by its grace
    request.keep(memoryview(bytes(5000)))
    request.start_rate(HASTY)
    assert request.holds_rate() is False


FOREVER = float("inf")
#: More than the kernel takes.
LARGE = bytes(32 << 20)
#: A rate of 10 bytes a second may be missed for so many checks of 1000 s, as its grace is 10000 s.
CHECKS_IN_GRACE = 10


@pytest.mark.parametrize(
    ("uses", "grace"), [(0, LIMITS.first_grace), (1, LIMITS.drain_grace)], ids=["new", "used"]
)
async def test_an_idle_connection_is_closed_after_its_grace(
    peer: Peer, uses: int, grace: float
) -> None:
    for _ in range(uses):
        await peer.send(asked())
        await peer.response()
    peer.connection.shutdown()
    await pass_time(grace - LATE)
    assert peer.connection.state is State.IDLE
    await pass_time(LATE)
    assert peer.connection.state is State.CLOSING
    assert peer.connection._deadline.due == FOREVER
    # The peer may still send, and gets no reset.
    assert await peer.end() == b""
    give(peer.connection, asked())
    await pass_time(LIMITS.drain_grace - LATE)
    assert peer.connection.state is State.CLOSING
    await pass_time(LATE)
    await peer.state(State.CLOSED)
    assert peer.connection.transport is None
    assert len(peer.handler.exchanges) == uses


async def test_client_that_closes_in_time_is_not_aborted(peer: Peer) -> None:
    peer.connection.shutdown()
    await pass_time(LIMITS.first_grace)
    peer.stop_sending()
    await peer.state(State.CLOSED)
    await pass_time(LIMITS.drain_grace)


async def test_a_request_within_the_grace_is_the_last(peer: Peer) -> None:
    gate = peer.handler.answer = Gate()
    peer.connection.shutdown()
    await peer.send(asked()[:-1])
    await peer.state(State.HEAD)
    await pass_time(LIMITS.first_grace)
    assert peer.connection.state is State.HEAD
    await peer.send(asked()[-1:])
    await until(lambda: gate.waiting)
    await pass_time(LIMITS.first_grace)
    gate.opens.set()
    assert await peer.end() == answer(b"", CLOSE)
    await peer.state(State.CLOSED)


@pytest.mark.parametrize(
    ("sent", "got"),
    [
        (asked(), answer(b"", CLOSE)),
        (asked() + b"\r\n", answer()),
        (asked() + asked(), answer() + answer(b"", CLOSE)),
        (asked("Connection: close") + asked(), answer(b"", CLOSE)),
    ],
    ids=["one", "line-end", "two", "close"],
)
async def test_shutdown_serves_the_requests_already_sent(
    peer: Peer, sent: bytes, got: bytes
) -> None:
    gate = peer.handler.answer = Gate()
    give(peer.connection, sent)
    assert peer.connection.state is State.WORKING
    peer.connection.shutdown()
    gate.opens.set()
    assert await peer.end() == got
    peer.stop_sending()
    await pass_time(LIMITS.linger_before)
    await peer.state(State.CLOSED)
    await pass_time(LIMITS.first_grace)


async def test_a_head_that_has_begun_may_be_completed(peer: Peer) -> None:
    gate = peer.handler.answer = Gate()
    give(peer.connection, asked() + asked()[:9])
    peer.connection.shutdown()
    gate.opens.set()
    await peer.response()
    await peer.state(State.HEAD)
    await peer.send(asked()[9:])
    assert await peer.end() == answer(b"", CLOSE)


@pytest.mark.parametrize("reads", [False, True])
async def test_under_tls_an_idle_connection_says_so_and_does_not_wait_for_ever(
    reads: bool,
) -> None:
    limits = replace(LIMITS, drain_grace=5)  # asyncio's own patience with TLS ends after 30 s
    async with serving(limits=limits, encrypted=True) as site, site.peer() as peer:
        if not reads:
            peer.writer.transport.pause_reading()
        peer.connection.shutdown()
        await pass_time(LIMITS.first_grace)
        assert peer.connection.state is State.CLOSING
        if reads:
            assert await peer.end() == b""
            await peer.state(State.CLOSED)
        else:
            assert peer.is_due_in(LIMITS.rate_interval)
            await asyncio.sleep(0.01)
            assert peer.connection.state is State.CLOSING
        await pass_time(limits.drain_grace)
        await peer.state(State.CLOSED)


@pytest.mark.parametrize("sends_on", [False, True])
async def test_a_refused_sender_has_time_to_read_why(peer: Peer, sends_on: bool) -> None:
    give(peer.connection, b"\0")
    assert peer.connection.state is State.LINGERING
    assert not peer.connection.transport.is_reading()
    assert peer.is_due_in(LIMITS.linger_before)
    assert (await peer.end()).startswith(b"HTTP/1.1 400 ")
    await pass_time(LIMITS.linger_before)
    assert peer.connection.state is State.DROPPING
    assert peer.is_due_in(LIMITS.linger_seconds)
    assert peer.connection.transport.is_reading()
    give(peer.connection, bytes(LIMITS.linger_bytes))
    assert peer.connection.state is State.DROPPING
    # Others have their turn before more is read.
    assert not peer.connection.transport.is_reading()
    await until(peer.connection.transport.is_reading)
    if sends_on:
        give(peer.connection, b"1")
        assert peer.connection.state is State.CLOSING
    else:
        await pass_time(LIMITS.linger_seconds)
    await peer.state(State.CLOSED)
    assert peer.connection._deadline.due == FOREVER


async def test_a_refusal_under_tls() -> None:
    async with serving(encrypted=True) as site, site.peer() as peer:
        await peer.send(b"\0")
        assert await peer.read(13) == b"HTTP/1.1 400 "
        assert peer.connection.state is State.LINGERING


async def stalled(peer: Peer) -> None:
    """Wait until the kernels take no more of a response, for several turns of a busy loop."""
    held: list[int] = []
    while len(held) < 5 or len(set(held[-5:])) > 1:
        await asyncio.sleep(0.02)
        held.append(peer.connection._writer.unread)


async def checks(peer: Peer) -> int:
    """How many checks a connection outlasts."""
    for count in range(100):
        assert peer.is_due_in(LIMITS.rate_interval)
        await pass_time(LIMITS.rate_interval)
        if peer.connection.state is State.CLOSED:
            return count
    return 100


SLOW = [
    (
        "tensor_round_service.net.lifecycle",
        logging.WARNING,
        "slow reader: aborted below 10 bytes a second",
    )
]


@pytest.mark.parametrize("encrypted", [False, True], ids=["plain", "tls"])
async def test_client_that_does_not_read_a_response_is_aborted(
    encrypted: bool, caplog: pytest.LogCaptureFixture
) -> None:
    async with serving(fixed(text(LARGE)), encrypted=encrypted) as site:
        async with site.peer(receives=4096) as peer:
            if encrypted:
                peer.writer.transport.pause_reading()
            await peer.send(asked())
            await peer.state(State.SENDING)
            await stalled(peer)
            assert await checks(peer) == CHECKS_IN_GRACE
        assert caplog.record_tuples == SLOW
        await until(lambda: site.handler.exchanges)
        assert site.handler.statuses == [None]


async def test_client_that_reads_at_the_rate_gets_the_response() -> None:
    # Each read takes more than its kernel holds, so that more follows at once.
    async with serving(fixed(text(LARGE))) as site, site.peer(receives=64 << 10) as peer:
        await peer.send(asked())
        await peer.state(State.SENDING)
        for _ in range(3 * CHECKS_IN_GRACE):
            await peer.read(256 << 10)
            assert peer.is_due_in(LIMITS.rate_interval)
            await pass_time(LIMITS.rate_interval)
            assert peer.connection.state is State.SENDING
        # What is on its way counts at a later check.
        assert CHECKS_IN_GRACE <= await checks(peer) < 2 * CHECKS_IN_GRACE


async def test_write_buffer_of_a_closing_connection_has_a_minimum_rate(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with serving() as site, site.peer(receives=4096) as peer:
        peer.connection.transport.write(LARGE)
        await pass_time(LIMITS.receive_timeout)
        assert peer.connection.state is State.CLOSING
        assert await checks(peer) == CHECKS_IN_GRACE
        assert caplog.record_tuples == SLOW


async def test_a_short_response_waits_for_its_reader_too(peer: Peer) -> None:
    content = bytes(60_000)
    peer.handler.answer = fixed(text(content))
    peer.connection.transport.write(LARGE)
    await peer.send(asked())
    await peer.state(State.SENDING)
    assert not peer.handler.exchanges
    assert peer.is_due_in(LIMITS.rate_interval)
    assert await peer.read(len(LARGE)) == LARGE
    await peer.response(content)
    await peer.state(State.IDLE)
    assert peer.handler.statuses == [200]
