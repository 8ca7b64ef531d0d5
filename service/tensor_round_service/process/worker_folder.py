"""The folder in which the workers of one service share their state.

Supervisor and workers hold a lock on it, which the kernel releases however they end. A supervisor
that was killed leaves its folder behind, and the next start removes it.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import gettempdir, mkdtemp

from ..failures import CannotStart

_PREFIX = "tensor-round-workers-"
#: A link to another folder of the supervisor's.
_OTHER = "other"


@contextmanager
def worker_folder() -> Iterator[Path]:
    """A new folder, removed at the end. Raises :class:`CannotStart`."""
    _remove_abandoned()
    with contextlib.ExitStack() as stack:
        while True:
            folder = _new_folder()
            stack.callback(shutil.rmtree, folder, ignore_errors=True)
            # Before it is locked, another start may take it for abandoned.
            with contextlib.suppress(FileNotFoundError):
                stack.enter_context(held(folder))
                if folder.exists():
                    break
        yield folder


def _new_folder() -> Path:
    try:
        return Path(mkdtemp(prefix=_PREFIX))
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise CannotStart(f"no folder for workers in {gettempdir()}: {reason}") from None


def remove_with(folder: Path, other: Path | None) -> None:
    """Have the next start remove another folder too, if this process is killed."""
    if other is not None:
        (folder / _OTHER).symlink_to(other)


@contextmanager
def held(folder: Path) -> Iterator[None]:
    """Keep other services from removing the folder."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH)
        yield
    finally:
        os.close(descriptor)


def _remove_abandoned() -> None:
    """Remove the folders of this user that no process holds."""
    for folder in Path(gettempdir()).glob(f"{_PREFIX}*"):
        with contextlib.suppress(OSError):
            descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
            try:
                if os.fstat(descriptor).st_uid == os.geteuid():
                    fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    if (other := folder / _OTHER).is_symlink():
                        shutil.rmtree(other.readlink(), ignore_errors=True)
                    shutil.rmtree(folder)
            finally:
                os.close(descriptor)
