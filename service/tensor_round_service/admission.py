"""How many bytes may be in flight: taken before anything is allocated, and always given back."""

from __future__ import annotations

import os
import threading
from pathlib import Path

from tensor_round.errors import Overloaded, TensorTooLarge

#: A part of the budget is kept for requests up to this size, so that a few large ones
#: do not shut out the many small.
SMALL_BYTES = 1 << 20
SMALL_SHARE = 16

#: What a request holds until so much of its body has come: a silent sender that declares
#: a gigabyte holds no more than this.
FIRST_BYTES = 64 << 10
#: So much: nearly all of that, as it comes with a head in one segment of the loopback's 64 KiB.
ENOUGH_BYTES = 60 << 10


class Budget:
    """The bytes that all requests of this process may hold together."""

    def __init__(self, limit_bytes: int) -> None:
        self.limit_bytes = limit_bytes
        #: What one large request can have at the most.
        self.most = limit_bytes
        if limit_bytes > SMALL_BYTES:
            self.most -= limit_bytes // SMALL_SHARE
        self._in_use = 0
        self._lock = threading.Lock()

    @property
    def in_use(self) -> int:
        """Bytes taken and not given back."""
        return self._in_use

    def most_for(self, nbytes: int) -> int:
        """What requests of this size may hold all together."""
        return self.limit_bytes if nbytes <= SMALL_BYTES else self.most

    def check(self, nbytes: int) -> None:
        """Refuse with :class:`TensorTooLarge` what would not fit if it were alone."""
        most = self.most_for(nbytes)
        if nbytes > most:
            raise TensorTooLarge(
                f"the request needs {nbytes} bytes for input and output, "
                f"the service has {most} for all requests together",
                limit_bytes=most,
                got_bytes=nbytes,
            )

    def take(self, nbytes: int, *, of: int, to_come: int = 0) -> None:
        """Take a part of what a request of ``of`` bytes needs, or raise :class:`Overloaded`.

        There must be room for what is ``to_come`` too, though that is not taken yet.
        """
        with self._lock:
            if self._in_use + nbytes + to_come > self.most_for(of):
                raise Overloaded("there is no room for this tensor now", retry_after=1)
            self._in_use += nbytes

    def give_back(self, nbytes: int) -> None:
        """End what :meth:`take` began."""
        with self._lock:
            self._in_use -= nbytes


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
