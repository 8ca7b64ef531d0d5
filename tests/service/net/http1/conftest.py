"""The event loop of asynchronous tests, whose clock can be set forward; a server and a caller."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest

from support.http.http1_site import Loop, Peer, Site, serving
from tensor_round_service.net.http1 import connection


@pytest.fixture
def anyio_backend() -> tuple[str, dict[str, Any]]:
    return "asyncio", {"loop_factory": Loop}


@pytest.fixture
async def site(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Site]:
    """A server that sends each body back, unless its handler has another answer.

    Its turns end by the number of requests alone: the machine may be busy.
    """
    monkeypatch.setattr(connection, "TURN_SECONDS", 60.0)
    async with serving() as made:
        yield made


@pytest.fixture
async def peer(site: Site) -> AsyncIterator[Peer]:
    """A caller of it."""
    async with site.peer() as made:
        yield made
