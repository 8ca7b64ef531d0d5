"""What a peer may have a connection do for nothing: so much at once, and so much a second."""

from __future__ import annotations

from collections.abc import Callable


class Allowance:
    """A token bucket that is full at first; ``clock`` returns seconds."""

    __slots__ = ("_balance", "_burst", "_clock", "_per_second", "_since")

    def __init__(self, burst: int, per_second: float, clock: Callable[[], float]) -> None:
        self._burst = self._balance = float(burst)
        self._per_second = per_second
        self._clock = clock
        self._since = clock()

    def spend(self) -> bool:
        """Take one; False if there is none left."""
        now = self._clock()
        self.earn((now - self._since) * self._per_second)
        self._since = now
        self._balance -= 1
        return self._balance >= 0

    def earn(self, count: float) -> None:
        """Add some, up to what it holds."""
        self._balance = min(self._balance + count, self._burst)
