"""The protocol object on real sockets: heads, bodies, what follows, the end, limits in time."""

from __future__ import annotations

import asyncio
import contextlib
import math
import os
import weakref
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from support.http.http1_site import (
    CLOSE,
    LATE,
    LIMITS,
    Gate,
    Peer,
    Site,
    answer,
    asked,
    fixed,
    give,
    owned,
    pass_time,
    serving,
    until,
)
from tensor_round_service.net.http1.connection import Connection
from tensor_round_service.net.http1.receiving import CONTINUE, DIRECT_BYTES
from tensor_round_service.net.lifecycle import State
from tensor_round_service.net.limits import ConnectionLimits, Deadline, MinimumRate
from tensor_round_service.net.request import Request
from tensor_round_service.net.response import Response
from tensor_round_service.settings import Settings

pytestmark = pytest.mark.anyio
#: The receive buffer.
BUFFER_BYTES = 96 << 10


@pytest.fixture
def states(monkeypatch: pytest.MonkeyPatch) -> list[State]:
    """The states that connections go through."""
    states: list[State] = []
    move = Connection._move

    def recorded(connection: Connection, state: State) -> None:
        states.append(state)
        move(connection, state)

    monkeypatch.setattr(Connection, "_move", recorded)
    return states


async def test_heads_come_in_any_pieces_with_empty_lines_before_them(site: Site) -> None:
    sent = b"\r\n\n" + asked(length=3) + b"abc" + b"\n" + asked(length=2) + b"de\r\n" + asked()
    for size in (1, 2, 3, 50, len(sent)):
        async with site.peer() as peer:
            for at in range(0, len(sent), size):
                give(peer.connection, sent[at : at + size])
                await asyncio.sleep(0)
            for content in (b"abc", b"de", b""):
                await peer.response(content)
            await peer.state(State.IDLE)
    assert site.handler.statuses == [200] * 15


async def test_a_head_has_one_limit_from_its_first_byte(peer: Peer) -> None:
    assert peer.is_due_in(LIMITS.receive_timeout)
    await pass_time(1000)
    give(peer.connection, b"POST /p?a HT")
    assert peer.connection.state is State.HEAD
    assert peer.is_due_in(LIMITS.receive_timeout)
    await pass_time(LIMITS.receive_timeout - LATE)
    give(peer.connection, b"TP/1.1\r\n")
    assert peer.due <= LATE
    await pass_time(LATE)
    assert peer.connection.state is State.LINGERING
    expected = answer(b"ReceiveTimeout", CLOSE, status=b"400 Bad Request")
    assert await peer.end() == expected
    ((path, error),) = peer.handler.refused
    assert path == "/p"
    assert str(error) == "the request head was not received within 10000 s"
    (exchange,) = peer.handler.exchanges
    assert (exchange.path, exchange.head, exchange.client) == ("/p", None, "127.0.0.1")
    assert exchange.received == len(b"POST /p?a HTTP/1.1\r\n")
    assert 0 < exchange.seconds < LATE
    assert peer.handler.statuses == [400]


async def test_disconnect_within_a_head_is_counted(site: Site, peer: Peer) -> None:
    await peer.send(b"GET /q HTTP/1.1\r\nHo")
    await peer.state(State.HEAD)
    await peer.leave()
    assert peer.handler.left == [("/q", 0)]
    (exchange,) = peer.handler.exchanges
    assert (exchange.path, exchange.received, exchange.response) == ("/q", 19, None)
    assert not peer.connection._unparsed
    async with site.peer() as other:
        await other.leave()
    assert len(peer.handler.left) == len(peer.handler.exchanges) == 1


async def test_malformed_head_is_refused_with_the_servers_fields(peer: Peer) -> None:
    peer.server.default_headers = [(b"date", b"now")]
    give(peer.connection, b"GE\0 /a b")
    assert not peer.connection._unparsed
    # The server's fields are before Content-Length.
    head = b"HTTP/1.1 400 Bad Request\r\na: b\r\ndate: now\r\ncontent-length: 16\r\n"
    assert await peer.end() == head + b"connection: close\r\n\r\nMalformedRequest"
    assert peer.connection.state is State.LINGERING
    (exchange,) = peer.handler.exchanges
    assert (exchange.path, exchange.received, exchange.seconds) == ("/a", 8, 0.0)
    assert not peer.handler.left


