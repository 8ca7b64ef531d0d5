"""A service that speaks gRPC, and a connection to it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from support.http.grpc_client import Client, connected
from support.segments import PREFIX
from support.services.server import Service


@pytest.fixture(scope="module")
def service() -> Iterator[Service]:
    options = ("--access-log", "true", "--shared-memory-prefix", PREFIX)
    with Service(*options, "--max-bytes-in-flight", "16MiB") as running:
        yield running


@pytest.fixture
def client(service: Service) -> Iterator[Client]:
    with connected(service) as made:
        yield made
