"""A connection with more than one turn's work: others come between, and nothing is lost."""

from __future__ import annotations

import asyncio
import time

import pytest

from support.http.http1_site import (
    LIMITS,
    Peer,
    Site,
    answer,
    asked,
    give,
    pass_time,
    serving,
    text,
)
from tensor_round_service.net.http1 import connection
from tensor_round_service.net.http1.receiving import TURN_CHUNKS
from tensor_round_service.net.lifecycle import State
from tensor_round_service.net.request import Request
from tensor_round_service.net.response import Response
from tensor_round_service.net.turns import TURN_REQUESTS, TURN_SECONDS

pytestmark = pytest.mark.anyio
MANY = 1000


def flood(name: str, count: int = MANY) -> bytes:
    return asked(line=f"POST /{name}") * count


class Order:
    """A handler's answer that notes the paths that it was asked for."""

    def __init__(self, seconds: float = 0.0) -> None:
        self.paths: list[str] = []
        self.seconds = seconds

    async def __call__(self, request: Request) -> Response:
        self.paths.append(request.head.path)
        time.sleep(self.seconds)
        return text(b"")

    def __len__(self) -> int:
        return len(self.paths)


async def responses(peer: Peer, count: int = MANY) -> None:
    """Read so many, and nothing else."""
    assert await peer.read(len(answer()) * count) == answer() * count


async def test_requests_that_never_wait_leave_turns_to_others(site: Site) -> None:
    order = site.handler.answer = Order()
    async with site.peer() as first, site.peer() as second, site.peer() as third:
        give(first.connection, flood("first"))
        assert len(order) == TURN_REQUESTS
        assert first.connection.state is State.QUEUED
        give(second.connection, flood("second"))
        give(third.connection, flood("third", 1))
        assert order.paths[TURN_REQUESTS:] == ["/second", "/third"]
        for peer, count in ((first, MANY), (second, MANY), (third, 1)):
            await responses(peer, count)
            await peer.state(State.IDLE)
    # The row goes round: one turn of the first, one of the second.
    begin = TURN_REQUESTS + 2
    for name in ("/first", "/second", "/first"):
        assert order.paths[begin : begin + TURN_REQUESTS] == [name] * TURN_REQUESTS
        begin += TURN_REQUESTS
    assert len(order) == 2 * MANY + 1


async def test_a_turn_of_slow_requests_is_over_sooner(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection, "TURN_SECONDS", TURN_SECONDS)
    order = site.handler.answer = Order(2 * TURN_SECONDS)
    async with site.peer() as peer:
        give(peer.connection, flood("slow", 3))
        assert len(order) == 1
        await responses(peer, 3)


async def test_requests_behind_one_that_waits_line_up(site: Site) -> None:
    order = Order()

    async def answered(request: Request) -> Response:
        await asyncio.sleep(0)
        return await order(request)

    site.handler.answer = answered
    async with site.peer() as first, site.peer() as second:
        give(first.connection, flood("first", 3))
        give(second.connection, flood("second", 3))
        for peer in (first, second):
            await responses(peer, 3)
    assert order.paths == ["/first", "/second"] * 3


@pytest.mark.parametrize("encrypted", [False, True], ids=["plain", "tls"])
async def test_a_flood_of_several_reads_loses_nothing(encrypted: bool) -> None:
    order = Order()
    async with serving(order, encrypted=encrypted) as site, site.peer() as peer:
        sent = asyncio.create_task(peer.send(flood("first", 5 * MANY)))
        await responses(peer, 5 * MANY)
        await sent
        await peer.state(State.IDLE)
    assert len(order) == 5 * MANY


async def test_a_read_that_fills_the_buffer_ends_the_turn(site: Site) -> None:
    """The transport would read on, up to 32 times."""
    async with site.peer() as peer:
        size = len(peer.connection.get_buffer(-1))
        begin = asked(length=size // 2) + bytes(size // 2)
        rest = size - len(begin) - len(asked(length=10_000))
        for missing, state in ((1, State.IDLE), (0, State.QUEUED)):
            give(peer.connection, begin + asked(length=rest - missing) + bytes(rest - missing))
            assert peer.connection.state is state


async def test_a_queued_connection_is_not_idle(site: Site) -> None:
    async with site.peer() as peer:
        give(peer.connection, flood("first"))
        loop = asyncio.get_running_loop()
        loop.call_soon(give, peer.connection, flood("late", 1))  # as if reading was not paused
        await pass_time(2 * LIMITS.keep_alive)
        await responses(peer, MANY + 1)
        await peer.state(State.IDLE)
        assert peer.is_due_in(LIMITS.keep_alive)


async def test_a_drain_serves_what_has_been_sent(site: Site) -> None:
    async with site.peer() as peer:
        give(peer.connection, flood("read"))
        await peer.send(flood("unread"))  # reading is paused
        peer.connection.shutdown()
        await pass_time(2 * LIMITS.drain_grace)
        await responses(peer, 2 * MANY - 1)
        assert (await peer.end()).endswith(b"connection: close\r\n\r\n")
    assert site.handler.statuses == [200] * 2 * MANY


async def test_requests_of_a_peer_that_has_stopped_sending_are_served(site: Site) -> None:
    async with site.peer() as peer:
        give(peer.connection, flood("read"))
        await peer.send(flood("unread"))
        peer.stop_sending()
        assert (await peer.end()).count(b"HTTP/1.1 200 OK") == 2 * MANY
    async with site.peer() as peer:
        give(peer.connection, flood("read"))
        assert peer.connection.eof_received()  # as from a transport that reads on
        assert (await peer.end()).count(b"HTTP/1.1 200 OK") == MANY


async def test_a_peer_that_has_left_gives_its_turns_to_others(site: Site) -> None:
    async with site.peer() as first, site.peer() as second:
        give(first.connection, flood("first"))
        first.connection.transport.abort()
        give(second.connection, flood("second"))
        await responses(second)
    assert len(site.handler.exchanges) < 2 * MANY


async def test_small_chunks_leave_turns_to_others(site: Site) -> None:
    """Of a body whose peer has stopped sending, too, and that is asked for in parts."""
    count = 8 * TURN_CHUNKS
    order: list[str] = []

    async def halves(request: Request) -> Response:
        body = memoryview(bytearray(count))
        for half in (body[: count // 2], body[count // 2 :]):
            assert await request.receive_into(half) == len(half)
        if not request.is_at_end:
            assert not await request.receive_into(memoryview(bytearray(1)))
        order.append(request.head.path)
        return text(body)

    site.handler.answer = halves
    chunked = asked("Transfer-Encoding: chunked", line="POST /chunks")
    chunked = chunked.replace(b"Content-Length: 0\r\n", b"") + b"1\r\nx\r\n" * count + b"0\r\n\r\n"
    async with site.peer() as peer, site.peer() as other:
        give(peer.connection, chunked + asked(line="POST /next", length=count) + bytes(count))
        assert peer.connection.state is State.RECEIVING
        peer.stop_sending()
        give(other.connection, asked(line="POST /other", length=count) + bytes(count))
        await other.response(bytes(count))
        await peer.response(b"x" * count)
        assert (await peer.end()).endswith(bytes(count))
    assert order == ["/other", "/chunks", "/next"]
