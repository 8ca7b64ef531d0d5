"""Both event loops, and a server with a client, for the tests on real sockets."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest

from support.http.http2_site import Caller, Site, serving


@pytest.fixture(params=[False, True], ids=["asyncio", "uvloop"])
def anyio_backend(request: pytest.FixtureRequest) -> tuple[str, dict[str, Any]]:
    return "asyncio", {"use_uvloop": request.param}


@pytest.fixture
async def site() -> AsyncIterator[Site]:
    async with serving() as made:
        yield made


@pytest.fixture
async def caller(site: Site) -> AsyncIterator[Caller]:
    async with site.caller() as made:
        yield made
