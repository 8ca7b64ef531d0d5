"""Where uvicorn's server and the connections of this package meet."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .connection import Connection
from .site import Application, Limits, ServerState, Site


def http_protocol(application: Application, limits: Limits) -> Callable[..., Connection]:
    """What uvicorn's ``http=`` takes: it makes the connections of each server that has it."""
    sites: dict[int, Site] = {}

    def connection(*, server_state: ServerState, **_others: Any) -> Connection:
        site = sites.get(id(server_state))
        if site is None:
            site = sites[id(server_state)] = Site(application, limits, server_state)
        return Connection(site)

    return connection
