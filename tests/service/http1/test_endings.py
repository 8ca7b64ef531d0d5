"""How requests end: who is counted as gone, what is logged, and when memory is free."""

from __future__ import annotations

import asyncio
import gc
import logging
import weakref
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from support.http.http1_site import (
    CLOSE,
    PREALLOCATED,
    Gate,
    Server,
    answer,
    asked,
    give,
    owned,
    serving,
    text,
    until,
)
from tensor_round.contract.errors import Draining, Overloaded
from tensor_round_service.content.sources import ClientDisconnected
from tensor_round_service.http1.context import ServerContext
from tensor_round_service.http1.lifecycle import State
from tensor_round_service.http1.request import Request
from tensor_round_service.http1.response import Response

pytestmark = pytest.mark.anyio
PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"


@pytest.mark.parametrize("surplus", [b"", b"\r\n", b"GET /q"], ids=["none", "line-end", "head"])
async def test_half_closed_client_gets_all_due_responses(surplus: bytes) -> None:
    gate = Gate()
    async with serving(gate) as site, site.peer() as peer:
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
        assert site.handler.statuses == [200, 200]
        assert not site.handler.left


async def test_half_close_between_two_responses_does_not_lose_the_second() -> None:
    gate, kept = Gate(), list[bool]()
    async with serving(gate) as site, site.peer() as peer:

        def stopped() -> None:
            if len(site.handler.exchanges) == 1:
                assert peer.connection.state is State.IDLE
                kept.append(peer.connection.eof_received())

        site.handler.logged = stopped
        await peer.send(asked())
        await until(lambda: gate.waiting)
        give(peer.connection, asked())
        gate.opens.set()
        assert await peer.end() == answer() + answer(b"", CLOSE)
        assert kept == [True]


async def test_half_close_within_a_request_counts_as_a_disconnect() -> None:
    gate = Gate()
    gate.opens.set()
    for sent, state, left in [
        (b"", State.IDLE, []),
        (asked(), State.IDLE, []),
        (asked()[:-1], State.HEAD, [("/p", 0)]),
        (asked(length=2) + b"a", State.RECEIVING, [("/p", 1)]),
    ]:
        async with serving(gate) as site, site.peer() as peer:
            give(peer.connection, sent)
            await peer.state(state)
            assert peer.connection.eof_received() is False
            peer.stop_sending()
            await peer.state(State.CLOSED)
            assert site.handler.left == left


async def test_half_closed_or_lost_client_is_not_asked_for_its_body() -> None:
    async with serving(gate := Gate()) as site:
        async with site.peer() as peer:
            await peer.send(asked(length=2), b"a")
            await until(lambda: gate.waiting == 1)
            peer.stop_sending()
            await until(lambda: peer.connection._at_eof)
            gate.opens.set()
            assert await peer.end() == b""
            await peer.state(State.CLOSED)
            assert site.handler.left == [("/p", 1)]
        gate.opens.clear()
        async with site.peer() as peer:
            await peer.send(asked(length=2))
            await until(lambda: gate.waiting == 2)
            await peer.leave()
            gate.opens.set()
            await until(lambda: len(site.handler.left) == 2)
            assert site.handler.left[1] == ("/p", 0)
            assert site.handler.statuses == [None, None]


class Memory(bytearray):
    """Bytes whose end can be seen."""


async def test_disconnect_frees_the_memory_of_the_body() -> None:
    kept: list[weakref.ref[Memory]] = []

    async def respond(request: Request) -> Response:
        memory = Memory(100_000)
        kept.append(weakref.ref(memory))
        await request.receive_into(memoryview(memory))
        raise AssertionError

    async with serving(respond) as site:
        gc.disable()
        try:
            async with site.peer() as peer:
                await peer.send(asked(length=100_000), b"a")
                await peer.state(State.RECEIVING)
                await peer.leave()
                await until(lambda: not site.state.tasks)
                assert kept[0]() is None
        finally:
            gc.enable()


