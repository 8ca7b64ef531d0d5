"""Progress on stderr: a line that is drawn again on a terminal, lines of their own in a log."""

from __future__ import annotations

import io
from types import SimpleNamespace

import pytest

from tensor_round.contract import progress
from tensor_round.contract.progress import counted


def test_a_function_receives_the_done_and_the_whole() -> None:
    told: list[tuple[int, int]] = []

    def report(done: int, total: int) -> None:
        told.append((done, total))

    with counted(report, 100) as add:
        add(30)
        add(40)
    assert told == [(0, 100), (30, 100), (70, 100)]


class Terminal(io.StringIO):
    """What is on a screen is what was flushed; ``now`` is the time there."""

    screen = ""
    is_terminal = False
    now = 1000.0

    def isatty(self) -> bool:
        return self.is_terminal

    def flush(self) -> None:
        self.screen = self.getvalue()

    def monotonic(self) -> float:
        return self.now


@pytest.fixture
def stderr(monkeypatch: pytest.MonkeyPatch) -> Terminal:
    terminal = Terminal()
    monkeypatch.setattr(progress, "sys", SimpleNamespace(stderr=terminal))
    monkeypatch.setattr(progress, "time", terminal)
    return terminal


def test_a_terminal_is_drawn_ten_times_a_second_at_most(stderr: Terminal) -> None:
    stderr.is_terminal = True
    with counted(True, 8 << 20, "reading") as add:
        assert stderr.screen == "\rreading   0 %, 0.0 of 8.0 MiB, 0.0 MiB/s  "
        stderr.now += 0.0625
        add(1 << 20)
        assert stderr.screen.count("\r") == 1
        stderr.now += 0.0625
        add(1 << 20)
        assert stderr.screen.endswith("\rreading  25 %, 2.0 of 8.0 MiB, 16.0 MiB/s  ")
        stderr.now += 0.125
    assert stderr.getvalue().endswith("\rreading  25 %, 2.0 of 8.0 MiB, 8.0 MiB/s  \n")


def test_a_log_is_written_every_ten_seconds(stderr: Terminal) -> None:
    with counted(True, 4 << 20) as add:
        assert stderr.screen == ""
        stderr.now += 9.5
        add(1 << 20)
        assert stderr.screen == ""
        stderr.now += 0.5
        add(1 << 20)
        assert stderr.screen == "rounding  50 %, 2.0 of 4.0 MiB, 0.2 MiB/s\n"
    assert stderr.screen.splitlines()[1:] == ["rounding  50 %, 2.0 of 4.0 MiB, 0.2 MiB/s"]


@pytest.mark.parametrize(("total", "of"), [(0, "0.0 of 0.0 B"), (1024, "1.0 of 1.0 KiB")])
def test_the_bar_shows_all_bytes_after_a_single_step(stderr: Terminal, total: int, of: str) -> None:
    with counted(True, total) as add:
        add(total)
    assert stderr.screen.startswith(f"rounding 100 %, {of}, ")
