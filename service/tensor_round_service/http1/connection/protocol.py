"""The protocol factory that uvicorn's server calls for each connection."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .connection import Connection
from .context import ConnectionLimits, RequestHandler, ServerContext, ServerState


def http_protocol(handler: RequestHandler, limits: ConnectionLimits) -> Callable[..., Connection]:
    """A value for uvicorn's option ``http``."""
    servers: dict[int, ServerContext] = {}

    def connection(*, server_state: ServerState, **_others: Any) -> Connection:
        server = servers.get(id(server_state))
        if server is None:
            server = servers[id(server_state)] = ServerContext(handler, limits, server_state)
        return Connection(server)

    return connection
