"""The overlays, rendered; `make test-deploy` sets up kubectl and Node.js in a venv of their own."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from interop.deploy.manifests import (
    EDGES,
    FOLDER,
    OVERLAYS,
    OWN,
    SERVING,
    Overlay,
    edge_overlay,
    own_overlay,
    render,
)
from support.services.server import Service


@pytest.fixture(scope="session")
def overlays(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Overlay]:
    folders = {name: FOLDER / "overlays" / name for name in OVERLAYS}
    folders[OWN] = own_overlay(tmp_path_factory.mktemp(OWN))
    folders |= {name: edge_overlay(tmp_path_factory.mktemp(name), name) for name in EDGES}
    return {name: Overlay(render(folder)) for name, folder in folders.items()}


@pytest.fixture(scope="session", params=OVERLAYS)
def overlay(request: pytest.FixtureRequest, overlays: dict[str, Overlay]) -> Overlay:
    """Every overlay in turn."""
    return overlays[request.param]


@pytest.fixture(scope="session", params=SERVING)
def serving(request: pytest.FixtureRequest, overlays: dict[str, Overlay]) -> Overlay:
    """Every overlay that has pods, in turn."""
    return overlays[request.param]


@pytest.fixture(scope="session")
def service() -> Iterator[Service]:
    with Service("--metrics-port", "0") as running:
        yield running
