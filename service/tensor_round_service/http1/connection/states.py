"""The states of a connection."""

from __future__ import annotations

from enum import IntEnum


class State(IntEnum):
    """What a connection waits for."""

    IDLE = 0  # a request
    HEAD = 1  # the rest of a head
    WORKING = 2  # a route
    RECEIVING = 3  # bytes of a body that a route has asked for
    SENDING = 4  # the peer, to take a response
    LINGERING = 5  # a refused sender, to read why (RFC 9112, section 9.6)
    DROPPING = 6  # the end of what that one still sends
    CLOSING = 7  # the peer, to take what is left
    CLOSED = 8


#: Where each state may lead. Any connection may be lost, whatever it waits for.
MOVES: dict[State, frozenset[State]] = {
    State.IDLE: frozenset({State.HEAD, State.WORKING, State.LINGERING, State.CLOSING}),
    State.HEAD: frozenset({State.WORKING, State.LINGERING, State.CLOSING}),
    State.WORKING: frozenset(
        {State.IDLE, State.RECEIVING, State.SENDING, State.LINGERING, State.CLOSING}
    ),
    State.RECEIVING: frozenset({State.WORKING}),
    State.SENDING: frozenset({State.IDLE, State.LINGERING, State.CLOSING}),
    State.LINGERING: frozenset({State.DROPPING}),
    State.DROPPING: frozenset({State.CLOSING}),
    State.CLOSING: frozenset(),
    State.CLOSED: frozenset(),
}
