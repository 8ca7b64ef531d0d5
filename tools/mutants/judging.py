"""Judges mutants: runs the tests beside a module on a copy of the packages with each in its place.

Importing and collecting takes longer than the tests that notice a change. So a process collects the
tests once and is forked for each mutant, whose functions get the changed code there. What runs when
a module is imported is judged in a fresh process.
"""

from __future__ import annotations

import contextlib
import gc
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
from multiprocessing.connection import Connection
from pathlib import Path
from types import CodeType, FrameType, FunctionType
from typing import Any

import pytest

from .mutations import Mutant

ROOT = Path(__file__).parents[2]
PACKAGES = ("client", "service", "verify", "cli")
#: A mutant that asks for more bytes than this does not take them from others.
MEMORY_LIMIT = 12 << 30
#: What tests import, imported once: each process of tests is forked.
PRELOADED = "numpy ml_dtypes pydantic httpx2 hypothesis fastapi httptools uvicorn llvmlite.binding"

_FORKS = get_context("forkserver")
_FORKS.set_forkserver_preload([__name__, *PRELOADED.split()])
#: CPython's flag of the code of functions, which that of modules and classes lacks.
_IS_FUNCTION = 0x1


class Order:
    """The order in which tests are run: those that ran the changed line first, by their time.

    It is learnt from a run of the module as it is. The other tests of a file follow, because no
    trace shows what is cached, or in another process; files that ran nothing of the module do not,
    unless the line runs when it is imported: they may read what it made.
    """

    def __init__(self, runs: dict[str, tuple[float, list[int]]] | None = None) -> None:
        #: By test: the seconds that it took, and the lines of the module that it ran.
        self.runs = runs or {}
        self._files = {_file(test) for test, (_, lines) in self.runs.items() if lines}

    def tests(self, line: int) -> dict[str, int]:
        """The place of each test in a run for a mutant whose change is on this line."""
        is_imported = not any(line in lines for _, lines in self.runs.values())
        keys = {
            test: (line not in lines, took)
            for test, (took, lines) in self.runs.items()
            if is_imported or _file(test) in self._files
        }
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
        self._opened: tuple[Path, Path, list[Path], Connection, Any] | None = None

    def open(self, module: Path, tests: list[Path]) -> None:
        """Collect ``tests``, to judge mutants of ``module``, unless that is done.

        On return they are collected: with the module as it is, before a mutant is in its place.
        """
        if self._opened is not None and self._opened[0] == module:
            return
        self.close()
        near, far = _FORKS.Pipe()
        file = self.folder / module
        process = _FORKS.Process(target=_collect, args=(self.folder, tests, file, far))
        process.start()
        far.close()
        self._opened = module, file, tests, near, process
        self._hear(near)

    def close(self) -> None:
        if self._opened is not None:
            *_, connection, process = self._opened
            connection.close()
            process.join()
            self._opened = None

    def trace(self, modules: list[Path]) -> dict[Path, Order]:
        """The orders that a run with the modules as they are suggests. It may fail: it is slow."""
        assert self._opened is not None
        files = [str(self.folder / module) for module in modules]
        process = _FORKS.Process(target=_trace, args=(self.folder, self._opened[2], files))
        process.start()
        process.join()
        traced = json.loads((self.folder / "traced").read_text())
        orders = {}
        for module in modules:
            file = str(self.folder / module)
            orders[module] = Order(
                {test: (took, lines.get(file, [])) for test, (took, lines) in traced.items()}
            )
        return orders

    def judge(self, mutant: Mutant, places: dict[str, int], limit: float | None = None) -> str:
        """``survived``, ``killed``, or ``timeout`` after ``limit`` seconds."""
        assert self._opened is not None
        module, file, tests, *_ = self._opened
        file.write_text(mutant.text)
        # Bytecode is known by its source's time, in whole seconds.
        self._mtime += 1
        os.utime(file, (self._mtime, self._mtime))
        try:
            verdict = self._ask(mutant, places, limit)
            if verdict != "not in a function":
                return verdict
            files = {(ROOT / _file(test)).resolve() for test in places}
            near, far = _FORKS.Pipe()
            selected = [test for test in tests if not files or test in files]
            process = _FORKS.Process(target=_test, args=(self.folder, selected, places, far))
            process.start()
            far.close()
            return _verdict(near, process.pid or 0, limit, process.join)
        finally:
            shutil.copy2(ROOT / module, file)

    def _ask(self, mutant: Mutant, places: dict[str, int], limit: float | None) -> str:
        assert self._opened is not None
        *_, connection, _ = self._opened
        connection.send((mutant, places, limit))
        return self._hear(connection)

    def _hear(self, connection: Connection) -> str:
        """The next word of the process that collects tests."""
        try:
            return str(connection.recv())
        except EOFError:
            sys.exit(f"{self.log.read_text()}\nthe tests were not collected")