async def test_route_can_free_a_received_body() -> None:
    async def respond(request: Request) -> Response:
        memory = Memory(2)
        await request.receive_into(memoryview(memory))
        kept = weakref.ref(memory)
        del memory
        return text(b"free" if kept() is None else b"kept")

    async with serving(respond) as site, site.peer() as peer:
        give(peer.connection, asked(length=2) + b"a")
        give(peer.connection, b"b")
        await peer.response(b"free")


Respond = Callable[[Request], Awaitable[Response]]


async def leaves(_: Request) -> Response:
    raise ClientDisconnected


async def is_refused(_: Request) -> Response:
    raise Overloaded("full", retry_after=1)


async def fails(_: Request) -> Response:
    raise KeyError("none")


async def cannot_be_sent(_: Request) -> Response:
    return text(b"a", status=999)


@pytest.mark.parametrize(
    ("respond", "sent", "statuses", "left"),
    [
        (leaves, b"", [None], [("/p", 1)]),
        (is_refused, answer(b"Overloaded", CLOSE, status=b"400 Bad Request"), [400], []),
        (fails, PREALLOCATED, [500], []),
        (cannot_be_sent, PREALLOCATED, [500], []),
    ],
)
@pytest.mark.parametrize("waits", [False, True], ids=["at-once", "later"])
async def test_each_exchange_ends_with_its_status_and_count(
    respond: Respond,
    sent: bytes,
    statuses: list[int | None],
    left: list[tuple[str, int]],
    waits: bool,
) -> None:
    async def answered(request: Request) -> Response:
        if waits:
            await asyncio.sleep(0)
        return await respond(request)

    async with serving(answered) as site, site.peer() as peer:
        await peer.send(asked("Connection: close", length=1) + b"a")
        assert await peer.end() == sent
        await until(lambda: not site.state.tasks)
        assert (site.handler.statuses, site.handler.left) == (statuses, left)
        assert [each.received for each in site.handler.exchanges] == [1]


async def test_memory_is_free_when_a_response_is_sent_or_its_caller_has_left() -> None:
    responses: list[Response] = []

    async def respond(request: Request) -> Response:
        await asyncio.sleep(0)
        if request.head.path == "/gone":
            await peer.leave()
            assert request.is_gone()
        return responses.pop()

    for sent, content, status, ended, statuses, left in [
        (asked(), b"abc", 200, (True, True), [200], []),
        # Its head cannot be written, so a preallocated response is.
        (asked(), b"abc", 999, (True, False), [500], []),
        (asked(line="POST /gone"), b"abc", 200, (True, False), [None], [("/gone", 0)]),
    ]:
        response, owner = owned(content, status)
        responses.append(response)
        async with serving(respond) as site, site.peer() as peer:
            await peer.send(sent)
            await until(lambda site=site: site.handler.exchanges)
            assert owner.ended == [ended]
            assert (site.handler.statuses, site.handler.left) == (statuses, left)


async def test_refusal_for_a_lost_client_is_counted_once() -> None:
    async def respond(_: Request) -> Response:
        await asyncio.sleep(0)
        await peer.leave()
        raise Overloaded("full", retry_after=1)

    async with serving(respond) as site, site.peer() as peer:
        await peer.send(asked())
        await until(lambda: site.handler.exchanges)
        assert (site.handler.statuses, site.handler.left) == ([None], [])
        assert len(site.handler.refused) == 1


async def test_an_error_within_a_response_aborts_it() -> None:
    parts: list[Any] = [bytes(100_000), "no bytes"]

    async def respond(_: Request) -> Response:
        response = text(b"")
        response.parts = parts
        return response

    async with serving(respond) as site, site.peer() as peer:
        await peer.send(asked())
        await peer.state(State.CLOSED)
        assert site.handler.statuses == [None]
        assert not site.handler.failures


