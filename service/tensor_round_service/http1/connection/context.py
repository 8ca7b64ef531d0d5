"""The objects that all connections of a server share: request handler, limits, server state."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Any, Protocol
from weakref import WeakSet

from ..head import Header, RequestHead
from ..request import Request
from ..response import Response, field_lines


@dataclass(frozen=True, slots=True)
class ConnectionLimits:
    """Limits of a peer. Times are seconds, rates are bytes a second."""

    #: Time to receive a head, and grace period of the minimum rates.
    receive_timeout: float = 10.0
    min_receive_rate: int = 64 << 10
    min_send_rate: int = 64 << 10
    #: Time after which an idle connection is closed.
    keep_alive: float = 5.0
    #: Time between two checks of a minimum rate.
    rate_interval: float = 1.0
    #: After so many bytes of a body the remaining grace is one interval.
    grace_bytes: int = 60 << 10
    #: Pause before the bytes of a refused client are read and discarded. A client that reads
    #: the response in this time stops sending.
    linger_before: float = 0.1
    linger_seconds: float = 2.0
    linger_bytes: int = 8 << 20
    #: Time after which an idle connection is closed while the server drains.
    drain_grace: float = 0.25
    #: The same for a connection without any request: a client that has just connected sends one.
    first_grace: float = 1.0


class RequestHandler(Protocol):
    """The application that responds to requests."""

    async def respond(self, request: Request) -> Response:
        """Return the response to a request; errors become refusals.

        Raises :class:`~..request.ClientDisconnected` and :class:`~..head.MalformedRequest`.
        """

    def refuse(self, path: str, error: Exception, head: RequestHead | None = None) -> Response:
        """Return the refusal for an error, in the format of the path's API.

        ``head`` is the head of the request; None if it could not be parsed.
        """

    def preallocated_response(self, path: str, error: Exception) -> bytes:
        """Return a serialized response that needs no memory, for an error on that path."""


class ServerState(Protocol):
    """The server's record of its connections; uvicorn's ``ServerState`` is one."""

    connections: set[Any]
    tasks: set[asyncio.Task[None]]
    default_headers: list[Header]


class ServerContext:
    """The objects that all connections of a server share."""

    __slots__ = (
        *("common_lines", "default_headers", "handler", "limits", "loop", "opening", "state"),
    )

    def __init__(
        self, handler: RequestHandler, limits: ConnectionLimits, state: ServerState
    ) -> None:
        self.handler = handler
        self.limits = limits
        self.state = state
        #: Connections that are accepted, but not in the record yet. Of one whose TLS handshake
        #: fails nobody tells, so it is in here until it is collected.
        self.opening: WeakSet[Any] = WeakSet()
        # get_running_loop() makes a system call.
        self.loop = asyncio.get_running_loop()
        self.render()

    def render(self) -> None:
        """Serialize the fields of every response; the server replaces them every second."""
        self.default_headers = self.state.default_headers
        self.common_lines = field_lines(self.default_headers)
