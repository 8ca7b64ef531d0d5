"""Concurrency of a client: waiting and parallel work, in threads or in tasks."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine, Iterator
from typing import Any, Protocol, TypeVar

from ...contract.errors import ConnectionFailed, DeadlineExceeded
from ..deadline import Deadline

T = TypeVar("T")
#: Work that is done once.
Task = Callable[[], Coroutine[Any, Any, T]]
#: Work on one of many items.
Work = Callable[[T], Coroutine[Any, Any, None]]


class Concurrency(Protocol):
    """How a client waits, and does several things at once."""

    def within(self, deadline: Deadline, work: Task[T]) -> Awaitable[T]:
        """The result of the work; raises :class:`DeadlineExceeded`."""

    async def sleep(self, seconds: float, deadline: Deadline) -> None:
        """Wait for so many seconds."""

    async def compute(self, work: Callable[[], T]) -> T:
        """The result of CPU-bound work, which must not block the client's other work."""

    async def for_each(
        self, work: Work[T], items: Iterator[T], workers: int, deadline: Deadline
    ) -> None:
        """Work on every item, ``workers`` at a time; the first error cancels the rest."""


async def within(
    seconds: float,
    deadline: Deadline,
    concurrency: Concurrency,
    work: Callable[[Deadline], Coroutine[Any, Any, T]],
) -> T:
    """The result of work that may take so many seconds, and a quarter of the remaining time.

    Raises :class:`ConnectionFailed` if it takes longer, and the errors of the work.
    """
    left = deadline.remaining()
    limit = seconds if left is None else min(seconds, left / 4)
    part = Deadline(limit)
    try:
        return await concurrency.within(part, lambda: work(part))
    except (DeadlineExceeded, TimeoutError) as error:
        raise ConnectionFailed(f"no response within {limit:.2g} seconds") from error


def run(coroutine: Coroutine[Any, Any, T]) -> T:
    """The result of a coroutine that never suspends, and so ends in one step."""
    try:
        coroutine.send(None)
    except StopIteration as end:
        result: T = end.value
        return result
    coroutine.close()
    raise AssertionError("a coroutine of the synchronous client waited for an event loop")
