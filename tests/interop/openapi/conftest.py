"""Generators of clients: `make test-openapi` sets them up in a venv of their own, Node.js too."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from support.keys import needing
from support.services.server import Service

KEY = "a-key-for-generated-clients"


@pytest.fixture(scope="session")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    keys = needing(tmp_path_factory.mktemp("keys"), KEY)
    options = (*keys, "--shared-memory-prefix", "openapi")
    with Service("--backend", "numpy", *options) as running:
        yield running


@pytest.fixture(scope="session")
def key() -> str:
    return KEY


@pytest.fixture(scope="session")
def document(service: Service, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The service's OpenAPI document, which is open."""
    path = tmp_path_factory.mktemp("document") / "openapi.json"
    path.write_bytes(service.get("/openapi.json").content)
    return path
