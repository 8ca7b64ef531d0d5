"""Judges a mutant: runs the tests beside its module on a copy of the packages that has it."""

from __future__ import annotations

import os
import resource
import shutil
import signal
import sys
from dataclasses import dataclass, field
from multiprocessing import get_context
from multiprocessing.connection import Connection
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PACKAGES = ("client", "service", "verify", "cli")
#: A mutant that reserves more bytes than this does not take them from others.
MEMORY_LIMIT = 12 << 30
#: What tests import, imported once: each mutant's process is forked.
PRELOADED = "numpy ml_dtypes pydantic httpx2 hypothesis fastapi httptools uvicorn llvmlite.binding"

_FORKS = get_context("forkserver")
_FORKS.set_forkserver_preload([__name__, *PRELOADED.split()])


@dataclass(slots=True)
class Times:
    """A plugin that runs short files before long ones, and what a module's name names first."""

    stem: str
    seconds: dict[str, float] = field(default_factory=dict)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Add the time of a test's phase to that of its file."""
        file = report.nodeid.partition("::")[0]
        for name in (file, report.nodeid):
            self.seconds[name] = self.seconds.get(name, 0.0) + report.duration

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        """Sort the tests."""
        items.sort(key=lambda item: self._order(item.nodeid))

    def _order(self, test: str) -> tuple[bool, float, str, float]:
        file = test.partition("::")[0]
        named = f"test_{self.stem}" in file
        return not named, self.seconds.get(file, 0.0), file, self.seconds.get(test, 0.0)


class Room:
    """A copy of the packages, in which one module at a time is another."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        shutil.rmtree(folder, ignore_errors=True)
        for package in PACKAGES:
            ignored = shutil.ignore_patterns("__pycache__", "node_modules")
            shutil.copytree(ROOT / package, folder / package, ignore=ignored)
        self._mtime = 0

    def judge(self, module: Path, text: str, tests: Path, times: Times, limit: float) -> str:
        """``survived``, ``killed`` or ``timeout``; ``times`` learns how long the tests take."""
        file = self.folder / module
        file.write_text(text)
        # Bytecode is told by its source's time, which has seconds.
        self._mtime += 1
        os.utime(file, (self._mtime, self._mtime))
        try:
            return self._run(tests, times, limit)
        finally:
            shutil.copy2(ROOT / module, file)

    def _run(self, tests: Path, times: Times, limit: float) -> str:
        ours, theirs = _FORKS.Pipe(duplex=False)
        process = _FORKS.Process(target=_test, args=(self.folder, tests, times, theirs))
        process.start()
        theirs.close()
        process.join(limit)
        is_late = process.is_alive()
        if process.pid is not None:
            try:
                os.killpg(process.pid, signal.SIGKILL)  # with all that the tests have started
            except ProcessLookupError:
                process.kill()
        process.join()
        if is_late:
            return "timeout"
        if not ours.poll():
            return "killed"  # the process has ended itself
        code, times.seconds = ours.recv()
        return "survived" if code == 0 else "killed"


def _test(folder: Path, tests: Path, times: Times, results: Connection) -> None:
    os.setsid()
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_LIMIT, MEMORY_LIMIT))
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    sys.dont_write_bytecode = False
    paths = [str(folder / package) for package in PACKAGES]
    os.environ["PYTHONPATH"] = os.pathsep.join(paths)
    sys.path[:0] = paths
    with open(folder / "log", "w") as log:
        os.dup2(log.fileno(), 1)
        os.dup2(log.fileno(), 2)
        options = ["-x", "-q", "--assert=plain", "-p", "no:cacheprovider", "--hypothesis-seed=0"]
        code = pytest.main([*options, str(ROOT / tests)], plugins=[times])
    results.send((int(code), times.seconds))
    os._exit(0)