async def test_an_exchange_is_logged_if_the_handler_wants_to_know() -> None:
    async with serving(on_unix=True) as site, site.peer() as peer:
        await peer.send(asked(line="PUT /q?r", length=3), b"abc")
        await peer.response(b"abc")
        (exchange,) = site.handler.exchanges
        assert exchange.head is not None
        assert (exchange.path, exchange.head.method, exchange.client) == ("/q", "PUT", None)
        assert (exchange.received, site.handler.statuses) == (3, [200])
        assert 0 <= exchange.seconds < LATE
        site.handler.logs_access = False
        await peer.send(asked(), b"\0")
        await until(lambda: site.handler.refused)
        assert len(site.handler.exchanges) == 1


async def test_a_request_that_never_waits_makes_no_task_and_keeps_the_connection(
    peer: Peer,
) -> None:
    give(peer.connection, asked(length=3) + b"abc")
    assert peer.connection.state is State.IDLE
    assert peer.is_due_in(LIMITS.keep_alive)
    assert not peer.server.tasks
    await peer.response(b"abc")
    await pass_time(LIMITS.keep_alive - LATE)
    assert peer.connection.state is State.IDLE
    await pass_time(LATE)
    assert await peer.end() == b""
    await peer.state(State.CLOSED)


async def test_idle_connection_of_a_crowd_closes_sooner() -> None:
    limits = replace(LIMITS, crowd=1)
    async with serving(limits=limits) as site, site.peer() as first:
        give(first.connection, asked())
        assert first.is_due_in(LIMITS.keep_alive)
        async with site.peer() as second:
            give(second.connection, asked())
            assert second.is_due_in(LIMITS.crowded_keep_alive)
            await pass_time(LIMITS.crowded_keep_alive)
            await second.state(State.CLOSED)
            assert first.connection.state is State.IDLE


async def test_working_route_has_no_limit_and_later_requests_wait(peer: Peer) -> None:
    gate = peer.handler.answer = Gate()
    give(peer.connection, asked(length=2) + b"a")
    assert peer.connection.state is State.WORKING
    assert not peer.connection._unparsed
    assert peer.connection._deadline.due == float("inf")
    assert len(peer.server.tasks) == 1
    assert len(peer.connection.get_buffer(-1)) == BUFFER_BYTES
    assert peer.connection.transport.is_reading()
    give(peer.connection, b"b" + asked() + asked()[:20])
    assert peer.connection.state is State.WORKING
    assert not peer.connection.transport.is_reading()
    await pass_time(100 * LIMITS.keep_alive)
    assert peer.connection.state is State.WORKING
    gate.opens.set()
    await peer.response(b"ab")
    await peer.response()
    await peer.state(State.HEAD)
    assert peer.is_due_in(LIMITS.receive_timeout)
    assert not peer.server.tasks
    assert peer.connection.transport.is_reading()
    gate.opens.clear()
    give(peer.connection, asked()[20:])
    give(peer.connection, asked())
    assert not peer.connection.transport.is_reading()
    gate.opens.set()
    await peer.response()
    await peer.response()
    assert peer.connection.state is State.IDLE
    assert peer.connection.transport.is_reading()
    assert not peer.handler.left


async def test_a_large_body_is_received_to_where_it_belongs(peer: Peer) -> None:
    size = 4 * DIRECT_BYTES
    give(peer.connection, asked(length=size) + b"12")
    assert peer.connection.state is State.RECEIVING
    assert peer.is_due_in(LIMITS.rate_interval)
    assert len(peer.connection.get_buffer(-1)) == size - 2
    give(peer.connection, b"3" * (size - 3))
    assert peer.connection.state is State.RECEIVING
    assert len(peer.connection.get_buffer(-1)) == BUFFER_BYTES
    give(peer.connection, b"4" + asked(length=1)[:9])
    # The route goes on in the event loop's next turn, and what comes before is kept.
    assert peer.connection.state is State.WORKING
    give(peer.connection, asked(length=1)[9:] + b"5")
    await peer.response(b"12" + b"3" * (size - 3) + b"4")
    await peer.response(b"5")
    assert peer.is_due_in(LIMITS.keep_alive)


