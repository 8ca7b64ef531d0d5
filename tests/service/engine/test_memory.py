"""Used memory is kept within the budget, and given to the request that takes its room."""

from __future__ import annotations

import numpy as np

from tensor_round_service.backends import Bytes
from tensor_round_service.engine.job import Job
from tensor_round_service.engine.memory import Memory

MIB = 1 << 20


class Allocator:
    """Memory, and how often there was some to be made."""

    def __init__(self) -> None:
        self.sizes: list[int] = []

    def __call__(self, nbytes: int) -> Bytes:
        self.sizes.append(nbytes)
        return np.empty(nbytes, np.uint8)


def use(memory: Memory, nbytes: int) -> None:
    """One request from its beginning to its end."""
    job = Job(memory)
    job.reserve_first(nbytes)
    job.reserve_rest()
    job.allocate(nbytes)
    job.end(reusable=True)


def test_a_full_budget_does_not_throw_away_what_it_is_about_to_need() -> None:
    allocator = Allocator()
    memory = Memory(allocator, MIB)
    for _ in range(3):
        use(memory, MIB)
    assert allocator.sizes == [MIB]


def test_stock_and_requests_stay_within_the_budget_together() -> None:
    allocator = Allocator()
    memory = Memory(allocator, MIB)
    use(memory, MIB)
    use(memory, MIB // 4)  # which a mebibyte is too large for
    assert allocator.sizes == [MIB, MIB // 4]
    assert memory.pooled_bytes == MIB // 4
