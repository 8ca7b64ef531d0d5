"""What is given up after so many seconds, or so many bytes: a function, a file of a stranger."""

from __future__ import annotations

import errno
from collections.abc import Callable
from pathlib import Path
from threading import Thread
from typing import TypeVar

from tensor_round.contract.errors import CannotVerify

T = TypeVar("T")


class NotDone(Exception):
    """The call is not done in time. Its thread cannot be ended, only left behind."""


def within(seconds: float, call: Callable[[], T]) -> T:
    """What a call returns or raises; raises :class:`NotDone` if that takes longer."""
    results: list[T] = []
    errors: list[BaseException] = []

    def run() -> None:
        try:
            results.append(call())
        except BaseException as error:  # sys.exit() too
            errors.append(error)

    thread = Thread(target=run, name="within", daemon=True)
    thread.start()
    thread.join(max(0.0, seconds))
    if errors:
        raise errors[0]
    if not results:
        raise NotDone
    return results[0]


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