async def test_a_body_that_is_late_is_asked_for_and_reading_goes_on(peer: Peer) -> None:
    gate, dues = Gate(), list[float]()

    async def respond(request: Request) -> Response:
        response = await gate(request)
        dues.append(peer.connection._deadline.due)
        return response

    peer.handler.answer = respond
    give(peer.connection, asked("Expect: 100-continue", length=3))
    await until(lambda: gate.waiting)
    gate.opens.set()
    await peer.state(State.RECEIVING)
    assert await peer.read(len(CONTINUE)) == CONTINUE
    give(peer.connection, b"a")
    assert peer.connection.state is State.RECEIVING
    await peer.send(b"bc")
    await peer.response(b"abc")
    # Part of a body that has come is asked for no more, nor what nobody asked for.
    for fields in ((), ("Expect: 100-continue",)):
        gate.opens.clear()
        await peer.send(asked(*fields, length=2))
        await until(lambda: gate.waiting > len(dues))
        give(peer.connection, b"a")
        assert not peer.connection.transport.is_reading()
        gate.opens.set()
        await peer.state(State.RECEIVING)
        assert peer.connection.transport.is_reading()
        await peer.send(b"b")
        await peer.response(b"ab")
    assert dues == [float("inf")] * 3
    assert peer.handler.statuses == [200] * 3


ONE = [State.WORKING, State.IDLE]
LARGE = bytes(range(251)) * 300
HEAD_ALONE = answer(LARGE).partition(b"\r\n\r\n")[0] + b"\r\n\r\n"
TENSOR = bytes(range(256)) * 256
#: What is sent in one read, the content of each answer, what is received, and the states.
EXCHANGES: dict[str, tuple[bytes, bytes, bytes, list[State]]] = {
    "HEAD has no content": (asked(line="HEAD /p") * 2, LARGE, HEAD_ALONE * 2, ONE * 2),
    "an unread body is skipped": (
        asked(length=3) + b"abc" + asked(),
        b"x",
        answer(b"x") * 2,
        ONE * 2,
    ),
    "an unread body that has not come ends the connection": (
        asked(length=3) + b"ab",
        b"x",
        answer(b"x", CLOSE),
        [State.WORKING, State.LINGERING],
    ),
    "close": (
        asked("Connection: close", length=1) + b"a",
        b"x",
        answer(b"x", CLOSE),
        [State.WORKING, State.CLOSING],
    ),
    "bytes behind close": (
        asked("Connection: close", length=1) + b"aGET",
        b"x",
        answer(b"x", CLOSE),
        [State.WORKING, State.LINGERING],
    ),
    # The tensor is received with its head in one read, and sent with its head in one write.
    "64 KiB need no wait": (
        asked(f"X: {'x' * 1024}", length=len(TENSOR)) + TENSOR,
        TENSOR,
        answer(TENSOR),
        ONE,
    ),
    "the longest joined response": (asked(), LARGE[: 68 << 10], answer(LARGE[: 68 << 10]), ONE),
    "a response written as it lies": (
        asked(),
        LARGE[: (68 << 10) + 1],
        answer(LARGE[: (68 << 10) + 1]),
        [State.WORKING, State.SENDING, State.IDLE],
    ),
}


@pytest.mark.parametrize(
    ("sent", "content", "got", "states_passed"), EXCHANGES.values(), ids=EXCHANGES
)
async def test_an_exchange(
    peer: Peer,
    states: list[State],
    sent: bytes,
    content: bytes,
    got: bytes,
    states_passed: list[State],
) -> None:
    response, owner = owned(content)
    peer.handler.answer = fixed(response)
    give(peer.connection, sent)
    assert await peer.read(len(got)) == got
    await until(lambda: states == states_passed)
    count = states.count(State.WORKING)
    assert owner.ended == [(True, True)] * count
    assert peer.handler.statuses == [200] * count
    assert not peer.handler.left


