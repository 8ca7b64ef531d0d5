"""The memory of a request: taken before its body is read, given back on every path.

Fresh memory costs a page fault for every page, more than receiving into it does, so
large buffers are kept for the next request. What a request finds in one is whatever
the last one left: an answer is made of written bytes only.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from types import TracebackType
from typing import TYPE_CHECKING

from .admission import FIRST_BYTES, Budget
from .backends import Bytes

if TYPE_CHECKING:
    from .ahead import Ahead

#: Smaller buffers are not worth keeping.
KEPT_BYTES = 64 << 10
#: A kept buffer serves requests down to this fraction of its size.
FIT = 2


class Buffers:
    """A bounded stock of used buffers, the latest first: it is the likeliest in cache."""

    def __init__(self, allocate: Callable[[int], Bytes], budget: Budget) -> None:
        self._allocate = allocate
        self._budget = budget
        #: Oldest first, each with the time it was given back at.
        self._stock: list[tuple[float, Bytes]] = []
        self._stocked = 0
        self._lock = threading.Lock()

    @property
    def stocked_bytes(self) -> int:
        """Bytes held for later requests."""
        return self._stocked

    def take(self, nbytes: int) -> Bytes:
        """A buffer of at least that many bytes, contents undefined."""
        found = self._from_stock(nbytes) if nbytes >= KEPT_BYTES else None
        # Not before: what has just been reserved may be what the stock has for it.
        if self._stock:
            self.make_room()
        return self._allocate(nbytes) if found is None else found

    def _from_stock(self, nbytes: int) -> Bytes | None:
        with self._lock:
            for position in range(len(self._stock) - 1, -1, -1):
                _, buffer = self._stock[position]
                if nbytes <= buffer.size <= FIT * nbytes:
                    del self._stock[position]
                    self._stocked -= buffer.size
                    return buffer
        return None

    def give_back(self, buffer: Bytes) -> None:
        """Keep a buffer that nobody uses any more."""
        if buffer.size < KEPT_BYTES:
            return
        with self._lock:
            self._stock.append((time.monotonic(), buffer))
            self._stocked += buffer.size
        self.make_room()

    def make_room(self) -> None:
        """Let the oldest go, so that stock and requests stay within the budget together."""
        with self._lock:
            while self._stock and self._stocked + self._budget.in_use > self._budget.limit_bytes:
                self._drop_oldest()

    def drop_idle(self, seconds: float) -> None:
        """Let go of what nobody has asked for in so long."""
        with self._lock:
            while self._stock and self._stock[0][0] < time.monotonic() - seconds:
                self._drop_oldest()

    def _drop_oldest(self) -> None:
        _, buffer = self._stock.pop(0)
        self._stocked -= buffer.size

    def lease(self) -> Lease:
        """The memory for one request."""
        return Lease(self, self._budget)


class Lease:
    """The buffers of one request; a context manager that ends their use.

    They are used again only after :meth:`settle`: as long as a thread may still write
    into a buffer, or the kernel read from it, it must not be another request's.
    """

    def __init__(self, buffers: Buffers, budget: Budget) -> None:
        self._buffers = buffers
        self._budget = budget
        self._needed = 0
        self._reserved = 0
        self._taken: list[Bytes] = []
        self._settled = False
        #: What rounded the request's tensor, once that is known.
        self.executed_by = ""
        #: What is rounded of its tensor while that comes in, if anything is.
        self.ahead: Ahead | None = None

    @property
    def seconds_ahead(self) -> float:
        """What that took."""
        return 0.0 if self.ahead is None else self.ahead.seconds

    @property
    def others(self) -> int:
        """Bytes that all other requests hold."""
        return self._budget.in_use - self._reserved

    def reserve_first(self, nbytes: int) -> None:
        """Have room for the beginning of a request that will need so many bytes.

        Where there is none for the rest now, its sender should know before it sends much.
        Raises :class:`TensorTooLarge` or :class:`Overloaded`.
        """
        self._budget.check(nbytes)
        self._needed = nbytes
        first = min(nbytes, FIRST_BYTES)
        self._reserve(first, to_come=nbytes - first)

    def reserve_rest(self) -> None:
        """Have room for all that was said to be needed; :class:`Overloaded` if there is none."""
        self._reserve(self._needed - self._reserved)

    def reserve(self, nbytes: int) -> None:
        """Have room for all of a request, of which enough has come. Raises the same."""
        self._budget.check(nbytes)
        self._budget.take(nbytes, of=nbytes)
        self._needed = self._reserved = nbytes

    def _reserve(self, nbytes: int, to_come: int = 0) -> None:
        if nbytes:
            self._budget.take(nbytes, of=self._needed, to_come=to_come)
            self._reserved += nbytes

    def take(self, nbytes: int) -> Bytes:
        """Memory of that many bytes, contents undefined, until the lease ends."""
        buffer = self._buffers.take(nbytes)
        self._taken.append(buffer)
        return buffer[:nbytes]

    def settle(self) -> None:
        """Vouch that nobody reads or writes the buffers any more."""
        self._settled = True

    def __enter__(self) -> Lease:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.end(settled=self._settled)

    def end(self, *, settled: bool) -> None:
        """Give everything back; once is enough. ``settled`` vouches as :meth:`settle` does."""
        self._budget.give_back(self._reserved)
        self._reserved = 0
        if settled:
            for buffer in self._taken:
                self._buffers.give_back(buffer)
        self._taken.clear()
        self.ahead = None  # which knows this lease
