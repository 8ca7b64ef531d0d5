"""Progress of a call: a bar on stderr, or a caller's function; and the pauses of long work."""

from __future__ import annotations

import contextlib
import sys
import threading
import time
from collections.abc import Callable, Iterator

#: Called with the bytes done and the bytes in total.
ProgressCallback = Callable[[int, int], None]

#: Called between the pieces of long work. It may let other work go on, and may raise to end it.
Pause = Callable[[], None]

_UNITS = ((2**30, "GiB"), (2**20, "MiB"), (2**10, "KiB"), (1, "B"))


def no_pause() -> None:
    """The pause of work that nothing waits for."""


@contextlib.contextmanager
def counted(
    progress: bool | ProgressCallback, total: int, doing: str = "rounding", done: int = 0
) -> Iterator[Callable[[int], None]]:
    """Yield a thread-safe function that adds bytes done; ``True`` shows a bar on stderr.

    ``done`` is the number of bytes that were done before; the rate does not count them.
    """
    if progress is False:
        yield lambda count: None
        return
    with (
        _bar(total, doing, done) if progress is True else contextlib.nullcontext(progress) as report
    ):
        lock = threading.Lock()

        def add(count: int) -> None:
            nonlocal done
            with lock:
                done += count
                report(done, total)

        report(done, total)
        yield add


@contextlib.contextmanager
def _bar(total: int, doing: str, done: int) -> Iterator[ProgressCallback]:
    """A line on stderr, drawn again ten times a second at most, and once at the end."""
    began, drawn, last = time.monotonic(), 0.0, done
    size, unit = next(row for row in _UNITS if total >= row[0] or row[0] == 1)

    def draw(now: float) -> None:
        rate = (last - done) / max(now - began, 1e-9)
        part = f"{last * 100 // total if total else 100:3} %"
        sizes = f"{last / size:,.1f} of {total / size:,.1f} {unit}, {rate / size:,.1f} {unit}/s"
        sys.stderr.write(f"\r{doing} {part}, {sizes}  ")
        sys.stderr.flush()

    def report(now_done: int, _: int) -> None:
        nonlocal drawn, last
        last, now = now_done, time.monotonic()
        if now - drawn >= 0.1:
            drawn = now
            draw(now)

    try:
        yield report
    finally:
        draw(time.monotonic())
        sys.stderr.write("\n")
