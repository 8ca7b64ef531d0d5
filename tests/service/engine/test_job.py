"""The job of a request: its memory is reserved before its body, and returned once at its end."""

from __future__ import annotations

import asyncio
from typing import Any

import numpy as np
import pytest

from tensor_round.contract.errors import Overloaded, TensorTooLarge
from tensor_round_service.content.sources import Progress
from tensor_round_service.engine.job import ENOUGH_BYTES, FIRST_BYTES, Job, admit
from tensor_round_service.engine.memory import Memory

KIB, MIB = 1 << 10, 1 << 20
BUDGET = 32 * MIB
#: The largest request of this budget.
LARGE = 30 * MIB


class Watch:
    """Remembers the jobs that ended, and what was reserved by then."""

    def __init__(self, memory: Memory) -> None:
        self.memory = memory
        self.ended: list[tuple[Job, int]] = []

    def job_ended(self, job: Job) -> None:
        self.ended.append((job, self.memory.in_use))


@pytest.fixture
def memory() -> Memory:
    return Memory(lambda nbytes: np.empty(nbytes, np.uint8), BUDGET)


@pytest.mark.parametrize(
    ("nbytes", "first"),
    [
        (0, 0),
        (1, 1),
        (64 * KIB - 1, 64 * KIB - 1),
        (64 * KIB, 64 * KIB),
        (64 * KIB + 1, 64 * KIB),
        (LARGE, 64 * KIB),
    ],
)
def test_the_first_64_kib_are_reserved_before_the_rest(
    memory: Memory, nbytes: int, first: int
) -> None:
    job = Job(memory)
    job.reserve_first(nbytes)
    assert memory.in_use == first
    job.reserve_rest()
    assert memory.in_use == nbytes
    job.reserve_rest()
    assert memory.in_use == nbytes
    job.end(reusable=True)
    assert memory.in_use == 0


def test_call_over_the_whole_budget_is_refused_before_its_first_part(memory: Memory) -> None:
    other, job = Job(memory), Job(memory)
    other.reserve(2 * MIB)
    with pytest.raises(Overloaded):
        job.reserve_first(LARGE - 2 * MIB + 1)
    assert (memory.in_use, job.other_bytes()) == (2 * MIB, 2 * MIB)
    job.reserve_first(LARGE - 2 * MIB)
    assert job.other_bytes() == 2 * MIB
    job.reserve_rest()
    assert (memory.in_use, job.other_bytes(), other.other_bytes()) == (LARGE, 2 * MIB, 28 * MIB)


def test_a_refused_rest_leaves_the_first_part_until_the_end(memory: Memory) -> None:
    job, other = Job(memory), Job(memory)
    job.reserve_first(LARGE)
    other.reserve_first(2 * MIB)
    other.reserve_rest()
    with pytest.raises(Overloaded):
        job.reserve_rest()
    assert (memory.in_use, job.other_bytes()) == (2 * MIB + 64 * KIB, 2 * MIB)
    job.end(reusable=True)
    assert memory.in_use == 2 * MIB


def test_further_reservations_are_added_to_the_job_s(memory: Memory) -> None:
    job = Job(memory)
    job.reserve(3)
    job.reserve(LARGE - 3)
    assert (memory.in_use, job.other_bytes()) == (LARGE, 0)
    with pytest.raises(TensorTooLarge) as refused:
        job.reserve(1)
    assert refused.value.got_bytes == LARGE + 1
    assert memory.in_use == LARGE
    job.end(reusable=True)
    assert memory.in_use == 0


@pytest.mark.parametrize(
    ("nbytes", "pooled"), [(64 * KIB - 1, 0), (64 * KIB, 64 * KIB), (200_000, 200_000)]
)
def test_the_buffers_of_a_job_serve_others_if_no_one_uses_them(
    memory: Memory, nbytes: int, pooled: int
) -> None:
    job = Job(memory)
    job.reserve(nbytes)
    buffer = job.allocate(nbytes)
    assert buffer.size == nbytes
    job.end(reusable=True)
    assert memory.pooled_bytes == pooled
    job.end(reusable=True)
    assert memory.pooled_bytes == pooled


