"""Metrics of this worker, and the sum of all workers.

Each worker counts in memory that the others read and that outlives it (:mod:`..counters`). It
states its gauges there every second, so a scrape may be a second behind for the other workers.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence, Set
from pathlib import Path

from ..counters import Counters
from .counts import Counts, Gauges, add
from .exposition import Rows, Workers, exposition

#: Seconds between two statements of the gauges.
INTERVAL = 1.0
#: The row of a worker: how many have counted in it, and whether the last one serves.
_WORKER = ("worker",)


class Metrics:
    """Counts of this process.

    ``routes`` are the paths that are counted by their own names, ``folders`` those whose paths are
    counted together: labels have few values, whatever is asked for. ``device_events`` are the
    backend's, ``dropped_lines`` says how many lines of the log were dropped. ``folder`` is shared
    by the ``workers``; None for a single one.
    """

    def __init__(
        self,
        info: dict[str, str],
        routes: Set[str],
        folders: Sequence[str],
        gauges: Callable[[], Awaitable[Gauges]],
        workers: int = 1,
        device_events: Counter[tuple[str, str]] | None = None,
        dropped_lines: Callable[[], int] = lambda: 0,
        folder: Path | None = None,
    ) -> None:
        self._info = info
        self._routes = routes
        self._folders = folders
        self._gauges = gauges
        self._workers = workers
        self._device_events = Counter() if device_events is None else device_events
        self._dropped_lines = dropped_lines
        self._counters = Counters(folder, "metrics")
        #: Counters of this process; they observe jobs.
        self.counts = Counts(self._counters)
        self._serves = False
        self._counters.row(_WORKER, 2)[1] = 0  # the row may be a predecessor's

    def route_of(self, path: str) -> str:
        """The label of a path, out of a few: that of a route or of a folder, or ``other``."""
        if path in self._routes:
            return path
        return next((name for name in self._folders if f"{path}/".startswith(f"{name}/")), "other")

    def responded(self, path: str, outcome: tuple[str, str], received: int, sent: int) -> None:
        """Count a request without a job: its status and code, and the bytes of both bodies."""
        self.counts.request((self.route_of(path), "", "", "", *outcome), received, sent)

    async def exposition(self, accept: str) -> tuple[bytes, str]:
        """The metrics of all workers as text, in the format of an Accept field, and its type."""
        await self._state()
        totals: Rows = {}
        live = []
        for worker in self._counters.workers():
            add(totals, worker.rows)
            if worker.is_alive and worker.rows.get(_WORKER, (0, 0))[1]:
                live.append(worker.rows)
        workers = Workers(self._workers, int(totals[_WORKER][0]), live)
        return exposition(totals, workers, self._info, accept)

    async def share(self) -> None:
        """Let the other workers know the present state periodically, until cancelled."""
        try:
            while True:
                await self._state()
                await asyncio.sleep(INTERVAL)
        finally:
            self.counts.follow(self._device_events, self._dropped_lines())
            self._counters.row(_WORKER, 2)[1] = 0

    async def _state(self) -> None:
        gauges = await self._gauges()
        self.counts.state(gauges)
        self.counts.follow(self._device_events, self._dropped_lines())
        row = self._counters.row(_WORKER, 2)
        if not self._serves:
            self._serves = True
            row[0] += 1
        row[1] = 1