async def test_a_move_that_is_not_in_the_table_raises(peer: Peer) -> None:
    with pytest.raises(RuntimeError, match="from IDLE to DROPPING"):
        peer.connection._move(State.DROPPING)
    assert peer.connection.state is State.IDLE
    await peer.leave()
    with pytest.raises(RuntimeError, match="from CLOSED to IDLE"):
        peer.connection._move(State.IDLE)


async def test_a_response_is_sent_when_the_kernel_has_its_last_byte() -> None:
    content = bytes(60_000)
    response, owner = owned(content)
    async with serving(fixed(response)) as site, site.peer(receives=4096) as peer:
        descriptor = peer.connection.transport.get_extra_info("socket").fileno()
        nbytes = 0
        with contextlib.suppress(BlockingIOError):
            while True:
                nbytes += os.write(descriptor, bytes(1 << 20))
        give(peer.connection, asked())
        assert peer.connection.state is State.SENDING
        assert not owner.ended
        assert await peer.read(nbytes) == bytes(nbytes)
        await peer.response(content)
        await peer.state(State.IDLE)
        assert owner.ended == [(True, True)]


async def test_new_fields_of_the_server_are_in_the_next_response(peer: Peer) -> None:
    for value in (b"1", b"2"):
        peer.server.default_headers = [(b"date", value)]
        await peer.send(asked())
        got = await peer.read(len(answer()) + len(b"date: 1\r\n"))
        assert b"\r\ndate: " + value + b"\r\n" in got


#: What is done with a deadline of which it expires, in seconds, and when it does.
DEADLINES: dict[str, tuple[list[tuple[str, float]], list[float]]] = {
    "once": ([("set", 60), ("pass", 59), ("pass", 1), ("pass", 600)], [60]),
    "moved later": ([("set", 60), ("pass", 59), ("set", 60), ("pass", 59), ("pass", 1)], [119]),
    "moved earlier": ([("set", 60), ("set", 30), ("pass", 30), ("pass", 30)], [30]),
    "cleared": ([("set", 60), ("clear", 0), ("pass", 60), ("pass", 60)], []),
    "set again": (
        [("set", 60), ("clear", 0), ("pass", 30), ("set", 60), ("pass", 30), ("pass", 30)],
        [90],
    ),
    "closed": ([("set", 60), ("close", 0), ("close", 0), ("pass", 60)], []),
}


@pytest.mark.parametrize(("steps", "expected"), DEADLINES.values(), ids=DEADLINES)
async def test_deadline_expires_once_when_it_is_due(
    steps: list[tuple[str, float]], expected: list[float]
) -> None:
    def expired() -> None:
        assert deadline.due == math.inf
        times.append(round(loop.time() - began))

    loop = asyncio.get_running_loop()
    began, times = loop.time(), list[float]()
    deadline = Deadline(loop, expired)
    assert deadline.due == math.inf
    for step, seconds in steps:
        if step == "pass":
            await pass_time(seconds)
        elif step == "set":
            deadline.set(seconds)
            assert deadline.due == pytest.approx(loop.time() + seconds, abs=1)
        else:
            getattr(deadline, step)()
            assert deadline.due == math.inf
    deadline.close()
    assert times == expected


def test_moving_a_deadline_later_makes_no_timer() -> None:
    made: list[asyncio.TimerHandle] = []

    class Loop(asyncio.SelectorEventLoop):
        def time(self) -> float:
            return 7.0

        def call_at(self, when: float, *others: Any, **options: Any) -> asyncio.TimerHandle:
            made.append(super().call_at(when, *others, **options))
            return made[-1]

    async def main() -> None:
        deadline = Deadline(asyncio.get_running_loop(), lambda: None)
        for seconds in (60, *range(60, 160)):
            deadline.set(seconds)
        assert len(made) == 1
        assert deadline.due == 166
        deadline.set(30)
        assert len(made) == 2
        assert [timer.cancelled() for timer in made] == [True, False]
        deadline.close()
        assert made[1].cancelled()

    with asyncio.Runner(loop_factory=Loop) as runner:
        runner.run(main())


