"""What is given up after so many seconds, or so many bytes: a function, a file of a stranger."""

from __future__ import annotations

import contextlib
import errno
from collections.abc import Callable
from concurrent.futures import Future, wait
from pathlib import Path
from queue import SimpleQueue
from threading import Thread
from typing import TypeVar

from tensor_round.contract.errors import CannotVerify

T = TypeVar("T")


class NotDone(Exception):
    """The call is not done in time. Its thread cannot be ended, only left behind."""


class Worker:
    """One thread for all calls: some libraries keep their streams and connections by thread."""

    def __init__(self) -> None:
        self._calls: SimpleQueue[Callable[[], None] | None] | None = None

    def within(self, seconds: float | None, call: Callable[[], T]) -> T:
        """What a call returns or raises; raises :class:`NotDone` if that takes longer.

        Then the thread is left behind, and the next call has another one.
        """
        found: Future[T] = Future()

        def run() -> None:
            try:
                found.set_result(call())
            except BaseException as error:  # sys.exit() too
                found.set_exception(error)

        if self._calls is None:
            self._calls = SimpleQueue()
            Thread(target=_run_all, args=(self._calls,), name="worker", daemon=True).start()
        self._calls.put(run)
        wait([found], None if seconds is None else max(0.0, seconds))
        if not found.done():
            self.close()
            raise NotDone
        return found.result()

    def close(self) -> None:
        """Let the thread end after its last call."""
        if self._calls is not None:
            self._calls.put(None)
            self._calls = None


def _run_all(calls: SimpleQueue[Callable[[], None] | None]) -> None:
    while (call := calls.get()) is not None:
        call()
        del call  # what it returned is the caller's alone


def within(seconds: float, call: Callable[[], T]) -> T:
    """What a call returns or raises in a thread of its own; raises :class:`NotDone`."""
    with contextlib.closing(Worker()) as worker:
        return worker.within(seconds, call)


def write_file(path: Path, content: bytes, seconds: float) -> None:
    """Write a file; raises OSError, for a pipe that nobody reads too."""
    try:
        within(seconds, lambda: path.write_bytes(content))
    except NotDone:
        why = f"nobody read it within {seconds:g} s"
        raise TimeoutError(errno.ETIMEDOUT, why, str(path)) from None


def read_file(path: Path, most: int, seconds: float) -> bytes:
    """A file's bytes; raises :class:`CannotVerify` if there are more, or for a pipe without end."""

    def read() -> bytes:
        with path.open("rb") as file:
            return file.read(most + 1)

    try:
        found = within(seconds, read)
    except NotDone:
        raise CannotVerify(f"{path} did not end within {seconds:g} s") from None
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise CannotVerify(f"{path}: {reason}") from None
    if len(found) > most:
        raise CannotVerify(f"{path} has more than {most >> 20} MiB")
    return found
