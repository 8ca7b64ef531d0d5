"""The retry policy: which errors are retried, when, and how often.

Requests change nothing in the service, and rounding a result again does not change it. So every
request may be sent again; the policy decides whether that can succeed.
"""

from __future__ import annotations

import random

from ..contract.errors import DigestMismatch, ProtocolViolation, RequestRefused, TensorRoundError
from ..transport.concurrency import Deadline

#: Seconds before the first retry, which double with each further one, and their maximum.
FIRST_PAUSE, LONGEST_PAUSE = 0.05, 5.0
#: The longest pause between two attempts to connect to a service that is being replaced, and the
#: longest time for which a call without a timeout makes them.
LONGEST_KNOCK, PATIENCE = 1.0, 60.0

#: The retries that a new client may spend (:class:`RetryBudget`).
BUDGET = 100
#: The retries that a success at the first try earns: one for each ten requests.
EARNED = 0.1


class RetryBudget:
    """The retries that all calls of one client share, so that retries do not worsen an outage.

    Each retry spends one. A success after retries returns them, and a success at the first try
    earns a tenth of one. There is no lock, which a fork could leave locked; concurrent threads may
    make the count slightly wrong, which does no harm.
    """

    def __init__(self, size: float = BUDGET) -> None:
        self._size = size
        self._left = size

    def spend(self) -> bool:
        """Spend one retry; False if none is left."""
        if self._left < 1:
            return False
        self._left -= 1
        return True

    def record_success(self, retries: int) -> None:
        """Record a request that succeeded, and the number of its retries."""
        self._left = min(self._size, self._left + (retries or EARNED))


class Retries:
    """The policy of one client: at most ``limit`` retries of each request.

    With ``verified`` (Content-Digest) garbled messages count as transient errors too.
    """

    def __init__(self, limit: int, *, verified: bool) -> None:
        self.budget = RetryBudget()
        self._limit = limit
        self._verified = verified
        #: Whether a service has ever answered: then one that refuses connections is expected back.
        self.has_answered = False

    def knock(self, error: TensorRoundError, knocks: int, deadline: Deadline) -> float | None:
        """Seconds to wait before connecting again; None if ``error`` is another matter.

        A service that has answered before and refuses connections is being replaced. Connecting
        again does not load it, so this is limited by the deadline alone, and spends no retry. The
        wait doubles with each of the ``knocks`` made so far, up to :data:`LONGEST_KNOCK`.
        """
        is_expected = self.has_answered and self._limit
        if not (error.is_refused_connection and is_expected) or error.can_fail_over:
            return None
        if not deadline.is_limited and knocks * LONGEST_KNOCK > PATIENCE:
            return None
        seconds = min(FIRST_PAUSE * 2.0 ** min(knocks, 16), LONGEST_KNOCK)
        seconds *= random.uniform(0.5, 1)
        return seconds if deadline.allows(seconds) else None

    def backoff(self, error: TensorRoundError, retries: int, deadline: Deadline) -> float:
        """Seconds to wait before the next try; raises ``error`` if there must be no further try.

        The wait doubles with each of the ``retries`` made so far, from :data:`FIRST_PAUSE`, with
        random jitter of up to one half. The service's Retry-After is added. Another address is
        tried at once. There is no next try that the deadline does not allow.
        """
        if not self._is_transient(error) or retries >= self._limit:
            raise error
        seconds = min(FIRST_PAUSE * 2.0 ** min(retries, 16), LONGEST_PAUSE)
        seconds *= random.uniform(0.5, 1)
        if isinstance(error, RequestRefused) and error.retry_after is not None:
            seconds += error.retry_after
        if error.can_fail_over:
            seconds = 0.0
        if not deadline.allows(seconds) or not self.budget.spend():
            raise error
        return seconds

    def _is_transient(self, error: TensorRoundError) -> bool:
        garbled = self._verified and isinstance(error, DigestMismatch | ProtocolViolation)
        return error.transient or error.can_fail_over or garbled
