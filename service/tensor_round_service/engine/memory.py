"""The memory of all requests: a budget in bytes, and used buffers kept for the next request.

Fresh memory costs a page fault for every page, more than receiving into it does, so large
buffers are kept. What a request finds in one is whatever the last one left: a response is made
of written bytes only.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from tensor_round.errors import Overloaded, TensorTooLarge

from ..backends import Bytes

#: A part of the budget is kept for requests up to this size, so that a few large ones
#: do not shut out the many small.
SMALL_BYTES = 1 << 20
SMALL_SHARE = 16
#: Smaller buffers are not worth keeping.
KEPT_BYTES = 64 << 10
#: A kept buffer serves requests down to this fraction of its size.
FIT = 2


class Memory:
    """The bytes that all requests of this process may hold together, and buffers of them."""

    def __init__(self, allocate: Callable[[int], Bytes], limit_bytes: int) -> None:
        #: Makes a buffer of that many bytes, contents undefined.
        self.fresh = allocate
        self.limit_bytes = limit_bytes
        #: What one large request can have at the most.
        self.most = largest_request(limit_bytes)
        self._in_use = 0
        #: Used buffers, oldest first, each with the time it was given back at.
        self._stock: list[tuple[float, Bytes]] = []
        self._stocked = 0
        self._lock = threading.Lock()

    @property
    def in_use(self) -> int:
        """Bytes reserved and not given back."""
        return self._in_use

    @property
    def stocked_bytes(self) -> int:
        """Bytes held for later requests."""
        return self._stocked

    def reserve(self, nbytes: int, *, of: int, to_come: int = 0) -> None:
        """Reserve a part of what a request of ``of`` bytes needs.

        There must be room for what is ``to_come`` too, though that is not reserved yet. Raises
        :class:`TensorTooLarge` for what would not fit if it were alone, else :class:`Overloaded`.
        """
        most = self.limit_bytes if of <= SMALL_BYTES else self.most
        if of > most:
            raise TensorTooLarge(
                f"the request needs {of} bytes for input and output, "
                f"the service has {most} for all requests together",
                limit_bytes=most,
                got_bytes=of,
            )
        with self._lock:
            if self._in_use + nbytes + to_come > most:
                raise Overloaded("there is no room for this tensor now", retry_after=1)
            self._in_use += nbytes

    def allocate(self, nbytes: int) -> Bytes:
        """A large buffer of at least that many bytes, contents undefined."""
        found = None
        with self._lock:
            for position in range(len(self._stock) - 1, -1, -1):  # the latest is likeliest in cache
                size = self._stock[position][1].size
                if nbytes <= size <= FIT * nbytes:
                    found = self._drop(position)
                    break
            # Not before: what has just been reserved may be what the stock has for it.
            self._make_room()
        return self.fresh(nbytes) if found is None else found

    def give_back(self, nbytes: int, buffers: Sequence[Bytes]) -> None:
        """End the use of reserved bytes, and of buffers that nobody reads or writes any more."""
        with self._lock:
            self._in_use -= nbytes
            for buffer in buffers:
                if buffer.size >= KEPT_BYTES:
                    self._stock.append((time.monotonic(), buffer))
                    self._stocked += buffer.size
            if self._stock:
                self._make_room()

    def drop_idle(self, seconds: float) -> None:
        """Let go of buffers that nobody has asked for in so long."""
        with self._lock:
            while self._stock and self._stock[0][0] < time.monotonic() - seconds:
                self._drop(0)

    def _make_room(self) -> None:
        """Let the oldest buffers go, so that stock and requests stay within the budget together."""
        while self._stock and self._stocked + self._in_use > self.limit_bytes:
            self._drop(0)

    def _drop(self, position: int) -> Bytes:
        _, buffer = self._stock.pop(position)
        self._stocked -= buffer.size
        return buffer


def largest_request(limit_bytes: int) -> int:
    """What one request can have at the most of a budget."""
    share = limit_bytes // SMALL_SHARE if limit_bytes > SMALL_BYTES else 0
    return max(limit_bytes - share, min(limit_bytes, SMALL_BYTES))


def memory_limit() -> int:
    """The bytes this process may use: its control group's limit, or the machine's memory."""
    limits = [os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")]
    limits += filter(None, map(_limit_in, _limit_files()))
    return min(limits)


def _limit_files() -> list[Path]:
    """Where control groups, of either version, would say a limit: ours and those above."""
    root = Path("/sys/fs/cgroup")
    files = [root / "memory/memory.limit_in_bytes"]
    try:
        own = Path("/proc/self/cgroup").read_text()
    except OSError:
        return []
    for line in own.splitlines():
        _, controllers, path = line.split(":", 2)
        if not controllers:  # version 2
            group = root / path.lstrip("/")
            files += [p / "memory.max" for p in (group, *group.parents) if p.is_relative_to(root)]
        elif "memory" in controllers.split(","):
            files.append(root / "memory" / path.lstrip("/") / "memory.limit_in_bytes")
    return files


def _limit_in(file: Path) -> int | None:
    try:
        text = file.read_text().strip()
    except OSError:
        return None
    return int(text) if text.isdigit() else None
