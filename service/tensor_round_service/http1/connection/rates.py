"""Limits in time: one deadline for a connection, and a minimum rate in bytes a second."""

from __future__ import annotations

import asyncio
from collections.abc import Callable


class Deadline:
    """One timer of an event loop. Moving it further off costs no call of the loop's.

    ``expired`` is called once it has passed; it may set the next.
    """

    __slots__ = ("_due", "_expired", "_loop", "_timer")

    def __init__(self, loop: asyncio.AbstractEventLoop, expired: Callable[[], None]) -> None:
        self._loop = loop
        self._expired = expired
        self._timer: asyncio.TimerHandle | None = None
        self._due: float | None = None

    def set(self, seconds: float) -> None:
        """Expire so many seconds from now, and at no other time."""
        due = self._due = self._loop.time() + seconds
        timer = self._timer
        if timer is not None:
            if timer.when() <= due:
                return
            timer.cancel()
        self._timer = self._loop.call_at(due, self._fire)

    def clear(self) -> None:
        """Do not expire."""
        self._due = None

    def close(self) -> None:
        """Never expire again, and refer to nobody."""
        self._due = None
        self._expired = _nothing
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _fire(self) -> None:
        self._timer, due = None, self._due
        if due is None:
            return
        if due > self._loop.time():
            self._timer = self._loop.call_at(due, self._fire)
        else:
            self._due = None
            self._expired()


def _nothing() -> None:
    """Nobody waits any more."""


class MinimumRate:
    """A token bucket: who should move ``rate`` bytes a second spends what has not moved.

    It begins with what ``grace`` seconds are worth and never holds more. A rate of 0 asks for
    nothing.
    """

    __slots__ = ("_balance", "_capacity", "_rate")

    def __init__(self, rate: int, grace: float) -> None:
        self._rate = rate
        self._balance = self._capacity = rate * grace

    def moved(self, nbytes: int, seconds: float) -> bool:
        """Count bytes that moved in that time; whether the rate is still held."""
        self._balance = min(self._balance + nbytes - self._rate * seconds, self._capacity)
        return self._balance >= 0

    def limit(self, seconds: float) -> None:
        """Leave no more grace than that."""
        self._balance = min(self._balance, self._rate * seconds)
