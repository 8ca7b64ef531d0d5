"""The protocol object on real sockets: hand-over, streams, responses, rates, and its end."""

from __future__ import annotations

import asyncio
import gc
import random
from typing import Any

import pytest

from support.http.http2_frames import HEAD, HELLO, TRAILERS, block, call, data, opened
from support.http.http2_site import WIDE, Caller, Handler, Site, serving
from tensor_round_service.net.bodies import ClientDisconnected
from tensor_round_service.net.http2 import frames
from tensor_round_service.net.http2.frames import DEFAULT_WINDOW, MAX_WINDOW, Code, Kind
from tensor_round_service.net.http2.serving import ServedStream
from tensor_round_service.net.lifecycle import State

pytestmark = pytest.mark.anyio
MIB = 1 << 20
#: Streams that a connection opens in a turn of the event loop.
AT_ONCE = 16
#: Frames that it uses in one.
FRAMES_AT_ONCE = 256
PING = frames.frame(Kind.PING, 0, 0, bytes(8))


async def test_the_preface_leads_from_one_protocol_to_the_other(site: Site, caller: Caller) -> None:
    caller.call(1, b"abc")
    assert await caller.response(1) == b"abc"
    async with site.caller(HELLO[:1]) as slow:
        for at in range(1, len(HELLO)):
            slow.send(HELLO[at : at + 1])
            await asyncio.sleep(0)
        slow.call(1, b"slowly")
        assert await slow.response(1) == b"slowly"
    reader, writer = await asyncio.open_connection("127.0.0.1", site.port)
    writer.write(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
    assert (await reader.read(100)).endswith(b"\r\n\r\none")
    writer.close()
    await writer.wait_closed()


@pytest.mark.parametrize("encrypted", [False, True], ids=["plain", "tls"])
async def test_streams_of_every_size(encrypted: bool) -> None:
    sizes = (0, 1, 1000, 16384, 65535, 65536, MIB, 5 * MIB)
    contents = {1 + 2 * n: random.Random(n).randbytes(size) for n, size in enumerate(sizes)}

    async with serving(encrypted=encrypted) as site, site.caller() as caller:
        for number, content in contents.items():
            if len(content) < DEFAULT_WINDOW:
                await caller.until(lambda _, n=number, c=content: caller.window(n) >= len(c))
                caller.call(number, content)
            else:
                await caller.upload(number, content)
            assert await caller.response(number) == content
        assert all(site.handler.sent)


async def test_nothing_is_waited_for_once_the_peer_waits_no_longer() -> None:
    class Late(Handler):
        async def echo(self, stream: ServedStream) -> None:
            stream.expire()
            if stream.head.length:
                await super().echo(stream)
            else:
                self.sent.append(await stream.send([bytes(5 * MIB)], TRAILERS, head=HEAD))

    async with serving(Late()) as site, site.caller() as caller:
        caller.send(opened(1, ("content-length", "6")))
        await site.until(lambda: site.handler.ended == 1)
        (failure,) = site.handler.failures
        assert isinstance(failure, ClientDisconnected)
        caller.send(opened(3, ends=True))
        await site.until(lambda: site.handler.ended == 2)
        assert site.handler.sent == [False]
        await caller.until(lambda got: Code.CANCEL in [e.code for e in got if e.stream == 3])


async def test_others_have_their_turn_between_the_calls_of_one_read(site: Site) -> None:
    order: list[bytes] = []

    def noted(body: bytearray) -> list[Any]:
        order.append(bytes(body))
        return [bytes(body)]

    async with site.caller() as many, site.caller() as one:
        for caller in (many, one):
            caller.call(1, b"first")
            assert await caller.response(1) == b"first"
        port = many.writer.get_extra_info("sockname")[1]
        first, second = sorted(site.state.connections, key=lambda each: each.client[1] != port)
        site.handler.answer = noted
        sent = [call(number, b"many") for number in range(3, 2003, 2)]
        first.use(memoryview(b"".join(sent)))
        assert len(order) == AT_ONCE
        second.use(memoryview(call(3, b"one") + call(5, b"two")))
        assert order[AT_ONCE:] == [b"one"]
        assert await one.response(3) == b"one"
        assert await many.response(2001) == b"many"
        assert not site.state.tasks
    assert len(order) == 1002
    assert order.index(b"two") == 2 * AT_ONCE + 1


@pytest.mark.parametrize("encrypted", [False, True], ids=["plain", "tls"])
async def test_others_have_their_turn_between_frames_that_open_no_stream(encrypted: bool) -> None:
    loop = asyncio.get_running_loop()
    async with serving(encrypted=encrypted) as site, site.caller() as flood:
        flood.call(1, b"first")
        assert await flood.response(1) == b"first"
        (connection,) = site.state.connections
        turns = 0

        def count_turns() -> None:
            nonlocal turns
            turns += 1
            if len(flood.frames) < 1000:
                loop.call_soon(count_turns)

        connection.use(memoryview(PING * 1000))
        assert connection.session.is_waiting
        connection.use(memoryview(PING))  # as from a transport that does not pause at once
        count_turns()
        await flood.until(lambda got: sum(e.kind == Kind.PING for e in got) == 1001)
        assert turns >= 1000 // FRAMES_AT_ONCE
        flood.call(3, b"later")
        assert await flood.response(3) == b"later"


async def test_memory_is_not_copied_and_not_kept(site: Site, caller: Caller) -> None:
    """A large response is written from the memory that its request was received into."""

    content = random.Random(1).randbytes(4 * MIB)
    await caller.upload(1, content)
    assert await caller.response(1) == content
    (body,) = site.handler.filled
    assert body == content
    await site.until(lambda: site.handler.ended == 1)
    # Nobody refers to it any more: else it could not change its size.
    body.clear()


async def test_a_reset_stream_raises_in_its_handler(site: Site, caller: Caller) -> None:
    caller.send(opened(1, ("content-length", "100000")), data(1, bytes(1000)))
    await site.until(lambda: site.handler.filled)
    caller.send(frames.rst_stream(1, Code.CANCEL))
    await site.until(lambda: site.handler.ended)
    assert isinstance(site.handler.failures[0], ClientDisconnected)
    caller.call(3, b"next")
    assert await caller.response(3) == b"next"


async def test_a_lost_connection_raises_in_its_handlers(site: Site, caller: Caller) -> None:
    for number in range(1, 9, 2):
        caller.send(opened(number, ("content-length", "100000")))
    await site.until(lambda: len(site.handler.filled) == 4)
    caller.writer.transport.abort()
    await site.until(lambda: site.handler.ended == 4)
    assert [type(each) for each in site.handler.failures] == [ClientDisconnected] * 4


async def test_a_response_that_is_reset_is_not_sent(site: Site) -> None:
    site.handler.answer = lambda _: [bytes(64 * MIB)]
    async with site.caller(HELLO) as caller:
        caller.call(1, b"")
        await caller.until(lambda got: any(each.kind == Kind.DATA for each in got))
        caller.send(frames.rst_stream(1, Code.CANCEL))
        await site.until(lambda: site.handler.ended)
        assert site.handler.sent == [False]
        assert site.handler.failures == []


async def test_a_handler_that_fails_resets_its_stream(
    site: Site, caller: Caller, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(_: bytearray) -> list[Any]:
        raise KeyError("of a test")

    echo, site.handler.answer = site.handler.answer, fail
    caller.call(1, b"abc")
    assert await caller.reset(1) is Code.INTERNAL_ERROR
    site.handler.answer = echo
    caller.call(3, b"abc")
    assert await caller.response(3) == b"abc"
    assert site.handler.ended == 2
    assert "of a test" in caplog.text


SLOW: dict[str, Any] = {"receive_timeout": 0.4, "rate_interval": 0.1}


async def test_slow_sender_is_refused_and_other_streams_go_on() -> None:
    """And only the stream that is slow: others go on meanwhile."""

    async with serving(**SLOW) as site, site.caller() as caller:
        caller.send(opened(1, ("content-length", "1000")), data(1, b"begin"))
        caller.call(3, b"meanwhile")
        assert await caller.response(3) == b"meanwhile"
        assert await caller.response(1) == b""
        assert await caller.reset(1) is Code.NO_ERROR
        assert isinstance(site.handler.failures[0], ClientDisconnected)
        caller.call(5, b"after")
        assert await caller.response(5) == b"after"


@pytest.mark.parametrize("opens", [0, 1], ids=["shut", "byte by byte"])
async def test_a_response_that_is_not_let_out_is_reset(opens: int) -> None:
    """A window that stays shut, or opens by a byte now and then, ends the stream alone."""

    handler = Handler()
    handler.answer = lambda body: [bytes(200_000)] if len(body) == 1 else [bytes(body)]
    async with serving(handler, **SLOW) as site, site.caller(HELLO) as caller:
        caller.send(frames.window_update(0, MIB))
        caller.call(1, b"x")
        while not handler.ended:
            if opens:
                caller.send(frames.window_update(1, 1))
            await asyncio.sleep(0.02)
        assert await caller.reset(1) is Code.ENHANCE_YOUR_CALM
        caller.call(3, b"after")
        assert await caller.response(3) == b"after"
        assert handler.sent == [False, True]
    assert site.handler.failures == []


async def test_client_that_reads_nothing_is_cut_off() -> None:
    handler = Handler()
    handler.answer = lambda _: [bytes(64 * MIB)]
    async with serving(handler, **SLOW) as site, site.caller() as caller:
        caller.writer.transport.pause_reading()
        caller.call(1, b"x")
        await site.until(lambda: handler.ended)
        assert handler.sent == [False]
        await site.until(lambda: not site.state.connections)
        caller.writer.transport.abort()


HEADERS = frames.frame(Kind.HEADERS, 0, 3, block())
PARTS = {
    "the preface": HELLO[:10],
    "a frame's head": HELLO + WIDE[:4],
    "a frame": HELLO + WIDE[:11],
    "a header block": HELLO + HEADERS,
    "a header block beside a stream": HELLO + opened(1, ("content-length", "70000")) + HEADERS,
}


@pytest.mark.parametrize("part", PARTS.values(), ids=PARTS)
async def test_unfinished_preface_or_frame_times_out(part: bytes) -> None:
    limits: dict[str, Any] = {"receive_timeout": 0.3, "rate_interval": 0.1}
    async with serving(**limits, min_receive_rate=0) as site, site.caller(part) as caller:
        assert await caller.end() == [Code.ENHANCE_YOUR_CALM]
        await site.until(lambda: not site.state.connections)


async def test_connection_fault_sends_goaway_and_drops_the_rest(site: Site, caller: Caller) -> None:
    caller.send(opened(1, ("content-length", "70000")))
    await site.until(lambda: site.handler.filled)
    caller.send(frames.window_update(0, 0), call(3, b"behind it"))
    assert await caller.end() == [Code.PROTOCOL_ERROR]
    assert [type(each) for each in site.handler.failures] == [ClientDisconnected]


@pytest.mark.parametrize("is_fault", [False, True], ids=["idle", "fault"])
async def test_tls_ends_with_goaway_at_once(is_fault: bool) -> None:
    limits: dict[str, Any] = {"linger_before": 60.0, "keep_alive": 0.3}
    async with serving(encrypted=True, **limits) as site, site.caller() as caller:
        caller.call(1, b"one")
        assert await caller.response(1) == b"one"
        if is_fault:
            caller.send(frames.window_update(0, 0))
        assert await caller.end() == [Code.PROTOCOL_ERROR if is_fault else Code.NO_ERROR]


@pytest.mark.parametrize("limits", [{"keep_alive": 0.3}, {"crowd": 0, "crowded_keep_alive": 0.3}])
async def test_an_idle_connection_ends(limits: dict[str, Any]) -> None:
    async with serving(**limits) as site, site.caller() as caller:
        caller.call(1, b"one")
        assert await caller.response(1) == b"one"
        assert await caller.end() == [Code.NO_ERROR]


async def test_a_peek_leaves_bytes_unread() -> None:
    seen: list[bytes] = []

    class Peeking(Handler):
        async def echo(self, stream: ServedStream) -> None:
            seen.append(await stream.peek(3, 10))
            stream.skip(2)
            seen.append(await stream.peek(100, 5))
            assert not stream.is_at_end
            await super().echo(stream)

    async with serving(Peeking()) as site, site.caller() as caller:
        caller.send(opened(1), data(1, b"ab"))
        await site.until(lambda: site.state.tasks)
        caller.send(data(1, b"cdefghijklmn"))
        await site.until(lambda: len(seen) == 1)
        caller.send(data(1, ends=True))
        assert await caller.response(1) == b""
        assert seen == [b"abcdefghij", b"cdefg"]


def streams_now() -> list[ServedStream]:
    return [each for each in gc.get_objects() if isinstance(each, ServedStream)]


async def test_no_cycle_keeps_a_stream(site: Site, caller: Caller) -> None:
    gc.collect()
    gc.disable()
    try:
        # A fixture of an earlier test may keep the errors, and so the streams, of its handlers.
        before = streams_now()
        await caller.upload(1, bytes(MIB))
        assert await caller.response(1) == bytes(MIB)
        await site.until(lambda: site.handler.ended == 1)
        assert streams_now() == before
    finally:
        gc.enable()


async def test_a_stop_serves_streams_under_way_and_in_transit() -> None:
    async with serving(drain_grace=1.0) as site, site.caller() as caller:
        caller.send(opened(1, ("content-length", "6")), data(1, b"und"))
        await site.until(lambda: site.handler.filled)
        (connection,) = site.state.connections
        connection.shutdown()
        assert connection.state is State.WORKING
        caller.call(3, b"in transit")
        assert await caller.response(3) == b"in transit"
        await caller.until(lambda got: [e.kind for e in got].count(Kind.GOAWAY) == 2)
        # At the drain timeout each connection that is left gets a second stop, which says no more.
        connection.shutdown()
        caller.call(5, b"too late")
        assert await caller.reset(5) is Code.REFUSED_STREAM
        caller.send(data(1, b"er", ends=False), data(1, b"w", ends=True))
        assert await caller.response(1) == b"underw"
        assert await caller.end() == [Code.NO_ERROR, Code.NO_ERROR]
        last = [int.from_bytes(e.payload[:4]) for e in caller.frames if e.kind == Kind.GOAWAY]
        assert last == [MAX_WINDOW, 3]


async def test_a_stop_sends_waiting_responses_once_the_peer_reads() -> None:
    content = bytes(60_000)
    async with serving(drain_grace=0.0) as site, site.caller() as caller:
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
