"""A real limit on a process's memory, where this machine lets us set one."""

from __future__ import annotations

import os
import time
from contextlib import suppress
from pathlib import Path
from types import TracebackType

_ROOT = Path("/sys/fs/cgroup")


class Confinement:
    """A control group with a limit, in which a process is killed if it needs more.

    ``limit_bytes`` is what the processes may have beyond what they had when they came in.
    ``is_real`` says whether there is one: that takes root, and a writable /sys/fs/cgroup.
    """

    def __init__(self, limit_bytes: int) -> None:
        # Version 1 has a tree for each resource.
        tree = _ROOT / "memory" if (_ROOT / "memory/memory.limit_in_bytes").exists() else _ROOT
        self._group = tree / f"tensor-round-walls-{os.getpid()}"
        name = "memory.max" if tree is _ROOT else "memory.limit_in_bytes"
        try:
            self._group.mkdir()
            (self._group / name).write_text(str(limit_bytes))
        except OSError:
            self.is_real = False
            self._remove()
        else:
            self.is_real = True

    def take_in(self, pids: list[int]) -> None:
        """Let the limit hold for these processes from now on."""
        if self.is_real:
            for pid in pids:
                (self._group / "cgroup.procs").write_text(str(pid))

    def _remove(self) -> None:
        with suppress(OSError):
            self._group.rmdir()

    def __enter__(self) -> Confinement:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self.is_real:
            time.sleep(0.2)  # the group of a process that has just ended is busy for a moment
        self._remove()
