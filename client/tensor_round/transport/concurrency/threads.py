"""Concurrency for the synchronous client: calls block; tiles are sent by threads."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Awaitable, Callable, Iterator
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from contextvars import copy_context
from typing import TypeVar

from ..deadline import LONGEST_WAIT, Deadline
from . import Task, Work, run

T = TypeVar("T")


class Threads:
    """Blocks the calling thread, and starts further ones for the tiles of a call."""

    def within(self, deadline: Deadline, work: Task[T]) -> Awaitable[T]:
        """The result of the work, which checks the deadline at every wait."""
        return work()

    async def sleep(self, seconds: float, deadline: Deadline) -> None:
        """Wait for so many seconds, or until the deadline expires."""
        until = time.monotonic() + seconds
        while (left := until - time.monotonic()) > 0:
            deadline.remaining()
            time.sleep(min(left, LONGEST_WAIT))

    async def compute(self, work: Callable[[], T]) -> T:
        """The result of the work, done in this thread."""
        return work()

    async def for_each(
        self, work: Work[T], items: Iterator[T], workers: int, deadline: Deadline
    ) -> None:
        """Work on the items in threads, which end before this returns."""
        lock = threading.Lock()

        def next_item() -> T:
            with lock:
                return next(items)

        def loop() -> None:
            with contextlib.suppress(StopIteration):
                while True:
                    run(work(next_item()))

        with ThreadPoolExecutor(workers, thread_name_prefix="tensor-round") as threads:
            # Each thread has the caller's context variables, of traces and logs, say.
            futures = [threads.submit(copy_context().run, loop) for _ in range(workers)]
            try:
                done, _ = wait(futures, return_when=FIRST_EXCEPTION)
                for future in done:
                    future.result()
            except BaseException:
                deadline.expire()
                raise
