"""The threads beside the event loop: some for rounding, others for slow work.

Rounding releases the GIL and runs at the speed of memory. JSON, comparisons and codings take a
hundred times as long for the same bytes, and much of it holds the GIL. So they have threads of
their own, few of which work at a time, and go in pieces of a few milliseconds. Between two pieces
a work lets the next one have its turn, and ends if its caller has gone.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Generic, Protocol, TypeVar

from tensor_round.contract.progress import Pause

from ..net.bodies import ClientDisconnected

#: Seconds between two looks whether a caller has gone.
LOOK_SECONDS = 0.25
#: Seconds of a turn.
TURN_SECONDS = 2e-3
#: Seconds for which a pause leaves the GIL to others, the event loop above all. Without it, each
#: of them would wait for the interpreter's switch interval of 5 ms.
YIELD_SECONDS = 50e-6
#: Slow works that take turns; others wait until one of these is done.
SLOW_WORKS = 32

T = TypeVar("T")


class Caller(Protocol):
    """Who waits for the result of a work."""

    def is_gone(self) -> bool:
        """Whether the caller has closed its connection; called on the event loop."""


class Work(Generic[T]):
    """A work of one caller, which a thread runs once."""

    def __init__(self, function: Callable[[], T]) -> None:
        self._function: Callable[[], T] | None = function
        #: Set when the caller has gone.
        self.is_abandoned = False
        #: When it began, on the clock of time.perf_counter; None before.
        self.began: float | None = None

    def __call__(self) -> T:
        """Do the work; raises :class:`ClientDisconnected` if it is abandoned."""
        function, self._function = self._function, None
        if function is None or self.is_abandoned:
            raise ClientDisconnected
        self.began = time.perf_counter()
        return function()

    def abandon(self) -> None:
        """Let the work end at its next pause, or never begin; drops what it refers to."""
        self.is_abandoned = True
        self._function = None


class Turns:
    """Limits the threads that work at a time; they take turns in the order in which they ask."""

    def __init__(self, count: int) -> None:
        self._free = count
        self._waiting: deque[threading.Lock] = deque()
        self._lock = threading.Lock()

    def take(self) -> None:
        """Wait for a turn."""
        with self._lock:
            if self._free:
                self._free -= 1
                return
            mine = threading.Lock()
            mine.acquire()
            self._waiting.append(mine)
        mine.acquire()  # until give() releases it

    def give(self) -> None:
        """End a turn: the thread that has waited longest gets it."""
        with self._lock:
            if self._waiting:
                self._waiting.popleft().release()
            else:
                self._free += 1


class SlowWork(Work[T]):
    """A work that goes in pieces, on a thread that takes turns with others."""

    def __init__(self, function: Callable[[Pause], T], turns: Turns) -> None:
        super().__init__(lambda: function(self.pause))
        self._turns = turns
        #: Set as a turn begins.
        self._turn_ends: float

    def __call__(self) -> T:
        """Do the work in turns; raises :class:`ClientDisconnected` if it is abandoned."""
        self._turns.take()
        try:
            self._turn_ends = time.perf_counter() + TURN_SECONDS
            return super().__call__()
        finally:
            self._turns.give()

    def pause(self) -> None:
        """Wait for the next turn if this one is over; raises :class:`ClientDisconnected`."""
        if time.perf_counter() < self._turn_ends:
            return
        self._turns.give()
        time.sleep(YIELD_SECONDS)
        self._turns.take()
        if self.is_abandoned:
            raise ClientDisconnected
        self._turn_ends = time.perf_counter() + TURN_SECONDS


class Threads:
    """The threads of one process: ``cores`` for rounding, and half as many turns for slow work."""

    def __init__(self, cores: int) -> None:
        # One thread a core. Backends have further threads of their own.
        self._rounding = ThreadPoolExecutor(cores, "tensor-round-engine")
        self._slow = ThreadPoolExecutor(SLOW_WORKS, "tensor-round-slow")
        self._turns = Turns(max(1, cores // 2))

    async def round(self, function: Callable[[], T], caller: Caller | None) -> tuple[T, float]:
        """Run ``function`` on a thread for rounding; return its result and when it began.

        Raises :class:`ClientDisconnected` if the caller goes before that.
        """
        return await _awaited(self._rounding, Work(function), caller)

    async def slow(self, function: Callable[[Pause], T], caller: Caller | None) -> tuple[T, float]:
        """Run ``function`` in turns with other slow work; return as :meth:`round` does.

        ``function`` gets its pause. Raises :class:`ClientDisconnected` if the caller goes.
        """
        return await _awaited(self._slow, SlowWork(function, self._turns), caller)

    def submit(self, function: Callable[[], None]) -> None:
        """Run ``function`` on a thread for rounding. Raises :class:`RuntimeError`."""
        self._rounding.submit(function)

    def close(self) -> None:
        """Wait for all work, and stop the threads."""
        self._rounding.shutdown()
        self._slow.shutdown()


async def _awaited(
    threads: ThreadPoolExecutor, work: Work[T], caller: Caller | None
) -> tuple[T, float]:
    future = threads.submit(work)
    waiting = asyncio.wrap_future(future)
    try:
        while not (await asyncio.wait([waiting], timeout=LOOK_SECONDS))[0]:
            if caller is not None and caller.is_gone():
                work.abandon()
                future.cancel()  # if it has not begun
        if waiting.cancelled():
            raise ClientDisconnected
        result = waiting.result()
    except asyncio.CancelledError:  # the server stops
        work.abandon()
        future.cancel()
        raise
    finally:
        # Break the cycle future > exception > traceback > frame > future.
        del future, waiting
    assert work.began is not None
    return result, work.began
