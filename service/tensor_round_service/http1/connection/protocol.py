"""The protocol factory that uvicorn's server calls for each connection."""

from __future__ import annotations

from typing import Any

from .connection import Connection
from .context import ConnectionLimits, RequestHandler, ServerContext, ServerState


class HTTPProtocol:
    """A value for uvicorn's option ``http``: it makes the protocol of each connection."""

    def __init__(self, handler: RequestHandler, limits: ConnectionLimits) -> None:
        self._handler = handler
        self._limits = limits
        self._servers: dict[int, ServerContext] = {}

    def __call__(self, *, server_state: ServerState, **_others: Any) -> Connection:
        """A protocol; uvicorn passes it to the event loop."""
        server = self._servers.get(id(server_state))
        if server is None:
            server = ServerContext(self._handler, self._limits, server_state)
            self._servers[id(server_state)] = server
        return Connection(server)

    @property
    def is_opening(self) -> bool:
        """Whether a connection is accepted and not open yet: its TLS handshake is under way."""
        return any(server.opening for server in self._servers.values())
