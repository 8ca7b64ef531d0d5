"""How requests end: who is counted as gone, what is logged, and when memory is free."""

from __future__ import annotations

import asyncio
import gc
import logging
import weakref
from typing import Any

import pytest

from support.http.http1_site import (
    CLOSE,
    PREALLOCATED,
    Gate,
    Peer,
    Server,
    Site,
    answer,
    asked,
    fixed,
    give,
    owned,
    serving,
    text,
    until,
)
from tensor_round.contract.errors import Draining, Overloaded
from tensor_round_service.net.bodies import ClientDisconnected
from tensor_round_service.net.lifecycle import State
from tensor_round_service.net.request import Request
from tensor_round_service.net.response import FixedFields, Response
from tensor_round_service.net.server import ServerContext

pytestmark = pytest.mark.anyio
PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"


@pytest.mark.parametrize("surplus", [b"", b"\r\n", b"GET /q"], ids=["none", "line-end", "head"])
async def test_half_closed_client_gets_all_due_responses(peer: Peer, surplus: bytes) -> None:
    gate = peer.handler.answer = Gate()
    await peer.send(asked(length=1), b"a")
    await until(lambda: gate.waiting)
    await peer.send(asked(length=1), b"b", surplus)
    peer.stop_sending()
    await until(lambda: not peer.connection.transport.is_reading())
    peer.connection.transport.resume_reading()
    await until(lambda: peer.connection._at_eof)
    gate.opens.set()
    assert await peer.end() == answer(b"a") + answer(b"b", *(() if surplus else (CLOSE,)))
    await peer.state(State.CLOSED)
    assert peer.handler.statuses == [200, 200]
    assert not peer.handler.left


async def test_half_close_between_two_responses_does_not_lose_the_second(peer: Peer) -> None:
    gate, kept = Gate(), list[bool]()
    peer.handler.answer = gate

    def stopped() -> None:
        if len(peer.handler.exchanges) == 1:
            assert peer.connection.state is State.IDLE
            kept.append(peer.connection.eof_received())

    peer.handler.logged = stopped
    await peer.send(asked())
    await until(lambda: gate.waiting)
    give(peer.connection, asked())
    gate.opens.set()
    assert await peer.end() == answer() + answer(b"", CLOSE)
    assert kept == [True]


@pytest.mark.parametrize(
    ("sent", "state", "left"),
    [
        (b"", State.IDLE, []),
        (asked(), State.IDLE, []),
        (asked()[:-1], State.HEAD, [("/p", 0)]),
        (asked(length=2) + b"a", State.RECEIVING, [("/p", 1)]),
    ],
    ids=["nothing", "between requests", "head", "body"],
)
async def test_half_close_within_a_request_counts_as_a_disconnect(
    peer: Peer, sent: bytes, state: State, left: list[tuple[str, int]]
) -> None:
    give(peer.connection, sent)
    assert peer.connection.state is state
    assert peer.connection.eof_received() is False
    peer.stop_sending()
    await peer.state(State.CLOSED)
    await until(lambda: peer.handler.left == left)


@pytest.mark.parametrize("leaves", [False, True], ids=["half-closed", "lost"])
async def test_half_closed_or_lost_client_is_not_asked_for_its_body(
    peer: Peer, leaves: bool
) -> None:
    gate = peer.handler.answer = Gate()
    await peer.send(asked(length=2), b"a")
    await until(lambda: gate.waiting)
    if leaves:
        await peer.leave()
    else:
        peer.stop_sending()
        await until(lambda: peer.connection._at_eof)
    gate.opens.set()
    assert leaves or await peer.end() == b""
    await until(lambda: peer.handler.exchanges)
    assert (peer.handler.statuses, peer.handler.left) == ([None], [("/p", 1)])


class Memory(bytearray):
    """Bytes whose end can be seen."""


async def test_disconnect_frees_the_memory_of_the_body(peer: Peer) -> None:
    kept: list[weakref.ref[Memory]] = []

    async def respond(request: Request) -> Response:
        memory = Memory(100_000)
        kept.append(weakref.ref(memory))
        await request.receive_into(memoryview(memory))
        raise AssertionError

    peer.handler.answer = respond
    gc.disable()
    try:
        await peer.send(asked(length=100_000), b"a")
        await peer.state(State.RECEIVING)
        await peer.leave()
        await until(lambda: not peer.server.tasks)
        assert kept[0]() is None
    finally:
        gc.enable()


