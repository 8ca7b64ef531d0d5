"""A service with system shared memory, an object of a client's, and its registration."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from support.segments import PREFIX, Segment, segment
from support.services.server import Service
from support.v2.callers import Caller
from support.v2.regions import SIZE, register, unregister


@pytest.fixture(scope="module")
def service() -> Iterator[Service]:
    options = ("--workers", "2", "--shared-memory-prefix", PREFIX)
    with Service(*options) as running:
        yield running


@pytest.fixture
def owned() -> Iterator[Segment]:
    with segment(SIZE) as made:
        yield made


@pytest.fixture
def region(caller: Caller, owned: Segment) -> Iterator[str]:
    """The whole segment, registered."""
    assert register(caller, "r", "/" + owned.key).head == {}
    yield "r"
    assert unregister(caller, "r").head == {}
