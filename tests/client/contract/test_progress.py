"""Progress on stderr: a line that is drawn again on a terminal, lines of their own in a log."""

from __future__ import annotations

import os
import pty
import sys

import pytest

from tensor_round.contract import progress
from tensor_round.contract.progress import amount, counted


def shown(total: int) -> None:
    with counted(True, total) as add:
        for _ in range(3):
            add(total // 4)


def test_a_log_gets_a_line_now_and_then(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(progress, "LOG_SECONDS", 0.0)
    shown(4 << 20)
    lines = capsys.readouterr().err.splitlines()
    assert [line[:14] for line in lines] == [f"rounding {part:3} %" for part in (0, 25, 50, 75, 75)]
    assert "3.0 of 4.0 MiB" in lines[-1]


def test_a_log_gets_its_last_line_alone_before(capsys: pytest.CaptureFixture[str]) -> None:
    shown(4 << 20)
    assert capsys.readouterr().err.count("\n") == 1


def test_a_terminal_has_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    ours, theirs = pty.openpty()
    with open(theirs, "w") as terminal:
        monkeypatch.setattr(sys, "stderr", terminal)
        shown(4 << 20)
        text = b""
        while not text.endswith(b"\n"):  # a terminal gives what was written in any pieces
            text += os.read(ours, 4096)
    os.close(ours)
    assert text.startswith(b"\rrounding")
    assert text.count(b"\n") == 1


@pytest.mark.parametrize(
    ("size", "text"),
    [(0, "0.0 B"), (2000, "2.0 KiB"), (6 << 30, "6.0 GiB"), (1.5 * 2**20, "1.5 MiB")],
)
def test_an_amount_has_its_unit(size: float, text: str) -> None:
    assert amount(size) == text