async def test_route_can_free_a_received_body(peer: Peer) -> None:
    async def respond(request: Request) -> Response:
        memory = Memory(2)
        await request.receive_into(memoryview(memory))
        kept = weakref.ref(memory)
        del memory
        return text(b"free" if kept() is None else b"kept")

    peer.handler.answer = respond
    give(peer.connection, asked(length=2) + b"a")
    give(peer.connection, b"b")
    await peer.response(b"free")


#: The statuses of exchanges, who has left, and how the memory of responses was returned.
Outcome = tuple[list[int | None], list[tuple[str, int]], list[tuple[bool, bool]]]
FULL = Overloaded("full", retry_after=1)
REFUSED = answer(b"Overloaded", CLOSE, status=b"400 Bad Request")


@pytest.mark.parametrize("waits", [False, True], ids=["at-once", "later"])
@pytest.mark.parametrize(
    ("error", "status", "sent", "outcome"),
    [
        (None, 200, answer(b"abc", CLOSE), ([200], [], [(True, True)])),
        # Its head cannot be written, so a preallocated response is.
        (None, 999, PREALLOCATED, ([500], [], [(True, False)])),
        (ClientDisconnected(), 200, b"", ([None], [("/p", 1)], [])),
        (FULL, 200, REFUSED, ([400], [], [])),
        (KeyError("none"), 200, PREALLOCATED, ([500], [], [])),
    ],
    ids=["sent", "cannot be sent", "left", "refused", "failed"],
)
async def test_each_exchange_ends_with_its_status_and_count(
    peer: Peer, error: Exception | None, status: int, sent: bytes, outcome: Outcome, waits: bool
) -> None:
    response, owner = owned(b"abc", status)

    async def respond(_: Request) -> Response:
        if waits:
            await asyncio.sleep(0)
        if error is not None:
            raise error
        return response

    peer.handler.answer = respond
    await peer.send(asked("Connection: close", length=1) + b"a")
    assert await peer.end() == sent
    await until(lambda: not peer.server.tasks)
    assert (peer.handler.statuses, peer.handler.left, owner.ended) == outcome
    assert [each.received for each in peer.handler.exchanges] == [1]


@pytest.mark.parametrize(
    ("error", "outcome"),
    [(None, ([None], [("/p", 0)], [(True, False)])), (FULL, ([None], [("/p", 0)], []))],
)
async def test_response_or_refusal_for_a_lost_client_is_counted_once(
    peer: Peer, error: Exception | None, outcome: Outcome
) -> None:
    response, owner = owned(b"abc")

    async def respond(request: Request) -> Response:
        await asyncio.sleep(0)
        await peer.leave()
        assert request.is_gone()
        if error is not None:
            raise error
        return response

    peer.handler.answer = respond
    await peer.send(asked())
    await until(lambda: peer.handler.exchanges)
    assert (peer.handler.statuses, peer.handler.left, owner.ended) == outcome
    assert [each for _, each in peer.handler.refused] == ([] if error is None else [error])


async def test_an_error_within_a_response_aborts_it(peer: Peer) -> None:
    parts: list[Any] = [bytes(100_000), "no bytes"]
    peer.handler.answer = fixed(Response(200, FixedFields(), parts, []))
    await peer.send(asked())
    await peer.state(State.CLOSED)
    assert peer.handler.statuses == [None]
    assert not peer.handler.failures


async def test_a_handler_that_fails_again_ends_the_connection(
    peer: Peer, caplog: pytest.LogCaptureFixture
) -> None:
    async def respond(_: Request) -> Response:
        await asyncio.sleep(0)
        raise KeyError("first")

    peer.handler.answer = respond

    def failed() -> None:
        raise ValueError("second")

    peer.handler.logged = failed
    await peer.send(asked())
    assert await peer.end() == PREALLOCATED
    await peer.state(State.CLOSED)
    ((logger, level, message),) = caplog.record_tuples
    assert (logger.rpartition(".")[2], level) == ("connection", logging.ERROR)
    assert message == "a connection failed"
    assert not peer.server.tasks


