"""What tests cost: seconds of wall and of cores, those of the processes that they start included.

``make test ARGS=--account`` prints them by folder and by test.
"""

from __future__ import annotations

import contextlib
import os
from collections import defaultdict
from collections.abc import Generator
from pathlib import PurePath

import pytest

_TICKS = os.sysconf("SC_CLK_TCK")
#: Rows of each table.
_ROWS = 60


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--account", action="store_true", help="print what each test and folder costs")


def pytest_configure(config: pytest.Config) -> None:
    if config.getoption("account"):
        config.pluginmanager.register(_Account())


class _Account:
    """Measures each phase of a test, and prints the tables where the reports come together."""

    _before = 0.0

    def pytest_runtest_logstart(self) -> None:
        """Leave out what was spent between tests: imports, collection."""
        self._before = _core_seconds()

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(self) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        report = yield
        now = _core_seconds()
        report.user_properties.append(("core", now - self._before))
        self._before = now
        return report

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        for title, depth in ("folder", 3), ("test", None):
            cost: defaultdict[str, list[float]] = defaultdict(lambda: [0.0, 0.0])
            for reports in terminalreporter.stats.values():
                for report in reports:
                    if isinstance(report, pytest.TestReport):
                        folder = PurePath(report.location[0]).parent.parts[:depth]
                        row = cost["/".join(folder) if depth else report.nodeid]
                        row[0] += dict(report.user_properties)["core"]
                        row[1] += report.duration
            rows = sorted(cost.items(), key=lambda row: row[1], reverse=True)
            terminalreporter.write_line(f"\n{'core s':>8} {'wall s':>8}  {title}")
            for name, (core, wall) in rows[:_ROWS]:
                terminalreporter.write_line(f"{core:8.1f} {wall:8.1f}  {name}")


def _core_seconds() -> float:
    """Of this process, of all below it, and of those that have ended there."""
    ticks, waiting = 0, [os.getpid()]
    while waiting:
        pid = waiting.pop()
        with contextlib.suppress(OSError):  # it has ended meanwhile
            with open(f"/proc/{pid}/stat", "rb") as file:
                fields = file.read().rpartition(b")")[2].split()
            ticks += sum(map(int, fields[11:15]))
            for thread in os.listdir(f"/proc/{pid}/task"):
                with open(f"/proc/{pid}/task/{thread}/children", "rb") as file:
                    waiting += map(int, file.read().split())
    return ticks / _TICKS
