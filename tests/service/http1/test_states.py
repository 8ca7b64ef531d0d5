"""The states of a connection: a move that is not in the table raises, and the table is whole."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import pytest
import uvloop

from tensor_round_service.http1.connection import Connection
from tensor_round_service.http1.context import ConnectionLimits, Exchange, ServerContext
from tensor_round_service.http1.head import Header
from tensor_round_service.http1.lifecycle import MOVES, State
from tensor_round_service.http1.request import Request
from tensor_round_service.http1.response import FixedFields, Response


def is_in(connection: Connection, state: State) -> bool:
    return connection._state is state


@pytest.fixture(params=[asyncio.new_event_loop, uvloop.new_event_loop], ids=["asyncio", "uvloop"])
def runner(request: pytest.FixtureRequest) -> Any:
    with asyncio.Runner(loop_factory=request.param) as runner:
        yield runner


class Echo:
    """Responds with the body of a request."""

    logs_access = False

    async def respond(self, request: Request) -> Response:
        body = bytearray(request.head.length or 0)
        await request.receive_into(memoryview(body))
        return text(200, bytes(body))

    def refuse(self, path: str, error: Exception, request: Request | None = None) -> Response:
        return text(400, str(error).encode())

    def preallocated_response(self, path: str, error: Exception) -> tuple[Response, bytes]:
        raise error

    def abandoned(self, path: str, received: int) -> None:
        """Nobody counts."""

    def log(self, exchange: Exchange) -> None:
        raise AssertionError(exchange)


def text(status: int, body: bytes) -> Response:
    return Response(status, FixedFields((b"content-type", b"text/plain")), [body], [])


@dataclass
class Server:
    """What a server keeps of its connections."""

    connections: set[Any] = field(default_factory=set)
    tasks: set[asyncio.Task[None]] = field(default_factory=set)
    default_headers: list[Header] = field(default_factory=list)


@asynccontextmanager
async def connected() -> AsyncIterator[tuple[Connection, socket.socket]]:
    """A connection of a server, and its peer's socket; both are closed behind it."""
    ours, theirs = socket.socketpair()
    server = Server()
    site = ServerContext(Echo(), ConnectionLimits(), server)
    transport, connection = await site.loop.create_connection(lambda: Connection(site), sock=ours)
    theirs.setblocking(False)
    try:
        yield connection, theirs
    finally:
        transport.abort()
        theirs.close()
        await until(lambda: connection._state is State.CLOSED)
        assert not server.connections
        assert not server.tasks


async def until(is_so: Callable[[], bool]) -> None:
    """Wait for it; fails after 10 s."""
    async with asyncio.timeout(10):
        while not is_so():
            await asyncio.sleep(0.001)


def ways() -> dict[State, list[State]]:
    """A shortest way from the first state to each that the table leads to."""
    found: dict[State, list[State]] = {State.IDLE: []}
    reached = [State.IDLE]
    for state in reached:
        for next_state in sorted(MOVES[state]):
            if next_state not in found:
                found[next_state] = [*found[state], next_state]
                reached.append(next_state)
    return found


WAYS = ways()
LIVE = [state for state in State if state is not State.CLOSED]


def test_the_table_leads_to_every_state_but_the_last() -> None:
    assert MOVES.keys() == set(State)
    assert WAYS.keys() == set(LIVE)


def test_a_closing_connection_goes_nowhere() -> None:
    assert not MOVES[State.CLOSING]
    assert not MOVES[State.CLOSED]


def test_every_state_but_the_last_leads_to_closing() -> None:
    ending = {State.CLOSING}
    for _ in State:
        ending |= {state for state in State if MOVES[state] & ending}
    assert ending == set(LIVE)


@pytest.mark.parametrize("state", LIVE, ids=lambda state: state.name)
def test_only_the_moves_of_the_table_are_made(runner: asyncio.Runner, state: State) -> None:
    async def main() -> None:
        for target in State:
            async with connected() as (connection, _):
                for step in WAYS[state]:
                    connection._move(step)
                if target in MOVES[state]:
                    connection._move(target)
                    assert connection._state is target
                    continue
                with pytest.raises(RuntimeError, match=f"from {state.name} to {target.name}"):
                    connection._move(target)
                assert connection._state is state

    runner.run(main())


@pytest.mark.parametrize("state", LIVE, ids=lambda state: state.name)
def test_a_connection_may_be_lost_in_any_state(runner: asyncio.Runner, state: State) -> None:
    async def main() -> None:
        async with connected() as (connection, _):
            for step in WAYS[state]:
                connection._move(step)
            connection.transport.abort()
            await until(lambda: connection._state is State.CLOSED)
            for target in State:
                with pytest.raises(RuntimeError):
                    connection._move(target)

    runner.run(main())


def test_the_states_that_a_request_goes_through(runner: asyncio.Runner) -> None:
    async def main() -> None:
        loop = asyncio.get_running_loop()
        async with connected() as (connection, peer):
            assert connection._state is State.IDLE
            for part, state in [
                (b"POST / HTTP/1.1\r\nHost: h\r\n", State.HEAD),
                (b"Content-Length: 2\r\n\r\n", State.RECEIVING),
                (b"ab", State.IDLE),
            ]:
                await loop.sock_sendall(peer, part)
                await until(partial(is_in, connection, state))
            assert (await loop.sock_recv(peer, 1 << 16)).endswith(b"\r\n\r\nab")

    runner.run(main())


@pytest.mark.parametrize("header", [0, 512], ids=["/round", "/v2"])
def test_64_kib_need_no_wait(
    runner: asyncio.Runner, monkeypatch: pytest.MonkeyPatch, header: int
) -> None:
    """The tensor is received with its head in one read, and sent with its head in one write."""
    body = bytes(header) + bytes(range(256)) * 256
    states: list[State] = []
    move = Connection._move

    def recorded(connection: Connection, state: State) -> None:
        states.append(state)
        move(connection, state)

    async def main() -> None:
        loop = asyncio.get_running_loop()
        async with connected() as (_, peer):
            head = b"POST / HTTP/1.1\r\nHost: h\r\nX: %b\r\n" % (b"x" * 1024)
            sent = b"%bContent-Length: %d\r\n\r\n%b" % (head, len(body), body)
            assert peer.send(sent) == len(sent)
            response = b""
            while not response.endswith(b"\r\n\r\n" + body):
                response += await loop.sock_recv(peer, 1 << 18)
            assert states == [State.WORKING, State.IDLE]

    monkeypatch.setattr(Connection, "_move", recorded)
    runner.run(main())


def test_a_refused_sender_may_read_why(runner: asyncio.Runner) -> None:
    async def main() -> None:
        loop = asyncio.get_running_loop()
        async with connected() as (connection, peer):
            await loop.sock_sendall(peer, b"\0")
            await until(lambda: connection._state is State.DROPPING)
            assert (await loop.sock_recv(peer, 1 << 16)).startswith(b"HTTP/1.1 400 ")
            peer.close()
            await until(lambda: connection._state is State.CLOSED)

    runner.run(main())
