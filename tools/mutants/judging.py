"""Judges a mutant: runs the tests beside its module on a copy of the packages that has it."""

from __future__ import annotations

import contextlib
import json
import os
import resource
import shutil
import signal
import sys
import threading
import time
from collections.abc import Iterator
from multiprocessing import get_context
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
PACKAGES = ("client", "service", "verify", "cli")
#: A mutant that asks for more bytes than this does not take them from others.
MEMORY_LIMIT = 12 << 30
#: What tests import, imported once: each mutant's process is forked.
PRELOADED = "numpy ml_dtypes pydantic httpx2 hypothesis fastapi httptools uvicorn llvmlite.binding"

_FORKS = get_context("forkserver")
_FORKS.set_forkserver_preload([__name__, *PRELOADED.split()])


class Order:
    """The order in which tests are run: those that ran the changed line first, by their time.

    It is learnt from a run of the module as it is. All tests are run in any case: what is cached,
    or in another process, no trace shows.
    """

    def __init__(self, runs: dict[str, tuple[float, list[int]]] | None = None) -> None:
        #: By test: the seconds that it took, and the lines of the module that it ran.
        self.runs = runs or {}

    def tests(self, line: int) -> dict[str, int]:
        """The place of each test in a run for a mutant whose change is on this line."""
        keys = {test: (line not in lines, took) for test, (took, lines) in self.runs.items()}
        return {test: place for place, test in enumerate(sorted(keys, key=keys.__getitem__))}


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

    def order(self, module: Path, tests: list[Path]) -> Order:
        """The order that a run with the module as it is suggests. It may fail, as it is slow."""
        process = _FORKS.Process(target=_trace, args=(self.folder, tests, self.folder / module))
        process.start()
        process.join()
        return Order(json.loads((self.folder / "traced").read_text()))

    def judge(
        self,
        module: Path,
        text: str,
        tests: list[Path],
        places: dict[str, int],
        limit: float | None = None,
    ) -> str:
        """``survived``, ``killed``, or ``timeout`` after ``limit`` seconds."""
        file = self.folder / module
        file.write_text(text)
        # Bytecode is known by its source's time, in whole seconds.
        self._mtime += 1
        os.utime(file, (self._mtime, self._mtime))
        process = _FORKS.Process(target=_test, args=(self.folder, tests, _Sorting(places)))
        process.start()
        process.join(limit)
        is_late = process.is_alive()
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid or 0, signal.SIGKILL)  # with all that the tests have started
        process.join()
        shutil.copy2(ROOT / module, file)
        return "timeout" if is_late else "killed" if process.exitcode else "survived"


class _Sorting:
    """The plugin that sorts tests."""

    def __init__(self, places: dict[str, int]) -> None:
        self._places = places

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        items.sort(key=lambda item: self._places.get(item.nodeid, 0))


class _Tracing:
    """The plugin that notes which lines of a module each test runs."""

    def __init__(self, file: Path) -> None:
        self._file = str(file)
        self._lines: set[int] = set()
        self.runs: dict[str, tuple[float, list[int]]] = {}
        threading.settrace(self._enter)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        self._lines = set()
        began = time.monotonic()
        sys.settrace(self._enter)
        try:
            return (yield)
        finally:
            sys.settrace(None)
            self.runs[item.nodeid] = time.monotonic() - began, sorted(self._lines)

    def _enter(self, frame: FrameType, event: str, arg: Any) -> Any:
        return self._visit if frame.f_code.co_filename == self._file else None

    def _visit(self, frame: FrameType, event: str, arg: Any) -> Any:
        self._lines.add(frame.f_lineno)
        return self._visit


def _trace(folder: Path, tests: list[Path], file: Path) -> None:
    tracing = _Tracing(file)
    _run(folder, tests, tracing)
    (folder / "traced").write_text(json.dumps(tracing.runs))
    os._exit(0)


def _test(folder: Path, tests: list[Path], plugin: object) -> None:
    os._exit(_run(folder, tests, plugin, "-x"))


def _run(folder: Path, tests: list[Path], plugin: object, *options: str) -> int:
    os.setsid()
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_LIMIT, MEMORY_LIMIT))
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    sys.dont_write_bytecode = False
    sys.path[:0] = paths = [str(folder / package) for package in PACKAGES]
    os.environ["PYTHONPATH"] = os.pathsep.join(paths)
    with open(folder / "log", "w") as log:
        os.dup2(log.fileno(), 1)
        os.dup2(log.fileno(), 2)
        fixed = ["-q", "--assert=plain", "-p", "no:cacheprovider", "--hypothesis-seed=0"]
        return int(pytest.main([*fixed, *options, *map(str, tests)], plugins=[plugin]))
