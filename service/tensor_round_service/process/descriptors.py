"""File descriptors: each connection takes one, and the kernel sets a limit."""

from __future__ import annotations

import contextlib
import os
import resource


def raise_limit() -> None:
    """Raise the soft limit of this process, and of those that it starts, to the hard one.

    The soft one, often 1,024, is for programs that use select(2), which this one does not.
    """
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with contextlib.suppress(OSError, ValueError):  # macOS allows fewer than its hard limit
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def limit() -> int:
    """The present limit."""
    return resource.getrlimit(resource.RLIMIT_NOFILE)[0]


def for_files() -> int:
    """How many descriptors connections leave free."""
    return min(16, limit() // 16)


def for_files_and_metrics() -> int:
    """How many the connections of the service leave free: METRICS_PORT has connections, too."""
    return min(64, limit() // 4)


def are_left(count: int, kept: int, descriptor: int) -> bool:
    """Whether so many more may be opened if some are kept; ``descriptor`` is any that is open.

    Tries it: a new one has the least number that is free.
    """
    opened: list[int] = []
    try:
        while len(opened) < count:
            opened.append(os.dup(descriptor))
    except OSError:
        return False
    finally:
        for number in opened:
            os.close(number)
    return opened[-1] < limit() - kept
