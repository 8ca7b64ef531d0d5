"""Both clients on the one real service."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from support.clients import KINDS, AnyClient
from support.server import Service


@pytest.fixture(scope="session", params=KINDS.values(), ids=list(KINDS))
def client(request: pytest.FixtureRequest, service: Service) -> Iterator[AnyClient]:
    with request.param(service.url) as connected:
        yield connected


@pytest.fixture(params=KINDS.values(), ids=list(KINDS))
def kind(request: pytest.FixtureRequest) -> type[AnyClient]:
    """Which client to make, for tests that need one with options."""
    chosen: type[AnyClient] = request.param
    return chosen
