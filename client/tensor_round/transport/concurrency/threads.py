"""Concurrency for the synchronous client: everything blocks, tiles have threads."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Awaitable, Callable, Iterator
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from typing import TypeVar

from ..deadline import LONGEST_WAIT, Deadline
from . import Task, Work, run

T = TypeVar("T")


class Threads:
    """Blocks the calling thread, and starts others for as long as a call takes."""

    def within(self, deadline: Deadline, work: Task[T]) -> Awaitable[T]:
        """What the work comes to; every wait in it looks at the deadline itself."""
        return work()

    async def pause(self, seconds: float, deadline: Deadline) -> None:
        """Let time pass, unless the call is given up meanwhile."""
        until = time.monotonic() + seconds
        while (left := until - time.monotonic()) > 0:
            deadline.remaining()
            time.sleep(min(left, LONGEST_WAIT))

    async def compute(self, work: Callable[[], T]) -> T:
        """What the work comes to; only the tile that needs it waits."""
        return work()

    async def each(
        self, work: Work[T], items: Iterator[T], workers: int, deadline: Deadline
    ) -> None:
        """Work on the items in threads that end with this call."""
        lock = threading.Lock()

        def next_item() -> T:
            with lock:
                return next(items)

        def loop() -> None:
            with contextlib.suppress(StopIteration):
                while True:
                    run(work(next_item()))

        with ThreadPoolExecutor(workers, thread_name_prefix="tensor-round") as threads:
            futures = [threads.submit(loop) for _ in range(workers)]
            try:
                done, _ = wait(futures, return_when=FIRST_EXCEPTION)
                for future in done:
                    future.result()
            except BaseException:
                deadline.give_up()
                raise