async def test_closed_deadline_keeps_no_reference_to_its_callback() -> None:
    class Expires:
        def __call__(self) -> None:
            raise AssertionError

    expires = Expires()
    kept = weakref.ref(expires)
    deadline = Deadline(asyncio.get_running_loop(), expires)
    deadline.set(60)
    del expires
    assert kept() is not None
    deadline.close()
    assert kept() is None


#: A rate, its grace, to what that is cut, and moves: bytes, seconds, whether the rate is held.
MOVES: list[tuple[int, float, float | None, list[tuple[int, float, bool]]]] = [
    (100, 2, None, [(0, 1, True), (0, 1, True), (0, 1, False)]),
    (100, 2, None, [(100, 1, True)] * 50 + [(0, 2, True), (99, 1, False)]),
    (100, 2, None, [(0, 2, True), (100, 1, True), (200, 1, True), (0, 1, True), (0, 1, False)]),
    (100, 2, None, [(10**9, 1, True), (0, 2, True), (0, 0.01, False)]),
    (100, 2, None, [(0, 3, False), (99, 0, False), (1, 0, True)]),
    (100, 0, None, [(100, 1, True), (99, 1, False)]),
    (100, 0, None, [(10**9, 1, True), (99, 1, False)]),
    (0, 10, None, [(0, 10**6, True)] * 3),
    (0, 0, None, [(0, 10**6, True), (5, 1, True)]),
    (100, 10, 1, [(0, 1, True), (0, 1, False)]),
    (100, 10, 0, [(100, 1, True), (99, 1, False)]),
    (100, 10, 20, [(0, 10, True), (0, 1, False)]),
]


@pytest.mark.parametrize(("rate", "grace", "limit", "moves"), MOVES)
def test_a_rate(
    rate: int, grace: float, limit: float | None, moves: list[tuple[int, float, bool]]
) -> None:
    bucket = MinimumRate(rate, grace)
    if limit is not None:
        bucket.limit(limit)
    for nbytes, seconds, is_held in moves:
        assert bucket.record(nbytes, seconds) is is_held


def test_cutting_grace_forgives_nothing() -> None:
    bucket = MinimumRate(100, 1)
    assert not bucket.record(0, 2)
    bucket.limit(5)
    assert not bucket.record(99, 0)
    assert bucket.record(1, 0)


DEFAULT_LIMITS = ConnectionLimits()
DOCS = Path(__file__).parents[4] / "docs"
PAGES = "".join((DOCS / page).read_text() for page in ("architecture.md", "operations.md"))


@pytest.mark.parametrize(
    "name", ["receive_timeout", "min_receive_rate", "min_send_rate", "keep_alive"]
)
def test_limits_without_settings_are_the_defaults(name: str) -> None:
    assert getattr(DEFAULT_LIMITS, name) == Settings.model_fields[name].default


#: How pages say the limits that no setting changes.
TOLD = {
    "linger_before": (0.1, "to read the refusal (RFC 9112, section 9.6) | 0.1 s |"),
    "linger_bytes": (8 << 20, "at most 8 MiB are discarded |"),
    "linger_seconds": (2, "are discarded | 2 s |"),
    "rate_interval": (1, "| each second: MIN_RECEIVE_RATE; then 408 |"),
    "first_grace": (1, "A new connection has a second to send its first request,"),
    "drain_grace": (0.25, "an idle connection a quarter of a second."),
}


@pytest.mark.parametrize("name", TOLD)
def test_limits_equal_those_on_the_pages(name: str) -> None:
    value, words = TOLD[name]
    assert getattr(DEFAULT_LIMITS, name) == value
    assert words in PAGES
