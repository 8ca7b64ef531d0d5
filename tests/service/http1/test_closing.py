"""How connections close: drained, lingering, for want of room, or because a reader is slow."""

from __future__ import annotations

import asyncio
import logging
from dataclasses import replace

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
from tensor_round_service.http1.lifecycle import State

pytestmark = pytest.mark.anyio
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
        "tensor_round_service.http1.lifecycle",
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
            await asyncio.sleep(0.05)
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
