"""What the connections of one server share: the application, the limits, and who is connected."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Any, Protocol

from ..head import Header, RequestHead
from ..request import Request
from ..response import Response, field_lines


@dataclass(frozen=True, slots=True)
class Limits:
    """What a peer may take: seconds, and bytes a second."""

    #: To send a head in, and grace before the rates hold.
    receive_timeout: float = 10.0
    min_receive_rate: int = 64 << 10
    min_send_rate: int = 64 << 10
    #: An idle connection is kept for so long.
    keep_alive: float = 5.0
    #: Between two looks at a rate.
    rate_interval: float = 1.0
    #: A body of which so many bytes have come has no more grace than one interval.
    grace_bytes: int = 60 << 10
    #: A refused sender that also reads has the response by then, and has stopped: what it does
    #: not send need not be received.
    linger_before: float = 0.1
    linger_seconds: float = 2.0
    linger_bytes: int = 8 << 20
    #: An idle connection is kept for so long once the server leaves: a request may be under way.
    drain_grace: float = 0.25


class Application(Protocol):
    """What responds to requests."""

    async def respond(self, request: Request) -> Response:
        """The response to a request, a refusal included.

        Raises what reading its body raises, where nobody is left to respond to.
        """

    def refuse(self, path: str, error: Exception, head: RequestHead | None = None) -> Response:
        """The response that tells of an error, in the form of that path.

        ``head`` is that of the request, where it has become known.
        """

    def last_resort(self, path: str, error: Exception) -> bytes:
        """A whole response made beforehand, for when no other can be made."""


class ServerState(Protocol):
    """What a server keeps of its connections; uvicorn's is one."""

    connections: set[Any]
    tasks: set[asyncio.Task[None]]
    default_headers: list[Header]


class Site:
    """The surroundings of a connection."""

    __slots__ = ("application", "common_lines", "default_headers", "limits", "loop", "state")

    def __init__(self, application: Application, limits: Limits, state: ServerState) -> None:
        self.application = application
        self.limits = limits
        self.state = state
        # Asking for it is a system call.
        self.loop = asyncio.get_running_loop()
        self.render()

    def render(self) -> None:
        """Make lines of the fields that every response has; the server makes them anew."""
        self.default_headers = self.state.default_headers
        self.common_lines = field_lines(self.default_headers)
