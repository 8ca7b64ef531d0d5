"""Admission: what is reserved before a body is asked for, and what once it has begun."""

from __future__ import annotations

import asyncio

import numpy as np
import pytest

from tensor_round.contract.errors import Overloaded, TensorTooLarge
from tensor_round_service.content.sources import Progress
from tensor_round_service.engine.job import ENOUGH_BYTES, FIRST_BYTES, Job, admit
from tensor_round_service.engine.memory import Memory

BUDGET = 32 << 20
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


@pytest.fixture
def memory() -> Memory:
    return Memory(lambda nbytes: np.empty(nbytes, np.uint8), BUDGET)


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
