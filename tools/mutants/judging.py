"""Judges a mutant: runs the tests beside its module on a copy of the packages that has it."""

from __future__ import annotations

import contextlib
import os
import resource
import shutil
import signal
import sys
from multiprocessing import get_context
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PACKAGES = ("client", "service", "verify", "cli")
#: A mutant that asks for more bytes than this does not take them from others.
MEMORY_LIMIT = 12 << 30
#: What tests import, imported once: each mutant's process is forked.
PRELOADED = "numpy ml_dtypes pydantic httpx2 hypothesis fastapi httptools uvicorn llvmlite.binding"

_FORKS = get_context("forkserver")
_FORKS.set_forkserver_preload([__name__, *PRELOADED.split()])


class Room:
    """A copy of the packages, in which one module at a time is another."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        #: What the last run of tests has written.
        self.log = folder / "log"
        for package in PACKAGES:
            ignored = shutil.ignore_patterns("__pycache__")
            shutil.copytree(ROOT / package, folder / package, ignore=ignored)
        self._mtime = 0

    def judge(self, module: Path, text: str, tests: list[Path], limit: float | None = None) -> str:
        """``survived``, ``killed``, or ``timeout`` after ``limit`` seconds."""
        file = self.folder / module
        file.write_text(text)
        # Bytecode is known by its source's time, in whole seconds.
        self._mtime += 1
        os.utime(file, (self._mtime, self._mtime))
        process = _FORKS.Process(target=_test, args=(self.folder, tests))
        process.start()
        process.join(limit)
        is_late = process.is_alive()
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid or 0, signal.SIGKILL)  # with all that the tests have started
        process.join()
        shutil.copy2(ROOT / module, file)
        return "timeout" if is_late else "killed" if process.exitcode else "survived"


def _test(folder: Path, tests: list[Path]) -> None:
    os.setsid()
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_LIMIT, MEMORY_LIMIT))
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    sys.dont_write_bytecode = False
    sys.path[:0] = paths = [str(folder / package) for package in PACKAGES]
    os.environ["PYTHONPATH"] = os.pathsep.join(paths)
    with open(folder / "log", "w") as log:
        os.dup2(log.fileno(), 1)
        os.dup2(log.fileno(), 2)
        options = ["-x", "-q", "--assert=plain", "-p", "no:cacheprovider", "--hypothesis-seed=0"]
        os._exit(pytest.main([*options, *map(str, tests)]))
