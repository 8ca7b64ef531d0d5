"""When to try again, and when not to.

Rounding changes nothing in the service, and rounding twice is rounding once, so
every request may be sent again; the question is only whether it helps.
"""

from __future__ import annotations

import random

from ..errors import DigestMismatch, ProtocolViolation, RequestRefused, TensorRoundError
from ..transport.deadline import Deadline

#: Seconds before the first new try, doubled each time, and the most it grows to.
FIRST_PAUSE, LONGEST_PAUSE = 0.05, 5.0

#: A client may be this many retries ahead of its successes (:class:`RetryBudget`).
BUDGET = 100
#: What a success without a retry earns: in the long run one retry in ten requests.
EARNED = 0.1


class RetryBudget:
    """Retries that all callers of one client share, so that an outage gets no storm.

    A retry takes one; one that succeeds gives it back, and every success at first try
    earns a tenth of one. There is no lock, which a fork could leave held: counts of
    several threads may come out a little off, and may.
    """

    def __init__(self, size: float = BUDGET) -> None:
        self._size = size
        self._left = size

    def take(self) -> bool:
        """Whether another retry may be made; if so, it is taken."""
        if self._left < 1:
            return False
        self._left -= 1
        return True

    def succeeded(self, retries: int) -> None:
        """A request succeeded after that many retries."""
        self._left = min(self._size, self._left + (retries or EARNED))


class Retries:
    """The policy of one client: at most ``limit`` new tries a request.

    With ``verified`` answers (Content-Digest) what else a proxy can garble counts as
    transient too.
    """

    def __init__(self, limit: int, *, verified: bool) -> None:
        self.budget = RetryBudget()
        self._limit = limit
        self._verified = verified

    def pause(self, error: TensorRoundError, retries: int, deadline: Deadline) -> float:
        """Seconds to wait before the next try, ``retries`` having failed; or raises ``error``.

        Doubles from :data:`FIRST_PAUSE`, half of it by chance; a service's Retry-After
        is waited for in full. An error is raised at once if the wait would outlast the
        deadline.
        """
        if not self._is_transient(error) or retries >= self._limit:
            raise error
        backoff = min(FIRST_PAUSE * 2.0**retries, LONGEST_PAUSE)
        seconds = backoff * random.uniform(0.5, 1)
        if isinstance(error, RequestRefused) and error.retry_after is not None:
            seconds += error.retry_after
        if not deadline.allows(seconds) or not self.budget.take():
            raise error
        return seconds

    def _is_transient(self, error: TensorRoundError) -> bool:
        return error.transient or (
            self._verified and isinstance(error, DigestMismatch | ProtocolViolation)
        )
