"""Both clients on the one real service."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from support.clients import KINDS, AnyClient
from support.services.server import Service

#: Both clients on the service, and on the engine in their own process: one behaviour.
PLACES = {
    **{name: (kind, False) for name, kind in KINDS.items()},
    **{f"{name}-local": (kind, True) for name, kind in KINDS.items()},
}


@pytest.fixture(scope="session", params=PLACES.values(), ids=list(PLACES))
def client(request: pytest.FixtureRequest, service: Service) -> Iterator[AnyClient]:
    kind, is_local = request.param
    with kind("local:" if is_local else service.url) as connected:
        yield connected


@pytest.fixture(params=KINDS.values(), ids=list(KINDS))
def kind(request: pytest.FixtureRequest) -> type[AnyClient]:
    """Which client to make, for tests that need one with options."""
    chosen: type[AnyClient] = request.param
    return chosen
