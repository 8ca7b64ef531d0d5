"""The choice among several addresses, as state without I/O and without a clock.

Requests go to the open endpoint with the least outstanding bytes. A failure ejects an endpoint for
a time that doubles with each further one; then it is due for a probe, which opens it again. A busy
endpoint is avoided for a time, and then open again.
"""

from __future__ import annotations

import logging
import random
import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from .concurrency import FORKABLES

T = TypeVar("T")
logger = logging.getLogger(__name__)

#: The first ejection's seconds, which double with each further one, and their maximum.
FIRST_EJECTION, LONGEST_EJECTION = 1.0, 30.0
#: Bytes that each request counts in addition to its body: a link is shared among requests, so their
#: number delays a small tensor more than their bytes do (docs/scaling.md).
REQUEST_BYTES = 4 << 20
_NEVER = float("-inf")


@dataclass(slots=True, eq=False)
class Endpoint(Generic[T]):
    """An address by its URL, what sends requests to it, and its state."""

    url: str
    target: T
    #: Bytes of requests whose responses are not closed yet.
    outstanding: int = 0
    #: The place of the last request in the order of all; before the first one, a random place.
    turn: float = field(default_factory=lambda: -random.random())
    is_ejected: bool = False
    ejected_at: float = _NEVER
    #: Failures since the last success.
    failures: int = 0
    #: The end of its ejection, or of the time for which it is busy.
    until: float = _NEVER

    def rank(self, now: float) -> tuple[int, float, float]:
        """The open ones by outstanding bytes, then busy ones, then the least recently ejected."""
        if self.is_ejected:
            return 2, self.ejected_at, self.turn
        if now < self.until:
            return 1, self.until, self.turn
        return 0, self.outstanding, self.turn


class Balancer(Generic[T]):
    """The endpoints of one client; thread-safe. ``now`` and ``began`` are seconds of one clock."""

    def __init__(self) -> None:
        #: By URL; replaced as a whole.
        self.endpoints: dict[str, Endpoint[T]] = {}
        self._turns = 0
        self._lock = threading.Lock()
        FORKABLES.add(self)

    def replace(self, urls: Iterable[str], make: Callable[[str], T]) -> list[Endpoint[T]]:
        """Have an endpoint for each URL; the removed ones that have no request under way."""
        with self._lock:
            old = self.endpoints
            self.endpoints = {url: old.get(url) or Endpoint(url, make(url)) for url in urls}
            gone = [old[url] for url in old.keys() - self.endpoints.keys()]
            return [endpoint for endpoint in gone if not endpoint.outstanding]

    def choose(self, nbytes: int, now: float) -> Endpoint[T]:
        """The endpoint for a request with ``nbytes``, which are outstanding from now on."""
        with self._lock:
            chosen = min(self.endpoints.values(), key=lambda endpoint: endpoint.rank(now))
            chosen.outstanding += nbytes + REQUEST_BYTES
            self._turns += 1
            chosen.turn = self._turns
            return chosen

    def release(self, endpoint: Endpoint[T], nbytes: int) -> bool:
        """End a request; whether it was the last one of a removed endpoint."""
        with self._lock:
            endpoint.outstanding = max(0, endpoint.outstanding - nbytes - REQUEST_BYTES)
            is_removed = self.endpoints.get(endpoint.url) is not endpoint
            return is_removed and not endpoint.outstanding

    def has_open(self, now: float) -> bool:
        """Whether any endpoint is neither ejected nor busy."""
        return any(endpoint.rank(now)[0] == 0 for endpoint in self.endpoints.values())

    def claim_probe(self, now: float, seconds: float) -> Endpoint[T] | None:
        """An ejected endpoint whose time is over, for the caller alone to probe for ``seconds``."""
        with self._lock:
            for endpoint in self.endpoints.values():
                if endpoint.is_ejected and now >= endpoint.until:
                    endpoint.until = now + seconds
                    return endpoint
        return None

    def eject(self, endpoint: Endpoint[T], began: float, now: float, reason: str) -> None:
        """Eject an endpoint, unless it was since the failed request began.

        So many requests on one lost connection are one failure.
        """
        with self._lock:
            if began < endpoint.ejected_at:
                return
            seconds = min(FIRST_EJECTION * 2.0**endpoint.failures, LONGEST_EJECTION)
            seconds *= random.uniform(0.75, 1.0)
            endpoint.failures = min(endpoint.failures + 1, 16)
            endpoint.is_ejected, endpoint.ejected_at, endpoint.until = True, now, now + seconds
        logger.info("%s is ejected for %.1f s: %s", endpoint.url, seconds, reason)

    def avoid(self, endpoint: Endpoint[T], now: float, seconds: float) -> None:
        """Avoid a busy endpoint for so many seconds."""
        with self._lock:
            endpoint.until = max(endpoint.until, now + min(seconds, LONGEST_EJECTION))

    def readmit(self, endpoint: Endpoint[T], began: float, *, is_probe: bool = False) -> None:
        """Record a success. A request that began before the last failure is ignored.

        After a probe's success the next ejection is no shorter.
        """
        with self._lock:
            if began < endpoint.ejected_at:
                return
            if not is_probe:
                endpoint.failures = 0
            if not endpoint.is_ejected:
                return
            endpoint.is_ejected, endpoint.until = False, _NEVER
        logger.info("%s is used again", endpoint.url)

    def reset_after_fork(self) -> None:
        """In a forked child: the parent's requests are not outstanding."""
        self._lock = threading.Lock()
        for endpoint in self.endpoints.values():
            endpoint.outstanding = 0
