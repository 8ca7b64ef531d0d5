"""The states of a connection: a move that is not in the table raises, and the table is whole."""

from __future__ import annotations

import pytest

from support.http.http1_site import answer, asked, give, serving
from tensor_round_service.http1.connection import Connection
from tensor_round_service.http1.lifecycle import MOVES, State

pytestmark = pytest.mark.anyio


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


def test_table_leads_to_every_state_and_from_each_to_closing() -> None:
    assert MOVES.keys() == set(State)
    assert WAYS.keys() == set(LIVE)
    assert not MOVES[State.CLOSING]
    assert not MOVES[State.CLOSED]
    ending = {State.CLOSING}
    for _ in State:
        ending |= {state for state in State if MOVES[state] & ending}
    assert ending == set(LIVE)


@pytest.mark.parametrize("state", LIVE, ids=lambda state: state.name)
async def test_only_the_moves_of_the_table_are_made_until_the_connection_is_lost(
    state: State,
) -> None:
    async with serving() as site:
        site.handler.logs_access = False
        for target in State:
            async with site.peer() as peer:
                connection = peer.connection
                for step in WAYS[state]:
                    connection._move(step)
                if target in MOVES[state]:
                    connection._move(target)
                    assert connection.state is target
                else:
                    with pytest.raises(RuntimeError, match=f"from {state.name} to {target.name}"):
                        connection._move(target)
                    assert connection.state is state
                connection.transport.abort()
                await peer.state(State.CLOSED)
                with pytest.raises(RuntimeError):
                    connection._move(target)


@pytest.mark.parametrize("header", [0, 512], ids=["/round", "/v2"])
async def test_64_kib_need_no_wait(monkeypatch: pytest.MonkeyPatch, header: int) -> None:
    """The tensor is received with its head in one read, and sent with its head in one write."""
    states: list[State] = []
    move = Connection._move

    def recorded(connection: Connection, state: State) -> None:
        states.append(state)
        move(connection, state)

    monkeypatch.setattr(Connection, "_move", recorded)
    body = bytes(header) + bytes(range(256)) * 256
    async with serving() as site, site.peer() as peer:
        give(peer.connection, asked(f"X: {'x' * 1024}", length=len(body)) + body)
        assert states == [State.WORKING, State.IDLE]
        assert await peer.read(len(answer(body))) == answer(body)
