"""Deadlines: one limit for a whole call, with all its tiles and retries."""

from __future__ import annotations

import time

from ..contract.errors import DeadlineExceeded

#: The longest uninterrupted wait in seconds, so that a call that failed in one thread soon ends in
#: the others.
LONGEST_WAIT = 0.25


class CallAbandoned(DeadlineExceeded):
    """The call has failed in another of its threads; no service was late."""


class Deadline:
    """The time by which a call must end; shared by the call's threads."""

    __slots__ = ("_at", "_seconds")

    def __init__(self, seconds: float | None) -> None:
        self._seconds = seconds
        self._at = float("inf") if seconds is None else time.monotonic() + seconds

    def remaining(self) -> float | None:
        """Seconds left, more than 0; None without a limit. Raises :class:`DeadlineExceeded`."""
        left = self._at - time.monotonic()
        if left == float("-inf"):
            raise CallAbandoned("the call has failed")
        if left <= 0:
            raise DeadlineExceeded(f"the call was not over within {self._seconds} seconds")
        return None if left == float("inf") else left

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
