"""Which images are tested."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from support.containers import Container, started


@pytest.fixture(scope="module", params=["cpu", "gpu"])
def image(request: pytest.FixtureRequest) -> str:
    return f"tensor-round:{request.param}"


@pytest.fixture(scope="module")
def container(image: str) -> Iterator[Container]:
    with started(image, BACKEND="numpy") as running:
        running.wait()
        yield running


@pytest.fixture(scope="module")
def published(image: str) -> Iterator[Container]:
    """Reached from outside; `auto` is NumPy on a machine without a GPU."""
    with started(image, published=True, BACKEND="auto") as running:
        running.wait()
        yield running
