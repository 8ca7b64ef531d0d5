"""What /proc says of a process and its descendants."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path


def family(pid: int) -> list[int]:
    """A process and its descendants."""
    found = [pid]
    for member in found:
        for thread in threads(member):
            with suppress(OSError):
                children = Path(f"/proc/{member}/task/{thread}/children").read_text()
                found += map(int, children.split())
    return found


def threads(pid: int) -> list[int]:
    """The threads of one process; none if it has ended."""
    try:
        return [int(name) for name in os.listdir(f"/proc/{pid}/task")]
    except FileNotFoundError:
        return []


def status(pid: int) -> dict[str, int]:
    """The numbers of /proc/PID/status: counts, and kB of memory."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    words = {name: text.split() for name, text in (line.split(":", 1) for line in lines)}
    return {name: int(found[0]) for name, found in words.items() if found and found[0].isdigit()}


def reset_peaks(pid: int) -> None:
    """Set the peak of each process's memory to what it holds now."""
    for member in family(pid):
        with suppress(OSError):
            Path(f"/proc/{member}/clear_refs").write_text("5")
