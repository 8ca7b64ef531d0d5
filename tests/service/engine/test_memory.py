"""The memory of all requests, to the byte: its budget, its pool of buffers, and the job of each."""

from __future__ import annotations

import asyncio
import contextlib
import os
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tensor_round.contract.errors import Overloaded, TensorTooLarge
from tensor_round_service.backends import Bytes
from tensor_round_service.engine import memory as module
from tensor_round_service.engine.job import Job
from tensor_round_service.engine.memory import Memory, largest_request, memory_limit
from tensor_round_service.engine.receive import ENOUGH_BYTES, FIRST_BYTES, admit
from tensor_round_service.net.bodies import Progress

KIB, MIB = 1 << 10, 1 << 20


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
    job.reserve(nbytes)
    job.allocate(nbytes)
    job.end(reusable=True)


def pooled(*sizes: int, limit_bytes: int = MIB) -> tuple[Memory, list[Bytes]]:
    """A memory with buffers of these sizes in its pool, and the buffers."""
    memory = Memory(Allocator(), limit_bytes)
    buffers = [np.empty(size, np.uint8) for size in sizes]
    memory.release(0, buffers)
    return memory, buffers


def test_stock_and_requests_stay_within_the_budget_together() -> None:
    allocator = Allocator()
    memory = Memory(allocator, MIB)
    for _ in range(3):
        use(memory, MIB)
    assert allocator.sizes == [MIB], "the pooled buffer is used again"
    use(memory, MIB // 4)  # which a mebibyte is too large for
    assert allocator.sizes == [MIB, MIB // 4]
    assert memory.pooled_bytes == MIB // 4


def test_pool_and_requests_may_fill_the_budget_but_not_by_a_byte_more() -> None:
    memory, (old, new) = pooled(256 * KIB, 128 * KIB)
    memory.reserve(640 * KIB, of=640 * KIB)
    memory.release(0, ())
    assert memory.pooled_bytes == 384 * KIB
    memory.reserve(1, of=1)
    memory.release(0, ())
    assert memory.pooled_bytes == new.size  # the oldest went
    assert memory.allocate(new.size) is new
    assert memory.allocate(old.size) is not old


def test_an_allocation_makes_room_in_the_pool_after_its_search() -> None:
    memory, _ = pooled(256 * KIB, 128 * KIB)
    memory.reserve(MIB, of=MIB)
    assert memory.allocate(600 * KIB).size == 600 * KIB
    assert memory.pooled_bytes == 0


@pytest.mark.parametrize(
    ("asked", "is_found"),
    [
        (256 * KIB + 1, False),
        (256 * KIB, True),
        (128 * KIB, True),
        (128 * KIB - 1, False),
    ],
)
def test_pooled_buffer_has_the_requested_size_to_twice_that(asked: int, is_found: bool) -> None:
    memory, (buffer,) = pooled(256 * KIB)
    found = memory.allocate(asked)
    assert (found is buffer) is is_found
    assert found.size == (buffer.size if is_found else asked)
    assert memory.pooled_bytes == (0 if is_found else buffer.size)


def test_the_latest_buffer_that_fits_is_taken() -> None:
    memory, (oldest, older, latest, other) = pooled(*[128 * KIB] * 3, 512 * KIB)
    taken = [memory.allocate(128 * KIB) for _ in range(3)]
    assert [id(buffer) for buffer in taken] == [id(b) for b in (latest, older, oldest)]
    assert memory.pooled_bytes == other.size


def test_buffers_are_dropped_from_their_age_on(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 1000.0
    monkeypatch.setattr(time, "monotonic", lambda: now)
    memory, (first, second) = pooled(128 * KIB, 64 * KIB)
    now += 2
    memory.release(0, [np.empty(256 * KIB, np.uint8)])
    memory.drop_idle(2)
    assert memory.pooled_bytes == first.size + second.size + 256 * KIB
    now += 1
    memory.drop_idle(2)
    assert memory.pooled_bytes == 256 * KIB
    now += 3
    memory.drop_idle(2)
    assert memory.pooled_bytes == 0
    memory.drop_idle(2)


#: Files of control groups, with their texts, and the limit that is in them.
GROUPS: dict[str, tuple[dict[str, str], int | None]] = {
    "none": ({}, None),
    "version 2, at the root": (
        {"proc": "0::/\n", "sys/memory.max": "4096\n"},
        4096,
    ),
    "version 2, its own": (
        {"proc": "0::/a/b\n", "sys/a/b/memory.max": "4096\n", "sys/a/memory.max": "max\n"},
        4096,
    ),
    "version 2, its parent's": (
        {"proc": "0::/a/b\n", "sys/a/b/memory.max": "max\n", "sys/a/memory.max": "8192\n"},
        8192,
    ),
    "version 2, beside memory of version 1": (
        {
            **{"proc": "4:memory:/x:y\n0::/a\n", "sys/a/memory.max": "8192\n"},
            "sys/memory/x:y/memory.limit_in_bytes": "4096",
        },
        4096,
    ),
    "version 1, of several controllers": (
        {"proc": "4:cpu,memory:/x\n", "sys/memory/x/memory.limit_in_bytes": "4096"},
        4096,
    ),
    "version 1, of another controller": (
        {"proc": "4:cpu:/x\n", "sys/memory/x/memory.limit_in_bytes": "4096"},
        None,
    ),
    "version 1, at the root": (
        {"proc": "4:cpu:/x\n", "sys/memory/memory.limit_in_bytes": "4096"},
        4096,
    ),
    "outside": ({"proc": "0::/\n", "memory.max": "4096"}, None),
}


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder whose ``proc`` and ``sys`` are what this process reads of its control group."""
    places = {"/proc/self/cgroup": tmp_path / "proc", "/sys/fs/cgroup": tmp_path / "sys"}
    monkeypatch.setattr(module, "Path", lambda text: places[text])
    return tmp_path


@pytest.mark.parametrize(("files", "limit"), GROUPS.values(), ids=GROUPS)
def test_the_limit_is_the_least_of_control_groups_and_machine(
    machine: Path, files: dict[str, str], limit: int | None
) -> None:
    for name, text in files.items():
        file = machine / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    machine_s = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    assert memory_limit() == (machine_s if limit is None else limit)


def test_a_system_without_sysconf_has_8_gib(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(os, "sysconf")
    assert memory_limit() == 8 * KIB * MIB


#: Of which a sixteenth is for small requests.
BUDGET = 32 * MIB
LARGE = 30 * MIB


#: Budgets, and the largest request of each.
LARGEST = [
    (BUDGET, LARGE),
    (1, 1),
    (MIB - 1, MIB - 1),
    (MIB, MIB),
    (MIB + 1, MIB),  # no sixteenth is left beside what every budget admits
    (2 * MIB, 2 * MIB - 128 * KIB),
    (2 * MIB + 15, 2 * MIB - 128 * KIB + 15),
]


def budget_of(limit_bytes: int = BUDGET) -> Memory:
    return Memory(lambda nbytes: np.empty(nbytes, np.uint8), limit_bytes)


@pytest.mark.parametrize(("budget", "largest"), LARGEST)
def test_the_largest_request_leaves_a_sixteenth_to_small_ones(budget: int, largest: int) -> None:
    assert largest_request(budget) == budget_of(budget).max_request_bytes == largest


@pytest.mark.parametrize(("budget", "limit"), LARGEST)
def test_a_byte_above_its_limit_is_too_large_and_leaves_no_trace(budget: int, limit: int) -> None:
    room = budget_of(budget)
    for reserved in (0, limit):
        with pytest.raises(TensorTooLarge, match=f"{limit + 1} bytes .* {limit} for all") as told:
            room.reserve(reserved, of=limit + 1)
        assert (told.value.status, told.value.retry_after) == (413, None)
        assert (told.value.limit_bytes, told.value.got_bytes) == (limit, limit + 1)
        assert room.in_use == 0


def test_large_requests_leave_the_last_sixteenth_to_small_ones() -> None:
    room = budget_of()
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
    room = budget_of()
    room.reserve(used, of=used)
    left = LARGE - used - pending
    with pytest.raises(Overloaded):
        room.reserve(left + 1, of=LARGE, pending=pending)
    assert room.in_use == used
    room.reserve(left, of=LARGE, pending=pending)
    assert room.in_use == used + left


TIB = 1 << 40
#: From a byte to 2^40, of each order of magnitude.
SIZES = st.builds(lambda bits, more: (1 << bits) + more, st.integers(0, 40), st.integers(-1, 1))
#: What jobs do, by their numbers: reserve so many bytes while so many wait, or end.
STEPS = st.lists(st.tuples(st.integers(0, 3), st.none() | st.tuples(SIZES, SIZES)))


@given(limit=st.sampled_from([BUDGET, 8 * TIB]), steps=STEPS)
def test_any_jobs_return_exactly_what_they_reserved(
    limit: int, steps: list[tuple[int, tuple[int, int] | None]]
) -> None:
    room = budget_of(limit)
    jobs, reserved = [Job(room) for _ in range(4)], [0] * 4
    for number, step in [*steps, *((number, None) for number in range(4))]:
        if step is None:
            jobs[number].end(reusable=True)
            reserved[number] = 0
        else:
            with contextlib.suppress(Overloaded, TensorTooLarge):
                jobs[number].reserve(step[0], step[1])
                reserved[number] += step[0]
        assert room.in_use == sum(reserved) <= limit
        assert jobs[number].other_bytes() == sum(reserved) - reserved[number]
    assert room.in_use == 0


def test_released_memory_is_free_again_to_the_byte() -> None:
    room = budget_of()
    room.reserve(LARGE, of=LARGE)
    room.release(3, ())
    assert room.in_use == LARGE - 3
    with pytest.raises(Overloaded):
        room.reserve(4, of=LARGE)
    room.reserve(3, of=LARGE)
    room.release(LARGE, ())
    assert room.in_use == 0


class Watch:
    """Remembers the jobs that ended, and what was reserved by then."""

    def __init__(self, memory: Memory) -> None:
        self.memory = memory
        self.ended: list[tuple[Job, int]] = []

    def job_ended(self, job: Job) -> None:
        self.ended.append((job, self.memory.in_use))


@pytest.fixture
def memory() -> Memory:
    return budget_of()


def test_call_over_the_whole_budget_is_refused_before_its_first_part(memory: Memory) -> None:
    other, job = Job(memory), Job(memory)
    other.reserve(2 * MIB)
    with pytest.raises(Overloaded):
        job.reserve(FIRST_BYTES, LARGE - 2 * MIB + 1 - FIRST_BYTES)
    assert (memory.in_use, job.other_bytes()) == (2 * MIB, 2 * MIB)
    job.reserve(FIRST_BYTES, LARGE - 2 * MIB - FIRST_BYTES)
    assert job.other_bytes() == 2 * MIB
    job.reserve(LARGE - 2 * MIB - FIRST_BYTES)
    assert (memory.in_use, job.other_bytes(), other.other_bytes()) == (LARGE, 2 * MIB, 28 * MIB)


def test_a_refused_rest_leaves_the_first_part_until_the_end(memory: Memory) -> None:
    job, other = Job(memory), Job(memory)
    job.reserve(FIRST_BYTES, LARGE - FIRST_BYTES)
    other.reserve(2 * MIB)
    with pytest.raises(Overloaded):
        job.reserve(LARGE - FIRST_BYTES)
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
    job.allocate(MIB)
    job.end(reusable=False)
    job.end(reusable=True)
    assert (memory.in_use, memory.pooled_bytes) == (0, 0)


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
