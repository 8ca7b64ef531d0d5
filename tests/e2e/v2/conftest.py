"""tritonclient, connected to the service."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import tritonclient.http as triton

from support.services.server import Service


@pytest.fixture(scope="module")
def client(service: Service) -> Iterator[triton.InferenceServerClient]:
    with triton.InferenceServerClient(f"127.0.0.1:{service.port}") as made:
        yield made
