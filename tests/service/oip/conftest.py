"""A shared memory object of a client's, and the service's view of such objects."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

from support.segments import PREFIX, SIZE, Segment, segment
from tensor_round_service.oip.posix_memory import PosixSharedMemory
from tensor_round_service.oip.regions import Registry


@pytest.fixture
def owned() -> Iterator[Segment]:
    with segment(SIZE) as made:
        made.memory[:] = np.arange(SIZE) % 251
        yield made


@pytest.fixture
def memory() -> PosixSharedMemory:
    return PosixSharedMemory(PREFIX, Registry())
