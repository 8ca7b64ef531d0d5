"""Used memory is kept within the budget, and given to the request that takes its room."""

from __future__ import annotations

import numpy as np

from tensor_round_service.admission import Budget
from tensor_round_service.backends import Bytes
from tensor_round_service.buffers import Buffers

MIB = 1 << 20


class Allocator:
    """Memory, and how often there was some to be made."""

    def __init__(self) -> None:
        self.sizes: list[int] = []

    def __call__(self, nbytes: int) -> Bytes:
        self.sizes.append(nbytes)
        return np.empty(nbytes, np.uint8)


def use(buffers: Buffers, nbytes: int) -> None:
    """One request from its beginning to its end."""
    with buffers.lease() as lease:
        lease.reserve_first(nbytes)
        lease.reserve_rest()
        lease.take(nbytes)
        lease.settle()


def test_a_full_budget_does_not_throw_away_what_it_is_about_to_need() -> None:
    allocator = Allocator()
    buffers = Buffers(allocator, Budget(MIB))
    for _ in range(3):
        use(buffers, MIB)
    assert allocator.sizes == [MIB]


def test_stock_and_requests_stay_within_the_budget_together() -> None:
    allocator = Allocator()
    buffers = Buffers(allocator, Budget(MIB))
    use(buffers, MIB)
    use(buffers, MIB // 4)  # which a mebibyte is too large for
    assert allocator.sizes == [MIB, MIB // 4]
    assert buffers.stocked_bytes == MIB // 4
