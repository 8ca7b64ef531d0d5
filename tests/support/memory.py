"""The memory that Python takes for some work."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

from tensor_round.contract.errors import RequestRefused


@contextmanager
def traced() -> Iterator[Callable[[], int]]:
    """Trace allocations meanwhile; the function returns the most bytes at once, so far."""
    tracemalloc.start()
    try:
        yield lambda: tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def peak(work: Callable[[], object]) -> int:
    """The most bytes that some work takes at once, be it refused or not."""
    with traced() as most:
        with suppress(RequestRefused):
            work()
        return most()