def _file(test: str) -> str:
    return test.partition("::")[0]


def _verdict(near: Connection, group: int, limit: float | None, join: Any) -> str:
    """What a process that leads a group says within a limit; ends the group."""
    is_late = not near.poll(limit)
    try:
        verdict = "timeout" if is_late else str(near.recv())
    except EOFError:
        verdict = "killed"  # with its process
    with contextlib.suppress(ProcessLookupError):
        os.killpg(group, signal.SIGKILL)  # with all that the tests have started
    join()
    near.close()
    return verdict


def _sort(items: list[pytest.Item], places: dict[str, int]) -> None:
    """Leave the tests of the files that have places, in their order; new tests are first."""
    files = {_file(test) for test in places}
    items[:] = [item for item in items if not files or _file(item.nodeid) in files]
    items.sort(key=lambda item: places.get(item.nodeid, 0))


class _Sorting:
    """The plugin that sorts tests."""

    def __init__(self, places: dict[str, int]) -> None:
        self._places = places

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        _sort(items, self._places)


class _Tracing:
    """The plugin that notes which lines of some files each test runs."""

    def __init__(self, files: list[str]) -> None:
        self._files = files
        #: By file, what was run since the last test began.
        self.lines: dict[str, set[int]] = {}
        self.runs: dict[str, tuple[float, dict[str, list[int]]]] = {}
        threading.settrace(self._enter)
        sys.settrace(self._enter)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        self.lines = {}
        began = time.monotonic()
        sys.settrace(self._enter)
        try:
            return (yield)
        finally:
            sys.settrace(None)
            lines = {file: sorted(lines) for file, lines in self.lines.items()}
            self.runs[item.nodeid] = time.monotonic() - began, lines

    def _enter(self, frame: FrameType, event: str, arg: Any) -> Any:
        return self._visit if frame.f_code.co_filename in self._files else None

    def leave(self, frame: FrameType, event: str, arg: Any) -> None:
        """Trace nothing further in a thread."""

    def _visit(self, frame: FrameType, event: str, arg: Any) -> Any:
        self.lines.setdefault(frame.f_code.co_filename, set()).add(frame.f_lineno)
        return self._visit


