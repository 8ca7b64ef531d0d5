"""Metrics of this worker, and the sum of all workers.

The workers of a service share a folder. Each writes its counters there every second, so a scrape
may be a second behind for the other workers. The counters of a worker that died remain.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import os
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, Set
from dataclasses import asdict
from pathlib import Path
from typing import Any

from ..http1.response import Response
from .counts import Counts, Gauges
from .exposition import Workers, exposition

logger = logging.getLogger(__name__)

#: Seconds between two writes of a worker's counts.
INTERVAL = 1.0
#: A worker that has not written for this time has exited: its gauges are ignored.
GONE_AFTER = 5.0
#: Folders whose paths are counted together.
_FOLDERS = ("/v2", "/page")
_PREFIX = "metrics-"


class Metrics:
    """Counts of this process.

    ``routes`` are the paths that are counted by their own names: labels have few values, whatever
    is asked for. ``device_events`` are the backend's. ``folder`` is shared by the ``workers``; None
    for a single one.
    """

    def __init__(
        self,
        info: dict[str, str],
        routes: Set[str],
        gauges: Callable[[], Awaitable[Gauges]],
        workers: int = 1,
        device_events: Counter[tuple[str, str]] | None = None,
        folder: Path | None = None,
    ) -> None:
        self._info = info
        self._routes = routes
        self._gauges = gauges
        self._workers = workers
        #: Counters of this process; they observe jobs.
        self.counts = Counts(device_events)
        self._file = None if folder is None else folder / f"{_PREFIX}{os.getpid()}-{time.time_ns()}"

    def route_of(self, path: str) -> str:
        """The label of a path, out of a few: that of a route or of a folder, or ``other``."""
        if path in self._routes:
            return path
        return next((name for name in _FOLDERS if f"{path}/".startswith(f"{name}/")), "other")

    def responded(self, path: str, response: Response, received: int = 0) -> None:
        """Count a response without a job; ``received`` is the length of the request's body."""
        labels = (self.route_of(path), "", "", "", str(response.status), response.code)
        self.counts.request(labels, received, sum(map(len, response.parts)))

    async def exposition(self, accept: str) -> tuple[bytes, str]:
        """The metrics of all workers as text, in the format of an Accept field, and its type."""
        gauges = [await self._gauges()]
        total = Counts()
        total.add(self.counts.as_data())
        starts = 1
        for data, is_there in self._others():
            starts += 1
            total.add(data["counts"])
            if is_there and data["gauges"] is not None:
                gauges.append(Gauges(**data["gauges"]))
        workers = Workers(self._workers, starts, gauges)
        return exposition(total, workers, self._info, accept)

    async def share(self) -> None:
        """Write the counters for the other workers periodically, until cancelled."""
        if self._file is None:
            return
        try:
            while True:
                await asyncio.sleep(INTERVAL)
                self._write(self._file, await self._gauges())
        except asyncio.CancelledError:
            with contextlib.suppress(OSError):
                self._write(self._file, None)
            raise
        except OSError as error:
            logger.warning("metrics: %s; this worker no longer shares its own", error.strerror)

    def _write(self, path: Path, gauges: Gauges | None) -> None:
        """Write counters and gauges atomically; a worker that exits has no gauges."""
        data = {"counts": self.counts.as_data(), "gauges": gauges and asdict(gauges)}
        beside = path.with_name(f".{path.name}")
        beside.write_text(json.dumps(data))
        beside.rename(path)

    def _others(self) -> Iterator[tuple[dict[str, Any], bool]]:
        """The data of the other workers, and whether each still runs."""
        if self._file is None:
            return
        for path in self._file.parent.glob(_PREFIX + "*"):
            if path != self._file:
                age = time.time() - path.stat().st_mtime
                yield json.loads(path.read_text()), age < GONE_AFTER
