"""Concurrency for the asynchronous client: tasks of the caller's event loop."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from typing import TypeVar

from ...contract.errors import DeadlineExceeded
from ..deadline import Deadline
from . import Task, Work

T = TypeVar("T")


class Tasks:
    """Runs in the caller's asyncio event loop."""

    async def within(self, deadline: Deadline, work: Task[T]) -> T:
        """The result of the work, which is cancelled at the deadline."""
        try:
            async with asyncio.timeout(deadline.remaining()):
                return await work()
        except TimeoutError as error:
            deadline.remaining()
            raise DeadlineExceeded("the call was not over in time") from error

    async def sleep(self, seconds: float, deadline: Deadline) -> None:
        """Wait for so many seconds."""
        await asyncio.sleep(seconds)

    async def compute(self, work: Callable[[], T]) -> T:
        """The result of the work, done in a thread."""
        return await asyncio.to_thread(work)

    async def for_each(
        self, work: Work[T], items: Iterator[T], workers: int, deadline: Deadline
    ) -> None:
        """Work on the items in tasks, which end before this returns."""

        async def loop() -> None:
            for item in items:
                await work(item)

        try:
            async with asyncio.TaskGroup() as group:
                for _ in range(workers):
                    group.create_task(loop())
        except BaseExceptionGroup as errors:
            raise errors.exceptions[0] from None
