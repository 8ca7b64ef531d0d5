"""The table of exit codes on the page of the command line holds for every command."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from support.command_line import command, good

ROOT = Path(__file__).parents[3]
NOWHERE = "http://127.0.0.1:9"
#: Command lines that are right, in a folder of files.
RIGHT = {
    "round": ("round", "x.npy", "out.npy"),
    "execute": ("execute", "--descriptor", "d.json", "x.bin", "out.bin"),
    "operators": ("operators",),
    "conformance": ("conformance",),
    "ping": ("ping",),
    "doctor": ("doctor",),
    "specs": ("specs",),
    "verify": ("verify", "python:mine:right", "--dtype", "float16", "--rounding", "ties_to_even"),
    "compare": ("compare", "x.npy"),
}
#: Those that ask a service.
ASKING = ("round", "execute", "operators", "conformance", "ping", "doctor")
#: Further command lines that end with 1 or 2, and why.
OTHERS: dict[str, tuple[int, tuple[str, ...]]] = {
    "unwritable-report": (1, (*RIGHT["verify"], "--junit", ".")),
    "unwritable-array": (1, ("round", "x.npy", "/proc/out.npy", "--url", "local:")),
    "unwritable-bytes": (1, ("execute", "--descriptor", "d.json", "x.bin", "/proc/out.bin",
                             "--url", "local:")),
    "no-specification": (2, ("specs", "nothing")),
    "not-that-long": (2, ("execute", "--descriptor", "d.json", "x.npy", "out.bin",
                          "--url", "local:")),
}  # fmt: skip

both = pytest.mark.parametrize("report", [(), ("--json",)], ids=["text", "json"])


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    np.save("x.npy", np.array([0.5, -2.5], np.float32))
    np.array([0.5, -2.5], "<f4").tofile("x.bin")
    Path("d.json").write_text('{"dialect": "ieee754", "input": {"dtype": "float32", "shape": [2]}}')
    Path("mine.py").write_text("from numpy import rint as right")
    return tmp_path


def code(*arguments: str) -> int:
    done = command(*arguments, url=NOWHERE)
    assert b"Traceback" not in done.stderr
    if "--json" in arguments and done.returncode == 2:
        assert set(json.loads(done.stderr)) == {"error"}
    return done.returncode


def test_every_command_is_tried() -> None:
    listed = re.findall(r"^│ (\w+) ", command("--help").stdout.decode(), re.M)
    assert set(listed) == set(RIGHT)


def test_the_page_has_these_codes() -> None:
    table = (ROOT / "docs/cli.md").read_text().partition("| exit code | meaning |")[2]
    assert re.findall(r"^\| (\d+) \|", table, re.M) == ["0", "1", "2", "130"]


@both
@pytest.mark.parametrize("name", RIGHT)
@pytest.mark.usefixtures("folder")
def test_0_when_done_1_without_the_service_and_2_for_an_option_that_it_has_not(
    name: str, report: tuple[str, ...]
) -> None:
    assert code(*RIGHT[name], *report) == (1 if name in ASKING else 0)
    assert code(*RIGHT[name], *report, "--loud") == 2


@both
@pytest.mark.parametrize(("want", "arguments"), OTHERS.values(), ids=OTHERS)
@pytest.mark.usefixtures("folder")
def test_the_same_cause_has_the_same_code(
    want: int, arguments: tuple[str, ...], report: tuple[str, ...]
) -> None:
    assert code(*arguments, *report) == want


@pytest.mark.parametrize(
    ("name", "says"), [("round", "rounding"), ("compare", "comparing"), ("verify", "verifying")]
)
@pytest.mark.usefixtures("folder")
def test_progress_bar_is_shown_when_asked_for_alone(name: str, says: str) -> None:
    assert says in good(*RIGHT[name], "--progress", url="local:").stderr.decode()
    assert says not in good(*RIGHT[name], url="local:").stderr.decode()


@both
def test_130_after_ctrl_c(folder: Path, report: tuple[str, ...]) -> None:
    program = folder / "slow.sh"
    program.write_text(f"#!/bin/sh\ntouch {folder}/running\nexec sleep 60\n")
    program.chmod(0o755)
    arguments = ["verify", f"cmd:{program}", "--dtype", "float16", *report]
    with subprocess.Popen(
        [sys.executable, "-m", "tensor_round", *arguments],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env={**os.environ, "NO_COLOR": "1"},
    ) as process:
        while not (folder / "running").exists():
            assert process.poll() is None
            time.sleep(0.02)
        process.send_signal(signal.SIGINT)
        assert process.wait(30) == 130


def test_130_after_ctrl_c_while_it_starts(folder: Path) -> None:
    with subprocess.Popen(
        [sys.executable, "-X", "importtime", "-m", "tensor_round", *RIGHT["compare"]],
        stderr=subprocess.PIPE,
        text=True,
        cwd=folder,
    ) as process:
        assert process.stderr is not None
        # Its imports take most of the time before the command.
        assert any(line.split()[-1:] == ["typer"] for line in process.stderr)
        process.send_signal(signal.SIGINT)
        rest = process.stderr.read()
        assert process.wait(30) == 130
        assert "Traceback" not in rest
