"""Progress of a call: a bar on stderr, or a caller's function."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator

#: Called with the bytes done and the bytes in total.
ProgressCallback = Callable[[int, int], None]


@contextlib.contextmanager
def counted(
    progress: bool | ProgressCallback, total: int, doing: str = "rounding", done: int = 0
) -> Iterator[Callable[[int], None]]:
    """Yield a thread-safe function that adds bytes done; ``True`` shows a bar on stderr.

    ``done`` bytes are so from the start, and do not count for the rate.
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
    # Imported here: importing rich takes longer than rounding a small tensor.
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        DownloadColumn,
        Progress,
        TextColumn,
        TimeRemainingColumn,
        TransferSpeedColumn,
    )

    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        DownloadColumn(binary_units=True),
        TransferSpeedColumn(),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=Console(stderr=True)) as bar:
        task = bar.add_task(doing, total=total, completed=done)
        yield lambda done, _: bar.update(task, completed=done)
