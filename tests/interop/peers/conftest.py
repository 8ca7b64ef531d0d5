"""Peers that need much: `make test-interop` sets them up in venvs of their own."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from support.segments import PREFIX
from support.services.server import Service


@pytest.fixture(scope="session")
def service() -> Iterator[Service]:
    with Service("--shared-memory-prefix", PREFIX) as running:
        yield running
