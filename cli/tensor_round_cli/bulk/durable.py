"""Files of this host that survive a loss of power, and locks on them."""

from __future__ import annotations

import contextlib
import errno
import os
import secrets
from collections.abc import Iterable
from importlib.util import find_spec
from pathlib import Path

#: Windows has no such module: there nothing keeps two processes apart.
HAS_LOCKS = find_spec("fcntl") is not None
if HAS_LOCKS:
    import fcntl


def lock(path: Path) -> int:
    """Lock a file, which is created, or a folder; returns the descriptor that holds the lock.

    The kernel releases the lock when the process ends. Raises BlockingIOError if another process
    holds it, and OSError for a link to a file: where others may write, they may have put it there.
    """
    is_folder = path.is_dir()
    while True:
        descriptor, is_held = os.open(path, os.O_RDONLY) if is_folder else _opened(path), False
        try:
            if HAS_LOCKS:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            # Between the two calls its holder may have given the file another name.
            with contextlib.suppress(FileNotFoundError):
                is_held = os.path.samestat(
                    os.fstat(descriptor), os.stat(path, follow_symlinks=is_folder)
                )
            if is_held:
                return descriptor
        except BlockingIOError as error:
            raise BlockingIOError(error.errno, "another process is writing it", path) from None
        finally:
            if not is_held:
                os.close(descriptor)


def _opened(path: Path) -> int:
    """A descriptor of a file, which is created; of no file that a link leads to."""
    # Windows has no such flag; its links need a privilege.
    flags = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_BINARY", 0)
    try:
        return os.open(path, os.O_RDWR | os.O_CREAT | flags, 0o666)
    except OSError as error:
        if error.errno != errno.ELOOP:
            raise
        raise OSError(error.errno, "it is a link: remove it first", str(path)) from None


def replace(path: Path, data: bytes) -> None:
    """Replace a file's content; the old or the new one survives a loss of power."""
    new = path.with_name(f"{path.name}.{secrets.token_hex(4)}")
    try:
        new.write_bytes(data)
        _sync(new)
        os.replace(new, path)
    finally:
        new.unlink(missing_ok=True)
    sync_paths([], path.parent)


def sync_paths(paths: Iterable[Path], root: Path) -> None:
    """Return when files below ``root``, and the folders between, have reached the disk."""
    folders = {root}
    for path in paths:
        with contextlib.suppress(FileNotFoundError):
            _sync(path)
            folders.update(folder for folder in path.parents if folder.is_relative_to(root))
    for folder in folders if os.name == "posix" else ():
        _sync(folder)


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY if os.name == "posix" else os.O_RDWR)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
