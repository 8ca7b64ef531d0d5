"""The memory budget to the byte: what it admits, what it refuses, and what a refusal leaves."""

from __future__ import annotations

import numpy as np
import pytest

from tensor_round.contract.errors import Overloaded, TensorTooLarge
from tensor_round_service.engine.memory import Memory, largest_request

KIB, MIB = 1 << 10, 1 << 20
#: Of which a sixteenth is for small requests.
BUDGET = 32 * MIB
LARGE = 30 * MIB


def memory(limit_bytes: int = BUDGET) -> Memory:
    return Memory(lambda nbytes: np.empty(nbytes, np.uint8), limit_bytes)


@pytest.mark.parametrize(
    ("budget", "largest"),
    [
        (BUDGET, LARGE),
        (1, 1),
        (MIB - 1, MIB - 1),
        (MIB, MIB),
        (MIB + 1, MIB),  # no sixteenth is left beside what every budget admits
        (2 * MIB, 2 * MIB - 128 * KIB),
        (2 * MIB + 15, 2 * MIB - 128 * KIB + 15),
    ],
)
def test_the_largest_request_leaves_a_sixteenth_to_small_ones(budget: int, largest: int) -> None:
    assert largest_request(budget) == memory(budget).max_request_bytes == largest


@pytest.mark.parametrize(
    ("budget", "limit"),
    [(BUDGET, LARGE), (MIB, MIB), (4 * KIB, 4 * KIB), (2 * MIB, 2 * MIB - 128 * KIB)],
)
@pytest.mark.parametrize("reserved", [0, 1, 4 * KIB])
def test_a_byte_above_its_limit_is_too_large_and_leaves_no_trace(
    budget: int, limit: int, reserved: int
) -> None:
    room = memory(budget)
    with pytest.raises(TensorTooLarge, match=f"{limit + 1} bytes .* {limit} for all") as refused:
        room.reserve(reserved, of=limit + 1)
    assert (refused.value.status, refused.value.retry_after) == (413, None)
    assert refused.value.limit_bytes == limit
    assert refused.value.got_bytes == limit + 1
    assert room.in_use == 0


def test_large_requests_leave_the_last_sixteenth_to_small_ones() -> None:
    room = memory()
    room.reserve(LARGE, of=LARGE)
    with pytest.raises(Overloaded) as refused:
        room.reserve(0, of=MIB + 1, pending=1)
    assert (refused.value.status, refused.value.retry_after) == (503, 1)
    room.reserve(MIB, of=MIB)
    room.reserve(MIB, of=MIB)
    assert room.in_use == BUDGET
    with pytest.raises(Overloaded):
        room.reserve(1, of=1)
    room.reserve(0, of=0)
    assert room.in_use == BUDGET


@pytest.mark.parametrize("used", [0, 1, 3 * MIB])
@pytest.mark.parametrize("pending", [0, 1, 2 * MIB])
def test_pending_reservation_needs_room_to_the_byte_but_takes_none(used: int, pending: int) -> None:
    room = memory()
    room.reserve(used, of=used)
    left = LARGE - used - pending
    with pytest.raises(Overloaded):
        room.reserve(left + 1, of=LARGE, pending=pending)
    assert room.in_use == used
    room.reserve(left, of=LARGE, pending=pending)
    assert room.in_use == used + left


def test_released_memory_is_free_again_to_the_byte() -> None:
    room = memory()
    room.reserve(LARGE, of=LARGE)
    room.release(3, ())
    assert room.in_use == LARGE - 3
    with pytest.raises(Overloaded):
        room.reserve(4, of=LARGE)
    room.reserve(3, of=LARGE)
    room.release(LARGE, ())
    assert room.in_use == 0
