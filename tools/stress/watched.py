"""``tensor-round-service`` with a watch on its event loop, run as a module.

The file that ``STRESS_WATCH`` names has the longest time, in seconds, that the thread of the event
loop has run between two looks at it, which are a millisecond apart. A step of the loop takes no
longer; what other processes take of the core does not count.
"""

from __future__ import annotations

import asyncio
import mmap
import os
import socket
import struct
import time
from pathlib import Path

from tensor_round_service.__main__ import main
from tensor_round_service.process.server import Server

VARIABLE = "STRESS_WATCH"
LOOK_SECONDS = 0.001
SECONDS = struct.Struct("d")


class Watch:
    """The file, as both sides see it."""

    def __init__(self, path: Path) -> None:
        with path.open("r+b") as file:
            self._memory = mmap.mmap(file.fileno(), SECONDS.size)

    @property
    def longest(self) -> float:
        """The longest step since it was set to 0."""
        seconds: float = SECONDS.unpack(self._memory)[0]
        return seconds

    @longest.setter
    def longest(self, seconds: float) -> None:
        SECONDS.pack_into(self._memory, 0, seconds)


async def watch(path: Path) -> None:
    """Look for ever."""
    shown, before = Watch(path), time.thread_time()
    while True:
        await asyncio.sleep(LOOK_SECONDS)
        now = time.thread_time()
        shown.longest = max(shown.longest, now - before)
        before = now


def install() -> None:
    """Have each server of this process be watched once it has started."""
    startup, watches = Server.startup, set[asyncio.Task[None]]()

    async def watched(self: Server, sockets: list[socket.socket] | None = None) -> None:
        await startup(self, sockets)
        watches.add(asyncio.create_task(watch(Path(os.environ[VARIABLE]))))

    Server.startup = watched  # type: ignore[method-assign]


if __name__ == "__main__":
    install()
    main()
