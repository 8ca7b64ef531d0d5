"""The synchronous client's link: everything blocks the calling thread."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Iterator
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from typing import TypeVar

import httpx2

from ..answers import fields
from ..deadline import LONGEST_WAIT, Deadline
from ..exchange import Request
from ..intake import feed
from .links import Reception, Work, run
from .requests import Requests, translated

T = TypeVar("T")


class BlockingLink:
    """Blocks the calling thread; thread-safe if the transport is."""

    def __init__(self, transport: httpx2.BaseTransport, requests: Requests) -> None:
        self._transport = transport
        self._requests = requests

    async def fetch(self, request: Request, reception: Reception[T], deadline: Deadline) -> T:
        """Send a request, and what its answer's intake ends in."""
        with translated(deadline):
            response = self._transport.handle_request(self._requests.make(request, deadline))
            try:
                intake = reception(response.status_code, fields(response.headers.raw))
                readinto = getattr(response.stream, "readinto", None)
                if readinto is not None:
                    while count := readinto(intake.room()):
                        intake.took(count)
                else:
                    assert isinstance(response.stream, httpx2.SyncByteStream)
                    for piece in response.stream:
                        deadline.remaining()
                        feed(intake, piece)
                return intake.end()
            finally:
                response.close()

    async def pause(self, seconds: float, deadline: Deadline) -> None:
        """Let time pass, unless the call is given up meanwhile."""
        until = time.monotonic() + seconds
        while (left := until - time.monotonic()) > 0:
            deadline.remaining()
            time.sleep(min(left, LONGEST_WAIT))

    async def each(
        self,
        work: Work[T],
        items: Iterator[T],
        workers: int,
        deadline: Deadline,
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

    async def close(self) -> None:
        """Close the transport."""
        with translated(Deadline(None)):
            self._transport.close()
