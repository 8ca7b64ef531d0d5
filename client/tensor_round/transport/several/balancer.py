"""The choice among several addresses: state and arithmetic, without I/O and without a clock.

Requests go to the open endpoint with the least outstanding bytes. An endpoint that failed is
ejected: after a time that doubles with each failure it is due for a probe, which opens it again. An
endpoint that is busy is avoided for a time, and then open again.
"""

from __future__ import annotations

import random
import threading
from collections.abc import Callable, Iterable
from typing import Generic, TypeVar

from ..forks import reset_in_children

T = TypeVar("T")

#: The first ejection's seconds, which double with each further one, and their maximum.
FIRST_EJECTION, LONGEST_EJECTION = 1.0, 30.0
#: Bytes that a request counts in addition to its body: its costs that do not depend on its size.
REQUEST_BYTES = 64 << 10
_NEVER = float("-inf")


class Endpoint(Generic[T]):
    """An address by its URL, what requests are sent by, and its state."""

    __slots__ = (
        *("ejected_at", "failures", "is_ejected", "outstanding"),
        *("target", "turn", "until", "url"),
    )

    def __init__(self, url: str, target: T) -> None:
        self.url = url
        self.target = target
        #: Bytes of requests whose responses are not closed yet.
        self.outstanding = 0
        #: The place of the last request in the order of all; without one, a random place.
        self.turn = -random.random()
        self.is_ejected = False
        self.ejected_at = _NEVER
        #: When it is due for a probe, or no longer busy.
        self.until = _NEVER
        #: Failures since the last success.
        self.failures = 0

    def is_open(self, now: float) -> bool:
        """Whether it is neither ejected nor busy."""
        return not self.is_ejected and now >= self.until

    def rank(self, now: float) -> tuple[int, float, float]:
        """The open ones by outstanding bytes, then busy ones, then the least recently ejected."""
        if self.is_ejected:
            return 2, self.ejected_at, self.turn
        if now < self.until:
            return 1, self.until, self.turn
        return 0, self.outstanding, self.turn


class Balancer(Generic[T]):
    """The endpoints of one client; thread-safe. ``now`` is a time in seconds of any one clock."""

    def __init__(self) -> None:
        self._endpoints: dict[str, Endpoint[T]] = {}
        self._turns = 0
        self._lock = threading.Lock()
        reset_in_children(self)

    def __len__(self) -> int:
        return len(self._endpoints)

    def endpoints(self) -> list[Endpoint[T]]:
        """All of them."""
        with self._lock:
            return list(self._endpoints.values())

    def replace(self, urls: Iterable[str], make: Callable[[str], T]) -> list[Endpoint[T]]:
        """Have an endpoint for each URL; the removed ones without a request, which may be closed.

        :meth:`release` tells when the other removed ones may be closed.
        """
        with self._lock:
            old = self._endpoints
            self._endpoints = {u: old.get(u) or Endpoint(u, make(u)) for u in urls}
            gone = [endpoint for url, endpoint in old.items() if url not in self._endpoints]
            return [endpoint for endpoint in gone if not endpoint.outstanding]

    def choose(self, nbytes: int, now: float) -> Endpoint[T] | None:
        """The endpoint for a request with a body of ``nbytes``, which are outstanding from now on.

        Without an open one it is the one that is busy for the shortest time, and at last the least
        recently ejected one. None if there is no endpoint.
        """
        with self._lock:
            if not self._endpoints:
                return None
            chosen = min(self._endpoints.values(), key=lambda endpoint: endpoint.rank(now))
            chosen.outstanding += nbytes + REQUEST_BYTES
            self._turns += 1
            chosen.turn = self._turns
            return chosen

    def release(self, endpoint: Endpoint[T], nbytes: int) -> bool:
        """End a request; whether it was the last one of an endpoint that was removed."""
        with self._lock:
            endpoint.outstanding = max(0, endpoint.outstanding - nbytes - REQUEST_BYTES)
            is_removed = self._endpoints.get(endpoint.url) is not endpoint
            return is_removed and not endpoint.outstanding

    def has_open(self, now: float) -> bool:
        """Whether any endpoint is open."""
        with self._lock:
            return any(endpoint.is_open(now) for endpoint in self._endpoints.values())

    def claim_probe(self, now: float, seconds: float) -> Endpoint[T] | None:
        """An ejected endpoint whose time is over, for the caller alone to probe for ``seconds``."""
        with self._lock:
            for endpoint in self._endpoints.values():
                if endpoint.is_ejected and now >= endpoint.until:
                    endpoint.until = now + seconds
                    return endpoint
        return None

    def eject(self, endpoint: Endpoint[T], began: float, now: float) -> float | None:
        """Eject an endpoint after a failure of a request that began at ``began``.

        Returns the seconds; None if it was ejected since then, as by one of several requests that
        a lost connection fails.
        """
        with self._lock:
            if began < endpoint.ejected_at:
                return None
            seconds = min(FIRST_EJECTION * 2.0**endpoint.failures, LONGEST_EJECTION)
            seconds *= random.uniform(0.75, 1.0)
            endpoint.failures = min(endpoint.failures + 1, 16)
            endpoint.is_ejected = True
            endpoint.ejected_at = now
            endpoint.until = now + seconds
            return seconds

    def avoid(self, endpoint: Endpoint[T], now: float, seconds: float) -> None:
        """Avoid an endpoint that is busy for so many seconds, but not for longer than others."""
        with self._lock:
            if not endpoint.is_ejected:
                endpoint.until = max(endpoint.until, now + min(seconds, LONGEST_EJECTION))

    def readmit(self, endpoint: Endpoint[T], began: float, *, is_probe: bool = False) -> bool:
        """Record a success of a request that began at ``began``; whether it ends an ejection.

        A success of an earlier request than the last failure tells nothing. A probe's success does
        not reset the time of the next ejection.
        """
        with self._lock:
            if began < endpoint.ejected_at:
                return False
            was_ejected, endpoint.is_ejected = endpoint.is_ejected, False
            if was_ejected:
                endpoint.until = _NEVER
            if not is_probe:
                endpoint.failures = 0
            return was_ejected

    def reset_after_fork(self) -> None:
        """In a forked child: the parent's requests are not outstanding here."""
        self._lock = threading.Lock()
        for endpoint in self._endpoints.values():
            endpoint.outstanding = 0
