"""A file whose content counts anew when it changes: that of API keys, those of TLS."""

from __future__ import annotations

import contextlib
import os
import stat
import time
from pathlib import Path

#: Time between two polls of a file, and time for which a changed file must stay unchanged before
#: it is used. Together they are well within the documented 2 s.
POLL_SECONDS = 0.5
#: About 10,000 keys, or four times the authorities of a browser.
MAX_FILE_BYTES = 1 << 20


class WatchedFile:
    """A file that is polled, at most twice a second.

    Its content is compared, because a timestamp may stay the same if the file changes twice within
    a tick of the clock.

    Overwriting a file is not atomic: for a moment the file is empty or incomplete. So a change
    counts only after the file has not changed for :data:`POLL_SECONDS`.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.read()

    def read(self) -> None:
        """Have the present content count."""
        self._next_poll = time.monotonic() + POLL_SECONDS
        self._latest = _snapshot(self.path)
        #: The content that counts; a string if it cannot be read, with the reason.
        self.content, _ = self._latest

    def has_changed(self) -> bool:
        """Poll the file if it is time to; whether another content counts from now on."""
        if time.monotonic() < self._next_poll:
            return False
        self._next_poll = time.monotonic() + POLL_SECONDS
        previous, self._latest = self._latest, _snapshot(self.path)
        found, changed = self._latest
        is_stable = self._latest == previous or time.time() - changed >= POLL_SECONDS
        if found == self.content or not is_stable:
            return False
        self.content = found
        return True


def _snapshot(path: Path) -> tuple[bytes | str, float]:
    """The content of the file, or why it cannot be read, and when it changed.

    By ctime, not mtime: programs can set mtime. A missing file changed with its folder.
    """
    try:
        with open(path, "rb", opener=_open_without_blocking) as file:
            if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                raise FileNotFoundError
            content = file.read(MAX_FILE_BYTES + 1)
            # After reading: a file that changes meanwhile changes later than this.
            changed = os.fstat(file.fileno()).st_ctime
    except OSError as error:
        is_missing = isinstance(error, FileNotFoundError)
        reason = "there is no such file" if is_missing else f"cannot be read: {error.strerror}"
        with contextlib.suppress(OSError):
            return reason, path.parent.stat().st_ctime
        return reason, 0.0
    if len(content) > MAX_FILE_BYTES:
        return f"has more than {MAX_FILE_BYTES} bytes", changed
    return content, changed


def _open_without_blocking(path: str, flags: int) -> int:
    """Open without blocking: the path may name a pipe without a writer."""
    return os.open(path, flags | os.O_NONBLOCK)
