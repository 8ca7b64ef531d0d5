"""Turns on the event loop: a connection with more work than fits into one waits for its next.

The event loop serves its callers in turn, but a connection whose requests never wait would keep
it for as long as they come, and a transport reads one connection up to 32 times in a turn.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable

#: What a connection does in one turn: so many requests, unless they take longer than this.
TURN_REQUESTS, TURN_SECONDS = 16, 0.001
#: The same while others wait in the row: one more caller gets its response at once, and one more
#: flood has to line up.
PASSING_REQUESTS = 1


class Turns:
    """The row of the connections of a server that wait for their next turn.

    In each turn of the event loop the first of them goes on. Connections that do not wait are
    served before and after it, so their time is bounded by one turn, however long the row is.
    """

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        #: What each of them goes on with, which may line up again.
        self.row: deque[Callable[[], None]] = deque()

    def line_up(self, go_on: Callable[[], None]) -> None:
        """Call this when its turn has come."""
        self.row.append(go_on)
        if len(self.row) == 1:
            self._loop.call_soon(self._next)

    def _next(self) -> None:
        # It stays in the row meanwhile, so that lining up again does not call this twice.
        try:
            self.row[0]()
        finally:
            self.row.popleft()
            if self.row:
                self._loop.call_soon(self._next)
