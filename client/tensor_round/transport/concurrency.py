"""Waiting and parallel work of a client, in threads or in tasks, and the deadline of a call."""

from __future__ import annotations

import time
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

from ..contract.errors import DeadlineExceeded

#: The longest uninterrupted wait in seconds, so that a call that failed in one thread soon ends in
#: the others.
LONGEST_WAIT = 0.25
#: From this many seconds on there is no limit: sockets take 24 days at most.
_UNLIMITED = 1e6


class Deadline:
    """The deadline of a call; shared by the call's threads."""

    __slots__ = ("_at", "_seconds")

    def __init__(self, seconds: float | None) -> None:
        self._seconds = seconds
        self._at = float("inf") if seconds is None else time.monotonic() + seconds

    def remaining(self) -> float | None:
        """Seconds left, more than 0; None without a limit. Raises :class:`DeadlineExceeded`."""
        left = self._at - time.monotonic()
        if left == float("-inf"):
            raise DeadlineExceeded("the call has failed")
        if left <= 0:
            raise DeadlineExceeded(f"the call did not finish within {self._seconds} seconds")
        return None if left > _UNLIMITED else left

    def next_wait(self) -> float:
        """Seconds to wait before the next check; raises :class:`DeadlineExceeded`."""
        if self._at - time.monotonic() > LONGEST_WAIT:
            return LONGEST_WAIT
        left = self.remaining()
        return LONGEST_WAIT if left is None else left

    @property
    def is_limited(self) -> bool:
        """Whether there is a limit."""
        return self._seconds is not None

    def allows(self, seconds: float) -> bool:
        """Whether more than ``seconds`` are left."""
        return time.monotonic() + seconds < self._at

    def expire(self) -> None:
        """Move the deadline to now: the call has failed, and its other threads must end."""
        self._at = float("-inf")


T = TypeVar("T")
#: Work that is done once.
Task = Callable[[], Coroutine[Any, Any, T]]
#: Work on one of many items.
Work = Callable[[T], Coroutine[Any, Any, None]]

if TYPE_CHECKING:
    from .asynchronous import AsyncPool, AsyncStream, Tasks
    from .blocking import BlockingStream, Pool, Threads
    from .http import HTTPTransport
    from .httpx2_transport import Httpx2Transport
    from .local_transport import LocalTransport

    #: How a client waits, and does several things at once.
    Concurrency: TypeAlias = Threads | Tasks
    #: A pool of connections.
    Connections: TypeAlias = Pool | AsyncPool
    #: Sends requests to a service. Its methods raise :class:`ConnectionFailed`,
    #: :class:`DeadlineExceeded`, :class:`ProtocolViolation` and :class:`InvalidArgument`; one that
    #: ``is_in_process``, whose responses cannot be cut off or garbled, :class:`RequestRefused` too.
    Transport: TypeAlias = HTTPTransport | Httpx2Transport | LocalTransport
    #: A connected stream; its methods raise OSError when the connection breaks.
    Stream: TypeAlias = BlockingStream | AsyncStream


def run(coroutine: Coroutine[Any, Any, T]) -> T:
    """The result of a coroutine that never suspends, and so ends in one step."""
    try:
        coroutine.send(None)
    except StopIteration as end:
        result: T = end.value
        return result
    coroutine.close()
    raise AssertionError("a coroutine of the synchronous client waited for an event loop")
