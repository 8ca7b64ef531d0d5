"""A service with shared memory, an object of a client's, and its registration."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from support.segments import PREFIX, Segment, segment
from support.services.server import Service
from support.services.variants import DeviceService
from support.v2.callers import Caller
from support.v2.regions import SIZE, SYSTEM, Memory


@pytest.fixture(scope="module")
def memory() -> Memory:
    return SYSTEM


@pytest.fixture(scope="module")
def service(memory: Memory) -> Iterator[Service]:
    """Two workers; with CUDA's memory, one that has a device."""
    options = ("--shared-memory-prefix", PREFIX)
    device = ("--backend", "auto", "--cuda-shared-memory", "true")
    is_system = memory is SYSTEM
    made = (Service if is_system else DeviceService)(
        *options, *(("--workers", "2") if is_system else device)
    )
    with made as running:
        yield running


@pytest.fixture
def owned() -> Iterator[Segment]:
    with segment(SIZE) as made:
        yield made


@pytest.fixture
def region(caller: Caller, memory: Memory, owned: Segment) -> Iterator[str]:
    """The whole segment, registered."""
    assert memory.register(caller, "r", owned.key).head == {}
    yield "r"
    assert memory.unregister(caller, "r").head == {}
