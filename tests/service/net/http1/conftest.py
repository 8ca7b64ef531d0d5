"""The event loop of asynchronous tests, whose clock can be set forward; a server and a caller."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest

from support.http.http1_site import Loop, Peer, Site, serving


@pytest.fixture
def anyio_backend() -> tuple[str, dict[str, Any]]:
    return "asyncio", {"loop_factory": Loop}


@pytest.fixture
async def site() -> AsyncIterator[Site]:
    """A server that sends each body back, unless its handler has another answer."""
    async with serving() as made:
        yield made


@pytest.fixture
async def peer(site: Site) -> AsyncIterator[Peer]:
    """A caller of it."""
    async with site.peer() as made:
        yield made
