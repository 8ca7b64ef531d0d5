"""Time limits: the deadline of a connection, and minimum rates in bytes a second."""

from __future__ import annotations

import asyncio
from collections.abc import Callable


class Deadline:
    """One timer of an event loop. Moving it to a later time costs no call of the event loop.

    ``expired`` is called when the deadline passes; it may set the next deadline.
    """

    __slots__ = ("_due", "_expired", "_loop", "_timer")

    def __init__(self, loop: asyncio.AbstractEventLoop, expired: Callable[[], None]) -> None:
        self._loop = loop
        self._expired = expired
        self._timer: asyncio.TimerHandle | None = None
        self._due: float | None = None

    def set(self, seconds: float) -> None:
        """Expire in ``seconds``, in place of an earlier deadline."""
        due = self._due = self._loop.time() + seconds
        timer = self._timer
        if timer is not None:
            if timer.when() <= due:
                return
            timer.cancel()
        self._timer = self._loop.call_at(due, self._fire)

    def clear(self) -> None:
        """Remove the deadline."""
        self._due = None

    def close(self) -> None:
        """Remove the deadline for good, and drop the reference to the callback."""
        self._due = None
        self._expired = _do_nothing
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


def _do_nothing() -> None:
    """The callback of a closed deadline."""


class MinimumRate:
    """A token bucket, in bytes: ``rate`` is withdrawn each second, moved bytes are deposited.

    Its capacity and first balance are ``rate * grace``. A rate of 0 sets no limit.
    """

    __slots__ = ("_balance", "_capacity", "_rate")

    def __init__(self, rate: int, grace: float) -> None:
        self._rate = rate
        self._balance = self._capacity = rate * grace

    def record(self, nbytes: int, seconds: float) -> bool:
        """Record the bytes moved in the last ``seconds``; return False below the minimum rate."""
        self._balance = min(self._balance + nbytes - self._rate * seconds, self._capacity)
        return self._balance >= 0

    def limit(self, seconds: float) -> None:
        """Reduce the remaining grace to at most ``seconds``."""
        self._balance = min(self._balance, self._rate * seconds)
