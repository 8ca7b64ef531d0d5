"""What a service holds of the machine, whether that stays flat, and what a row came to."""

from __future__ import annotations

import os
import statistics
import time
from collections.abc import Collection, Sequence
from contextlib import suppress
from dataclasses import dataclass, field

from bench.measuring.processes import family, status

MIB = 1 << 20
#: Seconds after the last request in which kept buffers go back, and lingering connections end.
REST_SECONDS = 6.0
#: How far resident memory may rise: buffers are kept and given back with every change of traffic.
RSS_SLACK = 24 * MIB
#: How far descriptors may rise: a connection more or less for each client.
DESCRIPTOR_SLACK = 8


@dataclass(frozen=True, slots=True)
class ProcessMetrics:
    """Of all processes of a service: resident bytes, the sum of their peaks, descriptors.

    ``files`` are those of the resident bytes that are pages of files, as code is: the system has
    them once for all processes, and takes them back when it needs to.
    """

    rss: int
    peak_rss: int
    files: int
    descriptors: int

    @classmethod
    def of(cls, pid: int) -> ProcessMetrics:
        """Of this process and its descendants, now."""
        rss = peak = files = descriptors = 0
        for member in family(pid):
            with suppress(OSError, KeyError):  # it may have just ended
                fields = status(member)
                rss += fields["VmRSS"] << 10
                peak += fields["VmHWM"] << 10
                files += fields["RssFile"] << 10
                descriptors += len(os.listdir(f"/proc/{member}/fd"))
        return cls(rss, peak, files, descriptors)

    @classmethod
    def at_rest(cls, pid: int, seconds: float = REST_SECONDS) -> ProcessMetrics:
        """Once there have been no requests for a while."""
        time.sleep(seconds)
        return cls.of(pid)

    @property
    def own_peak(self) -> int:
        """The peak without pages of files."""
        return self.peak_rss - self.files

    def __str__(self) -> str:
        return f"{self.rss / MIB:.1f} MiB, {self.descriptors} descriptors"


def growth(samples: Sequence[float]) -> float:
    """How far the last quarter's median lies above the second's; the first is warm-up."""
    quarter = len(samples) // 4
    return statistics.median(samples[-quarter:]) - statistics.median(samples[quarter : 2 * quarter])


def risen(samples: Sequence[ProcessMetrics]) -> list[str]:
    """What is not flat over a run."""
    rss = growth([each.rss for each in samples])
    descriptors = growth([each.descriptors for each in samples])
    found = []
    if rss > RSS_SLACK:
        found.append(f"memory rose by {rss / MIB:.1f} MiB from the second quarter to the last")
    if descriptors > DESCRIPTOR_SLACK:
        found.append(f"descriptors rose by {descriptors:g} from the second quarter to the last")
    return found


def quantile(values: Collection[float], part: float) -> float:
    """The value that this part of all are not above; 0 where there are none."""
    ordered = sorted(values)
    return ordered[min(int(len(ordered) * part), len(ordered) - 1)] if ordered else 0.0


def milliseconds(seconds: float) -> str:
    """A duration to be read."""
    return f"{seconds * 1e3:.1f} ms"


#: So many faults are printed.
MAX_FAULTS = 20


@dataclass
class Report:
    """The figures of a row, in a line or more, and its faults."""

    figures: str
    faults: list[str] = field(default_factory=list)

    def expect(self, fault: str, held: bool) -> None:
        """Add the fault where the expectation was not held."""
        if not held:
            self.faults.append(fault)

    def text(self, row: str) -> str:
        """All of it, as it is printed."""
        state = f"{len(self.faults)} FAULTS" if self.faults else "held"
        return "\n".join(
            (
                f"{row}: {state}: {self.figures}",
                *(f"  {fault}" for fault in self.faults[:MAX_FAULTS]),
            )
        )
