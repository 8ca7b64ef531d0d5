"""The states of a connection."""

from __future__ import annotations

from enum import IntEnum


class State(IntEnum):
    """The state of a connection; comments say what it waits for."""

    IDLE = 0  # the first byte of a request
    HEAD = 1  # the rest of a head
    WORKING = 2  # the route
    RECEIVING = 3  # bytes of a body that the route reads
    SENDING = 4  # the peer, to read the response
    LINGERING = 5  # a refused client, to read the refusal (RFC 9112, section 9.6)
    DROPPING = 6  # the end of a refused client's body, which is discarded
    CLOSING = 7  # the peer, to read the rest of the write buffer
    CLOSED = 8


#: Legal transitions. A lost connection goes to CLOSED from every state.
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
