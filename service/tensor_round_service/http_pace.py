"""The least pace at which a body must come, and at which an answer must be taken."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Protocol

from tensor_round.errors import RequestRefused

if TYPE_CHECKING:
    from .http_protocol import DirectHttpProtocol

logger = logging.getLogger(__name__)


class Arriving(Protocol):
    """A request whose body comes in."""

    @property
    def received(self) -> int:
        """Bytes of the body that have come so far, as they were on the wire."""

    def fail(self, refusal: RequestRefused) -> None:
        """Refuse it: its sender is too slow."""


class Pace:
    """The account of one who should move ``rate`` bytes a second.

    It begins with what ``grace`` seconds are worth and never holds more, gains what moves
    and loses what should have moved; it must not run out. A rate of 0 asks for nothing.
    """

    __slots__ = ("_balance", "_most", "_rate")

    def __init__(self, rate: int, grace: float) -> None:
        self._rate = rate
        self._balance = self._most = rate * grace

    def moved(self, nbytes: int, seconds: float) -> None:
        """So many bytes moved in that time."""
        self._balance = min(self._balance + nbytes - self._rate * seconds, self._most)

    def bound(self, seconds: float) -> None:
        """Leave no more patience than that."""
        self._balance = min(self._balance, self._rate * seconds)

    @property
    def is_lost(self) -> bool:
        """Whether the account ran out."""
        return self._balance < 0


class Taker:
    """Who takes a connection's answers: held to the pace while more waits than should.

    What has gone out is told from how much less is left, in the transport's buffer or still
    to be given to it. What the kernel holds counts as taken.
    """

    #: Bytes of the answer under way that the transport has not been given yet.
    ahead = 0
    _timer: asyncio.TimerHandle | None = None
    _pace: Pace
    _left: int

    def __init__(self, protocol: DirectHttpProtocol) -> None:
        self._protocol = protocol

    @property
    def left(self) -> int:
        """Bytes that the kernel has not had yet."""
        return self.ahead + self._protocol.transport.get_write_buffer_size()

    @property
    def is_watched(self) -> bool:
        """Whether the taker is held to the pace now."""
        return self._timer is not None

    def watch(self) -> None:
        """Hold the taker to the pace from now on, until nothing is left."""
        if self._timer is None:
            limits = self._protocol.limits
            self._pace = Pace(limits.min_send_rate, limits.receive_timeout)
            self._left = self.left
            self._arm()

    def release(self) -> None:
        """Ask for no pace any more."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _arm(self) -> None:
        interval = self._protocol.limits.watch_interval
        self._timer = self._protocol.loop.call_later(interval, self._check)

    def _check(self) -> None:
        limits, before, self._left = self._protocol.limits, self._left, self.left
        self._pace.moved(max(0, before - self._left), limits.watch_interval)
        if self._left == 0:
            self._timer = None
        elif self._pace.is_lost:
            self._timer = None
            rate = limits.min_send_rate
            logger.warning("an answer was taken at less than %d bytes a second: cut off", rate)
            self._protocol.transport.abort()
        else:
            self._arm()
