"""A client's connections: each in one hand at a time, kept between requests, left by forks."""

from __future__ import annotations

import asyncio
import os
import threading
import weakref
from collections import deque
from collections.abc import Callable
from typing import Any, Generic, Protocol, TypeVar

from ..errors import InvalidArgument
from .deadline import Deadline


class _Closable(Protocol):
    def close(self) -> None: ...


C = TypeVar("C", bound=_Closable)


class Pool(Generic[C]):
    """At most ``size`` connections, made by ``make``; thread-safe.

    The one given back last is taken first. A child that a fork made gets an empty pool:
    two processes on one connection would read each other's answers.
    """

    def __init__(self, make: Callable[[], C], size: int) -> None:
        self._make = make
        self._size = size
        self._closed = False
        self._all: list[C] = []
        self._idle: list[C] = []
        self._begin()
        _POOLS.add(self)

    def _begin(self) -> None:
        self._lock = threading.Lock()
        self._changed = threading.Condition(self._lock)
        self._waiting = 0

    async def take(self, deadline: Deadline) -> C:
        """A connection for the caller alone, as soon as there is one.

        Raises :class:`DeadlineExceeded`.
        """
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

    def give(self, connection: C) -> None:
        """Back, for the next one."""
        with self._lock:
            if self._closed:
                connection.close()
            else:
                self._idle.append(connection)
                if self._waiting:
                    self._changed.notify()

    async def close(self) -> None:
        """Close what is idle now, and what is in use when it is given back."""
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

    def _forget(self) -> None:
        """In a forked child: close our copies of the parent's sockets, which hangs nothing up."""
        for connection in self._all:
            connection.close()
        self._all, self._idle = [], []
        # A thread that is not here may have held the old lock.
        self._begin()


_POOLS: weakref.WeakSet[Pool[Any]] = weakref.WeakSet()


def _forget_all() -> None:
    for pool in list(_POOLS):
        pool._forget()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_all)


class AsyncPool(Generic[C]):
    """At most ``size`` connections, made by ``make``, for the tasks of one event loop.

    In another loop (a forked child's, or the next ``asyncio.run``) it begins anew:
    connections cannot move from loop to loop.
    """

    def __init__(self, make: Callable[[], C], size: int) -> None:
        self._make = make
        self._size = size
        self._closed = False
        self._loop: asyncio.AbstractEventLoop | None = None
        self._made = 0
        self._idle: list[C] = []
        self._waiting: deque[asyncio.Future[C]] = deque()

    async def take(self, deadline: Deadline) -> C:
        """A connection for the caller alone, as soon as there is one."""
        if self._closed:
            raise InvalidArgument("the client is closed")
        loop = self._enter()
        if self._idle:
            return self._idle.pop()
        if self._made < self._size:
            self._made += 1
            return self._make()
        turn: asyncio.Future[C] = loop.create_future()
        self._waiting.append(turn)
        try:
            return await turn
        except asyncio.CancelledError:
            # Cancelled in the very moment in which its turn came.
            if turn.done() and not turn.cancelled():
                self.give(turn.result())
            raise

    def give(self, connection: C) -> None:
        """Back, for the one that has waited longest."""
        while self._waiting:
            turn = self._waiting.popleft()
            if not turn.done():
                turn.set_result(connection)
                return
        if self._closed:
            connection.close()
        else:
            self._idle.append(connection)

    async def close(self) -> None:
        """Close what is idle now, and what is in use when it is given back."""
        self._enter()
        self._closed = True
        while self._idle:
            self._idle.pop().close()
        # The loop closes sockets in its next turn, and this may be its last.
        await asyncio.sleep(0)

    def _enter(self) -> asyncio.AbstractEventLoop:
        """Begin anew if the loop is another one; the connections of the last went with it."""
        loop = asyncio.get_running_loop()
        if loop is not self._loop:
            self._loop, self._made, self._idle, self._waiting = loop, 0, [], deque()
        return loop