class _Forking:
    """The plugin that forks once the tests are collected, for each mutant."""

    def __init__(self, folder: Path, file: Path, asked: Connection) -> None:
        self._folder, self._file, self._asked = folder, str(file), asked
        self._text = file.read_text()
        #: Where a run says how it ended; None in the process that is forked.
        self.told: Connection | None = None
        self._collecting = _Tracing([self._file])

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool | None:
        sys.settrace(None)
        threading.settrace(self._collecting.leave)
        imported = self._collecting.lines.get(self._file, set())
        # A fork has no other thread, and would wait for it.
        is_alone = threading.active_count() == 1
        functions = [
            each
            for each in gc.get_objects()
            if type(each) is FunctionType and each.__code__.co_filename == self._file
        ]
        self._asked.send("collected")
        while True:
            try:
                mutant, places, limit = self._asked.recv()
            except EOFError:
                return True
            changed = _changed_code(self._text, mutant, functions, imported) if is_alone else {}
            if not changed:
                self._asked.send("not in a function")
                continue
            near, far = _FORKS.Pipe(duplex=False)
            if run := os.fork():
                far.close()
                self._asked.send(_verdict(near, run, limit, lambda run=run: os.waitpid(run, 0)))
                continue
            os.setsid()
            _write(self._folder / "log")
            self.told = far
            session.config.option.maxfail = 1
            for function in functions:
                function.__code__ = changed.get(function.__code__, function.__code__)
            _sort(session.items, places)
            return None


def _changed_code(
    text: str, mutant: Mutant, functions: list[FunctionType], imported: set[int]
) -> dict[CodeType, CodeType]:
    """The code that ``mutant`` gives to one of ``functions``; empty if importing may notice it."""
    before, after = (dict(_code(compile(each, "", "exec"))) for each in (text, mutant.text))
    for name, code in before.items():
        lines = _lines(code) - {code.co_firstlineno}
        if not lines or not min(lines) <= mutant.line <= max(lines):
            continue
        place = code.co_qualname, code.co_firstlineno
        for each in (function.__code__ for function in functions):
            if (each.co_qualname, each.co_firstlineno) == place and not imported & lines:
                other = after.get(name)
                if other is not None and other.co_freevars == each.co_freevars:
                    return {each: other.replace(co_filename=each.co_filename)}
    return {}


def _code(code: CodeType) -> Iterator[tuple[tuple[str, int], CodeType]]:
    """The code of the functions of a module and its classes, by their names and places."""
    for place, inner in enumerate(code.co_consts):
        if isinstance(inner, CodeType):
            if inner.co_flags & _IS_FUNCTION:
                yield (inner.co_qualname, place), inner
            else:
                yield from _code(inner)


def _lines(code: CodeType) -> set[int]:
    """The lines of a function, and of those in it."""
    lines = {line for *_, line in code.co_lines() if line}
    return lines.union(*(_lines(each) for each in code.co_consts if isinstance(each, CodeType)))


def _collect(folder: Path, tests: list[Path], file: Path, asked: Connection) -> None:
    _enter(folder)
    plugin = _Forking(folder, file, asked)
    code = _run(tests, plugin)
    if plugin.told is not None:
        plugin.told.send("killed" if code else "survived")
    os._exit(0)


def _trace(folder: Path, tests: list[Path], files: list[str]) -> None:
    _enter(folder)
    plugin = _Tracing(files)
    _run(tests, plugin)
    (folder / "traced").write_text(json.dumps(plugin.runs))
    os._exit(0)


def _test(folder: Path, tests: list[Path], places: dict[str, int], told: Connection) -> None:
    _enter(folder)
    told.send("killed" if _run(tests, _Sorting(places), "-x") else "survived")
    os._exit(0)


def _enter(folder: Path) -> None:
    """Begin a group of processes that import the packages of ``folder``."""
    os.setsid()
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_LIMIT, MEMORY_LIMIT))
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    sys.dont_write_bytecode = False
    sys.path[:0] = paths = [str(folder / package) for package in PACKAGES]
    os.environ["PYTHONPATH"] = os.pathsep.join(paths)
    _write(folder / "log")


def _write(log: Path) -> None:
    with log.open("w") as file:
        os.dup2(file.fileno(), 1)
        os.dup2(file.fileno(), 2)


def _run(tests: list[Path], plugin: object, *options: str) -> int:
    fixed = ["-q", "--assert=plain", "-p", "no:cacheprovider", "--hypothesis-seed=0"]
    return int(pytest.main([*fixed, *options, *map(str, tests)], plugins=[plugin]))
