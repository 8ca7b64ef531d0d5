"""What a service holds of the machine: memory, descriptors, threads, in all its processes."""

from __future__ import annotations

import os
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

MIB = 1 << 20
#: Seconds after the last request in which kept buffers go back, and lingering connections end.
REST_SECONDS = 6.0


@dataclass(frozen=True, slots=True)
class Vitals:
    """Of all processes together: resident bytes, the sum of their peaks, descriptors, threads.

    ``files`` are those of the resident bytes that are pages of files, as code is: the system has
    them once for all processes, and takes them back when it wants to.
    """

    rss: int
    peak_rss: int
    files: int
    descriptors: int
    threads: int

    @classmethod
    def of(cls, pid: int) -> Vitals:
        """Of this process and its descendants, now."""
        rss = peak = files = descriptors = threads = 0
        for member in family(pid):
            with suppress(OSError):  # it may have just ended
                fields = _status(member)
                rss += fields["VmRSS"] << 10
                peak += fields["VmHWM"] << 10
                files += fields["RssFile"] << 10
                threads += fields["Threads"]
                descriptors += len(os.listdir(f"/proc/{member}/fd"))
        return cls(rss, peak, files, descriptors, threads)

    @classmethod
    def at_rest(cls, pid: int, seconds: float = REST_SECONDS) -> Vitals:
        """Once nothing has been asked for a while."""
        time.sleep(seconds)
        return cls.of(pid)

    def __str__(self) -> str:
        return f"{self.rss / MIB:.1f} MiB, {self.descriptors} descriptors"


def family(pid: int) -> list[int]:
    """A process and its descendants."""
    found = [pid]
    for member in found:
        with suppress(OSError):
            for task in os.listdir(f"/proc/{member}/task"):
                children = Path(f"/proc/{member}/task/{task}/children").read_text()
                found += map(int, children.split())
    return found


def forget_peaks(pid: int) -> None:
    """Let the peak of each process's memory begin anew."""
    for member in family(pid):
        with suppress(OSError):
            Path(f"/proc/{member}/clear_refs").write_text("5")


def _status(pid: int) -> dict[str, int]:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    words = {name: text.split() for name, text in (line.split(":", 1) for line in lines)}
    return {name: int(found[0]) for name, found in words.items() if found and found[0].isdigit()}
