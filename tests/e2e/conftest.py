"""One real service for the whole ring; tests that need other settings start their own."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from support.server import Service


@pytest.fixture(scope="session")
def service() -> Iterator[Service]:
    with Service("--max-tensor-bytes", "320MiB") as running:
        yield running
