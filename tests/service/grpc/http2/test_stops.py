"""The end of a connection that is asked to stop."""

from __future__ import annotations

import asyncio

import pytest

from support.http.http2_frames import HEAD, TRAILERS, call, data, opened
from support.http.http2_site import SHORT, Handler, serving
from tensor_round_service.grpc.http2.frames import MAX_WINDOW, Code, Kind
from tensor_round_service.grpc.http2.serving import ServedStream
from tensor_round_service.http1.lifecycle import State

pytestmark = pytest.mark.anyio


async def test_a_stop_serves_what_is_under_way_and_in_transit() -> None:
    async with serving(drain_grace=1.0, **SHORT) as site, site.caller() as caller:
        caller.send(opened(1, ("content-length", "6")), data(1, b"und"))
        await site.until(lambda: site.handler.filled)
        (connection,) = site.state.connections
        connection.shutdown()
        assert connection.state is State.WORKING
        caller.call(3, b"in transit")
        assert await caller.response(3) == b"in transit"
        await caller.until(lambda got: [e.kind for e in got].count(Kind.GOAWAY) == 2)
        caller.call(5, b"too late")
        assert await caller.reset(5) is Code.REFUSED_STREAM
        caller.send(data(1, b"er", ends=False), data(1, b"w", ends=True))
        assert await caller.response(1) == b"underw"
        assert await caller.end() == [Code.NO_ERROR, Code.NO_ERROR]
        last = [int.from_bytes(e.payload[:4]) for e in caller.frames if e.kind == Kind.GOAWAY]
        assert last == [MAX_WINDOW, 3]


async def test_a_stop_is_told_once() -> None:
    """What is left at the drain timeout is told to stop again."""

    async with serving(drain_grace=0.0, **SHORT) as site, site.caller() as caller:
        caller.send(opened(1, ("content-length", "6")))
        await site.until(lambda: site.handler.filled)
        (connection,) = site.state.connections
        connection.shutdown()
        await caller.until(lambda got: [e.kind for e in got].count(Kind.GOAWAY) == 2)
        connection.shutdown()
        caller.send(data(1, b"abcdef", ends=True))
        assert await caller.response(1) == b"abcdef"
        assert await caller.end() == [Code.NO_ERROR, Code.NO_ERROR]


async def test_a_stop_sends_what_waits_until_the_peer_reads() -> None:
    content = bytes(60_000)
    async with serving(drain_grace=0.0, **SHORT) as site, site.caller() as caller:
        caller.call(1, b"first")
        assert await caller.response(1) == b"first"
        caller.writer.transport.pause_reading()
        (connection,) = site.state.connections
        number = 1
        while not connection.holds_memory:  # the peer's system takes no more
            number += 2
            connection.use(memoryview(call(number, content)))
        number += 2
        connection.use(memoryview(call(number, b"waits")))
        assert not site.state.tasks
        connection.shutdown()
        await site.until(lambda: connection.state > State.WORKING)
        caller.writer.transport.resume_reading()
        assert await caller.response(number) == b"waits"
        assert await caller.end() == [Code.NO_ERROR, Code.NO_ERROR]


async def test_cancelled_handlers_may_refuse() -> None:
    class Refusing(Handler):
        async def echo(self, stream: ServedStream) -> None:
            try:
                await super().echo(stream)
            except asyncio.CancelledError:
                await stream.send([], TRAILERS, head=HEAD)

    async with serving(Refusing()) as site, site.caller() as caller:
        caller.send(opened(1, ("content-length", "6")))
        await site.until(lambda: site.state.tasks)
        for task in site.state.tasks:
            task.cancel()
        assert await caller.response(1) == b""
        assert await caller.reset(1) is Code.NO_ERROR
