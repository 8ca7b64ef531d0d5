"""Triton and the service, side by side."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from support.services.server import Service
from support.services.triton import Both, Triton


@pytest.fixture(scope="module")
def triton(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Triton]:
    server = Triton(tmp_path_factory.mktemp("triton"))
    try:
        server.wait()
        yield server
    finally:
        server.process.terminate()  # killed, it would leave its shared memory behind
        server.process.wait(60)


@pytest.fixture
def both(triton: Triton, service: Service) -> Both:
    return triton, service
