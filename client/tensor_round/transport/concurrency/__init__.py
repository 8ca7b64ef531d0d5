"""Doing several things at once, and waiting: in threads or in tasks."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine, Iterator
from typing import Any, Protocol, TypeVar

from ..deadline import Deadline

T = TypeVar("T")
#: What is done once, if there is time for it.
Task = Callable[[], Coroutine[Any, Any, T]]
#: What is done with one of many items.
Work = Callable[[T], Coroutine[Any, Any, None]]


class Concurrency(Protocol):
    """The way a client waits, and works on several things at once."""

    def within(self, deadline: Deadline, work: Task[T]) -> Awaitable[T]:
        """What the work comes to; raises :class:`DeadlineExceeded`."""

    async def pause(self, seconds: float, deadline: Deadline) -> None:
        """Let time pass."""

    async def compute(self, work: Callable[[], T]) -> T:
        """What work comes to that takes a processor for long, where it holds up nobody else."""

    async def each(
        self, work: Work[T], items: Iterator[T], workers: int, deadline: Deadline
    ) -> None:
        """Work on every item, several at a time; the first error ends all, and is raised."""


def run(coroutine: Coroutine[Any, Any, T]) -> T:
    """The result of a coroutine that never waits for an event loop: it ends in one step."""
    try:
        coroutine.send(None)
    except StopIteration as end:
        result: T = end.value
        return result
    coroutine.close()
    raise AssertionError("a coroutine of the synchronous client waited for an event loop")
