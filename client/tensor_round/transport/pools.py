"""Pools of persistent connections: each is used by one request at a time, in one process."""

from __future__ import annotations

import asyncio
import os
import threading
import weakref
from collections import deque
from collections.abc import Callable
from typing import Generic, Protocol, TypeVar

from ..contract.errors import InvalidArgument
from .deadline import Deadline


class _Closable(Protocol):
    def close(self) -> None: ...


class _Forkable(Protocol):
    def reset_after_fork(self) -> None: ...


C = TypeVar("C", bound=_Closable)
#: What each forked child resets: it has no other thread of its parent, and no use of its sockets.
FORKABLES: weakref.WeakSet[_Forkable] = weakref.WeakSet()


class Pool(Generic[C]):
    """At most ``size`` connections, made by ``make``; thread-safe.

    The connection released last is acquired first. A forked child's pool is empty: two processes
    on one connection would receive each other's responses.
    """

    def __init__(self, make: Callable[[], C], size: int) -> None:
        self._make = make
        self._size = size
        self._closed = False
        self._all: list[C] = []
        self._idle: list[C] = []
        self._make_lock()
        FORKABLES.add(self)

    def _make_lock(self) -> None:
        self._lock = threading.Lock()
        self._changed = threading.Condition(self._lock)
        self._waiting = 0

    async def acquire(self, deadline: Deadline) -> C:
        """Wait for a connection for the caller alone; raises :class:`DeadlineExceeded`."""
        with self._lock:
            while True:
                if self._closed:
                    raise InvalidArgument("the client is closed")
                if self._idle:
                    return self._idle.pop()
                if len(self._all) < self._size:
                    self._all.append(self._make())
                    return self._all[-1]
                self._wait(deadline.next_wait())

    def release(self, connection: C) -> None:
        """Return a connection to the pool."""
        with self._lock:
            if self._closed:
                connection.close()
            else:
                self._idle.append(connection)
                if self._waiting:
                    self._changed.notify()

    async def close(self) -> None:
        """Close idle connections now, and the others when they are released."""
        with self._lock:
            self._closed = True
            while self._idle:
                self._idle.pop().close()
            self._changed.notify_all()

    def _wait(self, seconds: float) -> None:
        self._waiting += 1
        try:
            self._changed.wait(seconds)
        finally:
            self._waiting -= 1

    def reset_after_fork(self) -> None:
        """In a forked child: close the copies of the parent's sockets, which stay open there."""
        for connection in self._all:
            connection.close()
        self._all, self._idle = [], []
        # The old lock may be held by a thread that the child does not have.
        self._make_lock()


def _reset_all_after_fork() -> None:
    for forkable in list(FORKABLES):
        forkable.reset_after_fork()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_reset_all_after_fork)


class AsyncPool(Generic[C]):
    """At most ``size`` connections, made by ``make``, for the tasks of one event loop.

    Connections belong to their loop. In another loop (a forked child's, or the next
    ``asyncio.run``) the pool is empty again.
    """

    def __init__(self, make: Callable[[], C], size: int) -> None:
        self._make = make
        self._size = size
        self._closed = False
        self._loop: asyncio.AbstractEventLoop | None = None
        self._made = 0
        self._idle: list[C] = []
        self._waiting: deque[asyncio.Future[C]] = deque()

    async def acquire(self, deadline: Deadline) -> C:
        """Wait for a connection for the caller alone; the caller's timeout applies."""
        if self._closed:
            raise InvalidArgument("the client is closed")
        loop = self._enter()
        if self._idle:
            return self._idle.pop()
        if self._made < self._size:
            self._made += 1
            return self._make()
        waiter: asyncio.Future[C] = loop.create_future()
        self._waiting.append(waiter)
        try:
            return await waiter
        except asyncio.CancelledError:
            # A connection may have been assigned before the cancellation was delivered.
            if waiter.done() and not waiter.cancelled():
                self.release(waiter.result())
            raise

    def release(self, connection: C) -> None:
        """Return a connection; the task that has waited longest gets it."""
        while self._waiting:
            waiter = self._waiting.popleft()
            if not waiter.done():
                waiter.set_result(connection)
                return
        if self._closed:
            connection.close()
        else:
            self._idle.append(connection)

    async def close(self) -> None:
        """Close idle connections now, and the others when they are released."""
        self._enter()
        self._closed = True
        while self._idle:
            self._idle.pop().close()
        # The loop closes sockets in its next iteration, which may be its last.
        await asyncio.sleep(0)

    def _enter(self) -> asyncio.AbstractEventLoop:
        """The running loop; drops the connections of another loop."""
        loop = asyncio.get_running_loop()
        if loop is not self._loop:
            self._loop, self._made, self._idle, self._waiting = loop, 0, [], deque()
        return loop
