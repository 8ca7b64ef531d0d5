"""What all connections of a server share: request handler, limits, server state, memory."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from time import perf_counter
from typing import Any, Protocol
from weakref import WeakSet

from .head import Head, Header
from .limits import ConnectionLimits
from .request import Request
from .response import Response, field_lines
from .turns import Turns

#: Bytes of one read. A tensor of 64 KiB fits in with its heads, and is then served without a wait.
RECEIVE_BYTES = 96 << 10
#: The same of frames of HTTP/2 with a tensor: most clients cut it into 16 KiB.
RECEIVE_FRAMES_BYTES = 264 << 10


@dataclass(frozen=True, slots=True)
class FinishedExchange:
    """A request and what became of it, for metrics and the access log."""

    path: str
    #: None if it was not understood, or is incomplete.
    head: Head | None
    #: The caller's IP address; None on a Unix socket.
    client: str | None
    #: Bytes of the body that have come; without a head, those of the head.
    received: int
    #: None if the caller has left before all of it was sent.
    response: Response | None
    #: From the first byte of an incomplete head, or else from the end of the head.
    seconds: float
    #: The label of the API key that the request was let in with; empty without one.
    key: str = ""

    @classmethod
    def of(
        cls, request: Request, client: str | None, response: Response | None
    ) -> FinishedExchange:
        """The exchange of a request that is over now."""
        head, seconds = request.head, perf_counter() - request.began
        return cls(head.path, head, client, request.received, response, seconds, request.key)


class RequestHandler(Protocol):
    """The application that responds to requests."""

    #: Whether :meth:`finished` wants to know of exchanges that the owners of responses count.
    logs_access: bool

    @property
    def traces(self) -> bool:
        """Whether the handler writes the context of its span into a request's head."""

    async def respond(self, request: Request) -> Response:
        """Return the response to a request; errors become refusals.

        Raises :class:`~..net.bodies.ClientDisconnected` and :class:`~..head.MalformedRequest`.
        """

    def refuse(self, path: str, error: Exception, request: Request | None = None) -> Response:
        """Return the uncounted refusal for an error, in the format of the path's API.

        ``request`` is None if its head could not be parsed.
        """

    def preallocated_response(self, path: str, error: Exception) -> tuple[Response, bytes]:
        """Return an uncounted response that needs no memory, for an error, and its bytes."""

    def finished(self, exchange: FinishedExchange) -> None:
        """Log an exchange that is over, and count it unless the owner of its response has."""


class ServerState(Protocol):
    """The server's record of its connections; uvicorn's ``ServerState`` is one."""

    connections: set[Any]
    tasks: set[asyncio.Task[None]]
    default_headers: list[Header]


class OtherProtocol(Protocol):
    """Takes over connections that do not speak HTTP/1.1."""

    #: The protocol's name in ALPN, and the first bytes of its connections without TLS.
    alpn: str
    first_bytes: bytes

    def __call__(self, server: ServerContext, transport: Any, received: bytes) -> None:
        """Serve the transport from now on; ``received`` are its first bytes."""


@dataclass(eq=False, slots=True)
class ServerContext:
    """The objects that all connections of a server share."""

    handler: RequestHandler
    limits: ConnectionLimits
    state: ServerState
    #: Takes over connections that speak another protocol; None if nothing does.
    other: OtherProtocol | None = None
    #: Connections that are accepted, but not in the record yet. The failure of a TLS handshake is
    #: not reported, so its connection is in here until it is collected.
    opening: WeakSet[Any] = field(default_factory=WeakSet, init=False)
    #: Kept, because get_running_loop() makes a system call.
    loop: asyncio.AbstractEventLoop = field(default_factory=asyncio.get_running_loop, init=False)
    #: The receive buffer. All connections share it: each uses its content before the next read of
    #: the event loop.
    received: memoryview = field(
        default_factory=lambda: memoryview(bytearray(RECEIVE_FRAMES_BYTES)), init=False
    )
    #: The connections that wait for their next turn.
    turns: Turns = field(default_factory=Turns, init=False)
    default_headers: list[Header] = field(init=False)
    #: The default headers, serialized.
    common_lines: bytes = field(init=False)

    def __post_init__(self) -> None:
        self.render()

    def render(self) -> None:
        """Serialize the fields of every response; the server replaces them every second."""
        self.default_headers = self.state.default_headers
        self.common_lines = field_lines(self.default_headers)
