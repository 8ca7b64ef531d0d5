"""The one clock of a call: however many tiles and tries it takes, they end together."""

from __future__ import annotations

import time

from ..errors import DeadlineExceeded

#: Waits are cut into pieces of at most these seconds, so that a call that was given up
#: in one thread ends soon in the others.
LONGEST_WAIT = 0.25


class Deadline:
    """The moment by which a call must be over; shared by the threads that work on it."""

    __slots__ = ("_at", "_seconds")

    def __init__(self, seconds: float | None) -> None:
        self._seconds = seconds
        self._at = float("inf") if seconds is None else time.monotonic() + seconds

    def remaining(self) -> float | None:
        """Seconds left, more than 0; None if there is no end. Raises :class:`DeadlineExceeded`."""
        left = self._at - time.monotonic()
        if left <= 0:
            raise DeadlineExceeded(f"the call was not over within {self._seconds} seconds")
        return None if left == float("inf") else left

    def next_wait(self) -> float:
        """Seconds to wait before looking again; raises :class:`DeadlineExceeded`."""
        if self._at - time.monotonic() > LONGEST_WAIT:
            return LONGEST_WAIT
        left = self.remaining()
        return LONGEST_WAIT if left is None else left

    def allows(self, seconds: float) -> bool:
        """Whether that much time is left."""
        return time.monotonic() + seconds < self._at

    def give_up(self) -> None:
        """Let the deadline be now: the call has failed, and whatever works on it shall end."""
        self._at = float("-inf")