async def test_a_handler_that_fails_again_ends_the_connection(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def respond(_: Request) -> Response:
        await asyncio.sleep(0)
        raise KeyError("first")

    async with serving(respond) as site, site.peer() as peer:

        def failed() -> None:
            raise ValueError("second")

        site.handler.logged = failed
        await peer.send(asked())
        assert await peer.end() == PREALLOCATED
        await peer.state(State.CLOSED)
        ((logger, level, message),) = caplog.record_tuples
        assert (logger.rpartition(".")[2], level) == ("connection", logging.ERROR)
        assert message == "a connection failed"
        assert not site.state.tasks


async def test_a_request_that_is_cancelled_is_refused() -> None:
    gate = Gate()
    async with serving(gate) as site:
        for sent in (asked(), asked(length=2) + b"a"):
            async with site.peer() as peer:
                gate.opens.clear()
                await peer.send(sent)
                await until(lambda: site.state.tasks)
                if sent != asked():
                    gate.opens.set()
                    await peer.state(State.RECEIVING)
                (task,) = site.state.tasks
                task.cancel()
                assert await peer.read(13) == b"HTTP/1.1 400 "
                await until(lambda: not site.state.tasks)
        for path, error in site.handler.refused:
            assert path == "/p"
            assert isinstance(error, Draining)
            assert error.retry_after == 1
        assert site.handler.statuses == [400, 400]
        assert not site.handler.left


async def test_a_body_may_end_as_its_request_is_cancelled() -> None:
    async with serving() as site, site.peer() as peer:
        give(peer.connection, asked(length=2) + b"a")
        assert peer.connection.state is State.RECEIVING
        (task,) = site.state.tasks
        await asyncio.sleep(0)  # it waits from now on
        task.cancel()
        give(peer.connection, b"b" + asked(length=1) + b"c")
        expected = answer(b"Draining", status=b"400 Bad Request") + answer(b"c")
        assert await peer.read(len(expected)) == expected
        assert site.handler.statuses == [400, 200]


@pytest.mark.parametrize("leaves", [False, True], ids=["cancelled", "left"])
async def test_incomplete_response_is_aborted_and_its_memory_returned(
    leaves: bool, caplog: pytest.LogCaptureFixture
) -> None:
    response, owner = owned(bytes(32 << 20))

    async def respond(_: Request) -> Response:
        return response

    async with serving(respond) as site, site.peer(receives=4096) as peer:
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


class Successor:
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
    successor = Successor()
    async with serving(successor=successor) as site:
        async with site.peer() as peer:
            give(peer.connection, PREFACE[:3])
            assert peer.connection.state is State.HEAD
            give(peer.connection, PREFACE[3:])
            assert successor.received == [PREFACE]
            assert peer.connection.state is State.CLOSED
            assert peer.connection.transport is None
            assert not peer.connection._unparsed
        async with site.peer() as peer:
            await peer.send(asked())
            await peer.response()
            await peer.send(PREFACE)
            assert (await peer.end()).startswith(b"HTTP/1.1 400 ")
        assert len(successor.received) == 1
    async with serving() as site, site.peer() as peer:
        await peer.send(PREFACE)
        assert (await peer.end()).startswith(b"HTTP/1.1 400 ")


@pytest.mark.parametrize("knows", [False, True], ids=["alone", "successor"])
async def test_tls_chooses_the_protocol_before_any_byte(knows: bool) -> None:
    successor = Successor()
    async with serving(successor=successor if knows else None, encrypted=True) as site:
        reader, writer, connection = await site.call()
        assert connection.eof_received() is False
        writer.write(asked(length=1) + b"a")
        assert await reader.readexactly(len(answer(b"a"))) == answer(b"a")
        writer.write(PREFACE[:3])
        await until(lambda: connection.state is State.HEAD)
        writer.close()
        await until(lambda: connection.state is State.CLOSED)
        site.callers.set_alpn_protocols(["h2"])
        _, writer = await asyncio.open_connection(
            *site.address, ssl=site.callers, server_hostname="localhost"
        )
        if knows:
            await until(lambda: successor.received)
        else:
            await until(lambda: site.state.connections)
        writer.transport.abort()
        assert successor.received == [b""] * knows


async def test_protocol_lists_connections_that_are_opening() -> None:
    async with serving() as site:
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
