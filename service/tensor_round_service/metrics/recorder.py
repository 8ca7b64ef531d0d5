"""Metrics of this worker, and the sum of all workers.

Each worker counts in memory that the others read and that outlives it (:mod:`..counters`). It
states its gauges there every second, so a scrape may be a second behind for the other workers.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence, Set
from dataclasses import dataclass
from pathlib import Path

from ..counters import Counters, Key
from .counts import WORKER, Counts, Gauges, add
from .exposition import exposition

#: Seconds between two statements of the gauges.
INTERVAL = 1.0


@dataclass(eq=False)
class Metrics:
    """Counts of this process."""

    info: dict[str, str]
    #: The paths that are counted by their own names, and the folders whose paths are counted
    #: together: labels have few values, whatever is asked for.
    routes: Set[str]
    folders: Sequence[str]
    gauges: Callable[[], Awaitable[Gauges]]
    #: How many workers there should be.
    workers: int
    #: The backend's.
    device_events: Counter[tuple[str, str]]
    #: How many lines of the log were dropped.
    dropped_lines: Callable[[], int]
    #: Shared by the workers; None for a single one.
    folder: Path | None

    def __post_init__(self) -> None:
        self._counters = Counters(self.folder, "metrics")
        #: Counters of this process; they observe jobs.
        self.counts = Counts(self._counters)
        self._serves = False
        self._counters.row(WORKER, 2)[1] = 0  # the row may be a predecessor's

    def route_of(self, path: str) -> str:
        """The label of a path, out of a few: that of a route or of a folder, or ``other``."""
        if path in self.routes:
            return path
        return next((name for name in self.folders if f"{path}/".startswith(f"{name}/")), "other")

    def responded(self, path: str, outcome: tuple[str, str], received: int, sent: int) -> None:
        """Count a request without a job: its status and code, and the bytes of both bodies."""
        self.counts.request((self.route_of(path), "", "", "", *outcome), received, sent)

    async def exposition(self, accept: str) -> tuple[bytes, str]:
        """The metrics of all workers as text, in the format of an Accept field, and its type."""
        await self._state()
        totals: dict[Key, Sequence[float]] = {}
        live = []
        for worker in self._counters.workers():
            add(totals, worker.rows)
            if worker.is_alive and worker.rows.get(WORKER, (0, 0))[1]:
                live.append(worker.rows)
        return exposition(totals, live, self.workers, self.info, accept)

    async def share(self) -> None:
        """Let the other workers know the present state periodically, until cancelled."""
        try:
            while True:
                await self._state()
                await asyncio.sleep(INTERVAL)
        finally:
            self.counts.follow(self.device_events, self.dropped_lines())
            self._counters.row(WORKER, 2)[1] = 0

    async def _state(self) -> None:
        gauges = await self.gauges()
        self.counts.state(gauges)
        self.counts.follow(self.device_events, self.dropped_lines())
        row = self._counters.row(WORKER, 2)
        if not self._serves:
            self._serves = True
            row[0] += 1
        row[1] = 1
