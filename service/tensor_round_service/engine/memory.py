"""The memory of all requests: a budget in bytes, and a pool of used buffers.

New memory costs a page fault a page, which takes longer than receiving data into it. So large
buffers are pooled. A pooled buffer has the data of an earlier request, so responses must consist
of written bytes only.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from tensor_round.contract.errors import Overloaded, TensorTooLarge

from ..backends import Bytes

#: One part in ``SMALL_SHARE`` of the budget is reserved for requests up to this size, so that a
#: few large requests do not block many small ones.
SMALL_BYTES = 1 << 20
SMALL_SHARE = 16
#: Smaller buffers are not pooled.
MIN_POOLED_BYTES = 64 << 10
#: A pooled buffer is at most this many times as large as requested.
MAX_OVERSIZE = 2
#: The memory of a machine whose system states none.
ASSUMED_MEMORY = 8 << 30


class Memory:
    """The memory budget of all requests of this process, and the pool of buffers."""

    def __init__(self, allocate: Callable[[int], Bytes], limit_bytes: int) -> None:
        #: Allocates a new buffer, contents undefined.
        self.allocate_new = allocate
        self.limit_bytes = limit_bytes
        #: Limit of one large request.
        self.max_request_bytes = largest_request(limit_bytes)
        #: Reserved bytes.
        self.in_use = 0
        #: Pooled buffers, oldest first, each with the time of its release, and their bytes.
        self._pool: list[tuple[float, Bytes]] = []
        self.pooled_bytes = 0
        self._lock = threading.Lock()

    def reserve(self, nbytes: int, *, of: int, pending: int = 0) -> None:
        """Reserve ``nbytes`` for a request that needs ``of`` bytes in total.

        The budget must have room for ``pending`` further bytes, which are not reserved. Raises
        :class:`TensorTooLarge` if the request exceeds the whole budget, and :class:`Overloaded`
        if it exceeds the free part.
        """
        limit = self.limit_bytes if of <= SMALL_BYTES else self.max_request_bytes
        if of > limit:
            raise TensorTooLarge(
                f"the request needs {of} bytes for input and output, "
                f"the service has {limit} for all requests together",
                limit_bytes=limit,
                got_bytes=of,
            )
        with self._lock:
            if self.in_use + nbytes + pending > limit:
                raise Overloaded("the memory budget has no room for this tensor now", retry_after=1)
            self.in_use += nbytes

    def allocate(self, nbytes: int) -> Bytes:
        """A large buffer of at least ``nbytes`` bytes from the pool, or a new one of ``nbytes``."""
        found = None
        with self._lock:
            for position in range(
                len(self._pool) - 1, -1, -1
            ):  # the latest is most likely in the cache
                size = self._pool[position][1].size
                if nbytes <= size <= MAX_OVERSIZE * nbytes:
                    found = self._remove(position)
                    break
            # Only after the search: it might drop the very buffer that this request can use.
            self._shrink_pool()
        return self.allocate_new(nbytes) if found is None else found

    def release(self, nbytes: int, buffers: Sequence[Bytes]) -> None:
        """Return reserved bytes to the budget and unused buffers to the pool."""
        with self._lock:
            self.in_use -= nbytes
            for buffer in buffers:
                if buffer.size >= MIN_POOLED_BYTES:
                    self._pool.append((time.monotonic(), buffer))
                    self.pooled_bytes += buffer.size
            if self._pool:
                self._shrink_pool()

    def drop_idle(self, seconds: float) -> None:
        """Free the pooled buffers that were released more than ``seconds`` ago."""
        with self._lock:
            while self._pool and self._pool[0][0] < time.monotonic() - seconds:
                self._remove(0)

    def _shrink_pool(self) -> None:
        """Free the oldest buffers until pool and requests together are within the budget."""
        while self._pool and self.pooled_bytes + self.in_use > self.limit_bytes:
            self._remove(0)

    def _remove(self, position: int) -> Bytes:
        _, buffer = self._pool.pop(position)
        self.pooled_bytes -= buffer.size
        return buffer


def largest_request(limit_bytes: int) -> int:
    """The largest request that a budget admits."""
    share = limit_bytes // SMALL_SHARE if limit_bytes > SMALL_BYTES else 0
    return max(limit_bytes - share, min(limit_bytes, SMALL_BYTES))


def memory_limit() -> int:
    """The memory limit of this process: of its control group, or of the machine."""
    if not hasattr(os, "sysconf"):  # on Windows
        return ASSUMED_MEMORY
    limits = [os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")]
    limits += filter(None, map(_limit_in, _limit_files()))
    return min(limits)


def _limit_files() -> list[Path]:
    """Files with the limits of this process's control group and its ancestors, versions 1 and 2."""
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
