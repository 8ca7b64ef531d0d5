"""Progress of a call: a bar on stderr, or a caller's function; and the pauses of long work."""

from __future__ import annotations

import contextlib
import sys
import threading
import time
from collections.abc import Callable, Iterator

#: Called with the bytes done and the bytes in total.
ProgressCallback = Callable[[int, int], None]
#: ``True`` shows a bar on stderr.
Progress = bool | ProgressCallback

#: Called between the pieces of long work. It may let other work go on, and may raise to end it.
Pause = Callable[[], None]

#: Seconds between two lines of progress where stderr is no terminal, and between two drawings.
LOG_SECONDS, DRAW_SECONDS = 10.0, 0.1

_UNITS = ((2**30, "GiB"), (2**20, "MiB"), (2**10, "KiB"), (1, "B"))


def no_pause() -> None:
    """The pause of work that nothing waits for."""


@contextlib.contextmanager
def counted(
    progress: Progress, total: int, doing: str = "rounding"
) -> Iterator[Callable[[int], None]]:
    """Yield a thread-safe function that adds bytes done; ``True`` shows a bar on stderr."""
    if progress is False:
        yield lambda count: None
        return
    with _bar(total, doing) if progress is True else contextlib.nullcontext(progress) as report:
        lock, done = threading.Lock(), 0

        def add(count: int) -> None:
            nonlocal done
            with lock:
                done += count
                report(done, total)

        report(done, total)
        yield add


@contextlib.contextmanager
def _bar(total: int, doing: str) -> Iterator[ProgressCallback]:
    """A line on stderr, drawn again ten times a second at most, and once at the end.

    Where stderr is not a terminal, in a log, each drawing is a separate line, every ten seconds.
    """
    is_terminal = sys.stderr.isatty()
    start, end = ("\r", "  ") if is_terminal else ("", "\n")
    pause = DRAW_SECONDS if is_terminal else LOG_SECONDS
    began, last = time.monotonic(), 0
    drawn = 0.0 if is_terminal else began
    size, unit = next(row for row in _UNITS if total >= row[0] or row[0] == 1)

    def draw(now: float) -> None:
        rate = last / max(now - began, 1e-9)
        part = f"{last * 100 // total if total else 100:3} %"
        sizes = f"{last / size:,.1f} of {total / size:,.1f} {unit}, {rate / size:,.1f} {unit}/s"
        sys.stderr.write(f"{start}{doing} {part}, {sizes}{end}")
        sys.stderr.flush()

    def report(done: int, _: int) -> None:
        nonlocal drawn, last
        last, now = done, time.monotonic()
        if now - drawn >= pause:
            drawn = now
            draw(now)

    try:
        yield report
    finally:
        draw(time.monotonic())
        if is_terminal:
            sys.stderr.write("\n")
