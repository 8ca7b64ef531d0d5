"""A service with system shared memory, an object of a client's, and its registration."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from support.http.region_form import SIZE, post
from support.segments import PREFIX, Segment, segment
from support.services.server import Service


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
def region(service: Service, owned: Segment) -> Iterator[str]:
    """The whole segment, registered."""
    reply = post(service, "/region/r/register", key="/" + owned.key, offset=0, byte_size=SIZE)
    assert reply.status == 200, reply.content
    yield "r"
    assert post(service, "/region/r/unregister").status == 200
