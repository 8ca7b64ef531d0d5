"""Triton and the service, side by side."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from support.segments import PREFIX
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


@pytest.fixture(scope="module")
def service() -> Iterator[Service]:
    with Service("--shared-memory-prefix", PREFIX) as running:
        yield running


@pytest.fixture
def both(triton: Triton, service: Service) -> Both:
    return triton, service
