"""What a peer may do, and for how long: limits, timers, minimum rates."""

from __future__ import annotations

import asyncio
import math
import resource
import sys
from collections.abc import Callable
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class ConnectionLimits:
    """Limits of a peer. Times are seconds, rates are bytes a second."""

    #: Time to receive a head, and grace period of the minimum rates.
    receive_timeout: float = 10.0
    min_receive_rate: int = 64 << 10
    min_send_rate: int = 64 << 10
    #: Time after which an idle connection is closed. Proxies and clients keep theirs for up to a
    #: minute; one that the service closes first may lose a request.
    keep_alive: float = 75.0
    #: The same while there are more than ``crowd`` connections, so that idle ones leave
    #: descriptors to others.
    crowded_keep_alive: float = 5.0
    crowd: int = field(default_factory=lambda: _descriptors() // 2)
    #: Time between two checks of a minimum rate.
    rate_interval: float = 1.0
    #: After so many bytes of a body the remaining grace is one interval.
    grace_bytes: int = 60 << 10
    #: Pause before the bytes of a refused client are read and discarded. A client that reads
    #: the response in this time stops sending.
    linger_before: float = 0.1
    linger_seconds: float = 2.0
    linger_bytes: int = 8 << 20
    #: Time after which an idle connection is closed while the server drains.
    drain_grace: float = 0.25
    #: The same for a connection without any request: a client that has just connected sends one.
    first_grace: float = 1.0


def _descriptors() -> int:
    limit = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    return sys.maxsize if limit == resource.RLIM_INFINITY else limit


class Deadline:
    """One timer of an event loop. Moving it to a later time costs no call of the event loop.

    ``expired`` is called when the deadline passes; it may set the next deadline.
    """

    __slots__ = ("_expired", "_loop", "_timer", "due")

    def __init__(self, loop: asyncio.AbstractEventLoop, expired: Callable[[], None]) -> None:
        self._loop = loop
        self._expired = expired
        self._timer: asyncio.TimerHandle | None = None
        #: When it expires, in the event loop's time; infinity without a deadline.
        self.due = math.inf

    def set(self, seconds: float) -> None:
        """Expire in ``seconds``, in place of an earlier deadline."""
        due = self.due = self._loop.time() + seconds
        timer = self._timer
        if timer is not None:
            if timer.when() <= due:
                return
            timer.cancel()
        self._timer = self._loop.call_at(due, self._fire)

    def clear(self) -> None:
        """Remove the deadline."""
        self.due = math.inf

    def close(self) -> None:
        """Remove the deadline for good, and drop the reference to the callback."""
        self.due = math.inf
        self._expired = _do_nothing
        if self._timer is not None:
            self._timer.cancel()

    def _fire(self) -> None:
        self._timer, due = None, self.due
        if due == math.inf:
            return
        if due > self._loop.time():
            self._timer = self._loop.call_at(due, self._fire)
        else:
            self.due = math.inf
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


class ReceivingRate:
    """The minimum rate of a body or a message, while a route waits for its bytes.

    ``began`` is the number of bytes that had been received before it.
    """

    __slots__ = ("_began", "_checked", "_limits", "_rate")

    def __init__(self, limits: ConnectionLimits, grace: float, began: int = 0) -> None:
        self._limits = limits
        self._rate = MinimumRate(limits.min_receive_rate, grace)
        self._began = self._checked = began

    def resume(self, received: int) -> None:
        """Enforce it from now on."""
        limits = self._limits
        before, self._checked = self._checked, received
        if before - self._began < limits.grace_bytes <= received - self._began:
            self._rate.limit(limits.rate_interval)

    def holds(self, received: int) -> bool:
        """Check it over the last interval."""
        is_held = self._rate.record(received - self._checked, self._limits.rate_interval)
        self.resume(received)
        return is_held
