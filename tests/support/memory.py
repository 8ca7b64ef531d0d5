"""The memory that Python takes for some work."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable, Iterator
from contextlib import contextmanager


@contextmanager
def traced() -> Iterator[Callable[[], int]]:
    """Trace allocations meanwhile; the function returns the most bytes at once, so far."""
    tracemalloc.start()
    try:
        yield lambda: tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
