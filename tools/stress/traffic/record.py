"""What became of all requests, as several threads record it."""

from __future__ import annotations

import threading
import traceback
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

from http_requests.reader import Fault
from stress.metrics import milliseconds, quantile
from stress.report import MAX_FAULTS
from support.cases.drawn_tensors import WrongResult


class Record:
    """Counts by kind and by status, durations of valid requests, and faults."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.kinds: Counter[str] = Counter()
        self.statuses: Counter[int] = Counter()
        #: Of valid requests: by kind, and those since the last interval.
        self.durations: dict[str, list[float]] = {}
        self._recent: list[float] = []
        #: How many responses were wrong, and how many requests had none.
        self.wrong = 0
        self.lost = 0
        self.faults: list[str] = []

    @contextmanager
    def entry(self, kind: str, after: str = "") -> Iterator[None]:
        """One request of that kind, after another: whatever it raises is a fault."""
        try:
            yield
        except (Fault, WrongResult) as fault:
            self._fault(f"{kind} {after}: {fault}", wrong=1)
        except Exception:
            # A request without a response is lost, whatever the library calls it.
            self._fault(f"{kind} {after}: {traceback.format_exc(limit=-1).strip()}", lost=1)
        with self._lock:
            self.kinds[kind] += 1

    def _fault(self, text: str, wrong: int = 0, lost: int = 0) -> None:
        with self._lock:
            self.wrong += wrong
            self.lost += lost
            if len(self.faults) < MAX_FAULTS:
                self.faults.append(text)

    def responded(self, status: int) -> None:
        """A response with this status came; 0 is a connection's end without one."""
        with self._lock:
            self.statuses[status] += 1

    def took(self, kind: str, seconds: float) -> None:
        """A valid request had its response in that time."""
        with self._lock:
            self.durations.setdefault(kind, []).append(seconds)
            self._recent.append(seconds)

    def recent(self) -> str:
        """The valid requests since the last call of this."""
        with self._lock:
            recent, self._recent = self._recent, []
        return f"{len(recent):,} valid, {_latencies(recent)}"

    def report(self) -> Iterator[str]:
        """All of it, a line a kind."""
        for kind, count in sorted(self.kinds.items()):
            yield f"{count:9,} {kind:34} {_latencies(self.durations.get(kind, []))}".rstrip()
        yield "statuses: " + ", ".join(
            f"{count:,} x {status or 'closed'}" for status, count in sorted(self.statuses.items())
        )


def _latencies(durations: list[float]) -> str:
    if not durations:
        return ""
    p50, p99 = quantile(durations, 0.5), quantile(durations, 0.99)
    return f"p50 {milliseconds(p50)}, p99 {milliseconds(p99)}"