@pytest.mark.parametrize("sent", [asked(), asked(length=2) + b"a"], ids=["works", "receives"])
async def test_a_request_that_is_cancelled_is_refused(peer: Peer, sent: bytes) -> None:
    gate = peer.handler.answer = Gate()
    await peer.send(sent)
    await until(lambda: peer.server.tasks)
    if sent != asked():
        gate.opens.set()
        await peer.state(State.RECEIVING)
    (task,) = peer.server.tasks
    task.cancel()
    assert await peer.read(13) == b"HTTP/1.1 400 "
    await until(lambda: not peer.server.tasks)
    ((path, error),) = peer.handler.refused
    assert path == "/p"
    assert isinstance(error, Draining)
    assert error.retry_after == 1
    assert (peer.handler.statuses, peer.handler.left) == ([400], [])


async def test_a_body_may_end_as_its_request_is_cancelled(peer: Peer) -> None:
    give(peer.connection, asked(length=2) + b"a")
    assert peer.connection.state is State.RECEIVING
    (task,) = peer.server.tasks
    await asyncio.sleep(0)  # it waits from now on
    task.cancel()
    give(peer.connection, b"b" + asked(length=1) + b"c")
    expected = answer(b"Draining", status=b"400 Bad Request") + answer(b"c")
    assert await peer.read(len(expected)) == expected
    assert peer.handler.statuses == [400, 200]


@pytest.mark.parametrize("leaves", [False, True], ids=["cancelled", "left"])
async def test_incomplete_response_is_aborted_and_its_memory_returned(
    leaves: bool, caplog: pytest.LogCaptureFixture
) -> None:
    response, owner = owned(bytes(32 << 20))
    async with serving(fixed(response)) as site, site.peer(receives=4096) as peer:
        await peer.send(asked())
        await peer.state(State.SENDING)
        (task,) = site.state.tasks
        if leaves:
            await peer.leave()
        else:
            task.cancel()
        await peer.state(State.CLOSED)
        await until(lambda: not site.state.tasks)
        assert task.cancelled() is not leaves
        # After a cancellation the kernel may still read from the memory.
        assert owner.ended == [(leaves, False)]
        assert (site.handler.statuses, site.handler.left) == ([None], [("/p", 0)])
        assert not caplog.records


class Other:
    """Takes connections over, and closes them."""

    alpn = "h2"
    first_bytes = PREFACE

    def __init__(self) -> None:
        self.received: list[bytes] = []

    def __call__(self, server: ServerContext, transport: Any, received: bytes) -> None:
        assert not server.state.connections
        self.received.append(received)
        transport.abort()


async def test_http2_is_handed_over_by_its_first_bytes_alone() -> None:
    other = Other()
    async with serving(other=other) as site:
        async with site.peer() as peer:
            give(peer.connection, PREFACE[:3])
            assert peer.connection.state is State.HEAD
            give(peer.connection, PREFACE[3:])
            assert other.received == [PREFACE]
            assert peer.connection.state is State.CLOSED
            assert peer.connection.transport is None
            assert not peer.connection._unparsed
        async with site.peer() as peer:
            await peer.send(asked())
            await peer.response()
            await peer.send(PREFACE)
            assert (await peer.end()).startswith(b"HTTP/1.1 400 ")
        assert len(other.received) == 1


@pytest.mark.parametrize("knows", [False, True], ids=["alone", "other"])
async def test_tls_chooses_the_protocol_before_any_byte(knows: bool) -> None:
    other = Other()
    async with serving(other=other if knows else None, encrypted=True) as site:
        async with site.peer() as peer:
            assert peer.connection.eof_received() is False
            await peer.send(asked(length=1) + b"a")
            await peer.response(b"a")
            await peer.send(PREFACE[:3])
            await peer.state(State.HEAD)
            peer.writer.close()
            await peer.state(State.CLOSED)
        assert site.callers is not None
        site.callers.set_alpn_protocols(["h2"])
        _, writer = await asyncio.open_connection(
            *site.address, ssl=site.callers, server_hostname="localhost"
        )
        await until(lambda: other.received if knows else site.state.connections)
        writer.transport.abort()
        assert other.received == [b""] * knows


async def test_protocol_lists_connections_that_are_opening(site: Site) -> None:
    assert not site.protocol.is_opening
    first, second = (site.protocol(server_state=site.state) for _ in "12")
    assert site.protocol.is_opening
    del first, second
    gc.collect()
    assert site.protocol.is_opening is False
    other = Server()
    opening = site.protocol(server_state=other)
    assert site.protocol.is_opening
    assert opening.state is State.IDLE
    del opening
    async with site.peer():
        gc.collect()
        assert not site.protocol.is_opening