def test_buffers_that_a_thread_may_write_into_are_not_used_again(memory: Memory) -> None:
    job = Job(memory)
    job.reserve(MIB)
    buffer = job.allocate(MIB)
    job.end(reusable=False)
    job.end(reusable=True)
    assert (memory.in_use, memory.pooled_bytes) == (0, 0)
    next_job = Job(memory)
    assert not np.shares_memory(next_job.allocate(MIB), buffer)


def test_a_larger_buffer_of_the_pool_is_cut_and_returned_whole(memory: Memory) -> None:
    first, second = Job(memory), Job(memory)
    whole = first.allocate(MIB)
    first.end(reusable=True)
    cut = second.allocate(MIB - 1)
    assert cut.size == MIB - 1
    assert np.shares_memory(cut, whole)
    assert memory.pooled_bytes == 0
    second.end(reusable=True)
    assert memory.pooled_bytes == MIB


def test_small_buffers_are_new_and_64_kib_are_looked_for_in_the_pool(memory: Memory) -> None:
    memory.release(0, [np.empty(64 * KIB, np.uint8)])
    job = Job(memory)
    assert job.allocate(64 * KIB - 1).size == 64 * KIB - 1
    assert memory.pooled_bytes == 64 * KIB
    job.allocate(64 * KIB)
    assert memory.pooled_bytes == 0


def test_an_end_is_observed_once_after_the_memory_is_free(memory: Memory) -> None:
    job, watch = Job(memory), Watch(memory)
    job.reserve(MIB)
    job.observer = watch
    for is_sent in (True, False):
        job.end(reusable=True, is_sent=is_sent)
        assert job.is_sent is is_sent
    assert watch.ended == [(job, 0)]
    assert job.observer is None


def test_after_the_end_a_job_takes_part_in_nothing(memory: Memory) -> None:
    job, other = Job(memory), Job(memory)
    job.reserve(3)
    other.reserve(5)
    overlap: Any = object()
    job.overlap = overlap
    for _ in range(2):
        job.end(reusable=True)
        assert job.overlap is None
        assert job.other_bytes() == memory.in_use == 5


CONTENT = bytes(range(251)) * 600


class Body:
    """A source that notes what was reserved whenever it was read, and the sizes of the targets."""

    def __init__(self, memory: Memory) -> None:
        self._memory = memory
        self.content = CONTENT
        self.reads: list[tuple[int, int]] = []

    @property
    def is_at_end(self) -> bool:
        return not self.content

    async def receive_into(self, target: memoryview, _progress: Progress | None = None) -> int:
        self.reads.append((self._memory.in_use, len(target)))
        got, self.content = self.content[: len(target)], self.content[len(target) :]
        target[: len(got)] = got
        return len(got)


def test_a_small_request_reserves_its_memory_and_reads_nothing(memory: Memory) -> None:
    body = Body(memory)
    assert asyncio.run(admit(body, Job(memory), FIRST_BYTES)) is body
    assert memory.in_use == FIRST_BYTES
    assert not body.reads


def test_a_large_one_reserves_most_of_it_once_its_body_has_begun(memory: Memory) -> None:
    async def main() -> None:
        body = Body(memory)
        source = await admit(body, Job(memory), len(CONTENT))
        # Its first bytes fit with a head into one segment of 64 KiB.
        assert body.reads == [(FIRST_BYTES, ENOUGH_BYTES)]
        assert (FIRST_BYTES - 8192) < ENOUGH_BYTES < FIRST_BYTES
        assert memory.in_use == len(CONTENT)
        content = memoryview(bytearray(len(CONTENT)))
        filled = 0
        while not source.is_at_end:
            filled += await source.receive_into(content[filled:])
        assert content == CONTENT

    asyncio.run(main())


def test_call_without_room_is_refused_before_a_byte_is_read(memory: Memory) -> None:
    memory.reserve(BUDGET // 2, of=BUDGET // 2)
    for nbytes, refusal in ((BUDGET // 2, Overloaded), (BUDGET + 1, TensorTooLarge)):
        body = Body(memory)
        with pytest.raises(refusal):
            asyncio.run(admit(body, Job(memory), nbytes))
        assert not body.reads
        assert memory.in_use == BUDGET // 2
