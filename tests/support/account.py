"""What tests cost: seconds of wall and of cores, those of the processes that they start included.

``pytest -p support.account --account`` prints them by folder and by test: ``make test
ARGS=--account``.
"""

from __future__ import annotations

import contextlib
import os
from collections import defaultdict
from collections.abc import Generator
from pathlib import PurePath

import pytest

_TICKS = os.sysconf("SC_CLK_TCK")
#: Rows of the table of tests.
_ROWS = 60


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--account", action="store_true", help="print what each test and folder costs")


def core_seconds() -> float:
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


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    """Measure what a test, its fixtures included, adds."""
    if not item.config.getoption("account"):
        return (yield)
    before = core_seconds()
    try:
        return (yield)
    finally:
        # The reports have gone: the next test's has it.
        _LEFT.append((item.nodeid, core_seconds() - before))


_LEFT: list[tuple[str, float]] = []


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item,
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    while _LEFT:
        report.user_properties.append(("core", _LEFT.pop()))
    return report


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print the tables; the last test of each process is not in them."""
    if not terminalreporter.config.getoption("account"):
        return
    wall: defaultdict[str, float] = defaultdict(float)
    core: defaultdict[str, float] = defaultdict(float)
    for reports in terminalreporter.stats.values():
        for report in reports:
            if isinstance(report, pytest.TestReport):
                wall[report.nodeid] += report.duration
                for name, value in report.user_properties:
                    if name == "core":
                        core[value[0]] += value[1]
                report.user_properties.clear()
    _table(terminalreporter, "folder", _by_folder(wall), _by_folder(core))
    _table(terminalreporter, "test", wall, core)


def _by_folder(seconds: dict[str, float]) -> dict[str, float]:
    found: defaultdict[str, float] = defaultdict(float)
    for test, each in seconds.items():
        found["/".join(PurePath(test.partition("::")[0]).parts[1:3])] += each
    return found


def _table(
    reporter: pytest.TerminalReporter, title: str, wall: dict[str, float], core: dict[str, float]
) -> None:
    reporter.write_line(f"\n{'core s':>8} {'wall s':>8}  {title}")
    reporter.write_line(f"{sum(core.values()):8.1f} {sum(wall.values()):8.1f}  all {len(wall):,}")
    for name in sorted(core, key=core.__getitem__, reverse=True)[:_ROWS]:
        reporter.write_line(f"{core[name]:8.1f} {wall.get(name, 0.0):8.1f}  {name}")
