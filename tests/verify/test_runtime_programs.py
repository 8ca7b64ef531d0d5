"""Programs as runtimes: what they are given, and what keeps them from a verdict."""

from __future__ import annotations

import os
import shutil
import signal
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from support.verifying import why_not
from tensor_round_verify import (
    FLOATS,
    ROUNDINGS,
    verify,
)
from tensor_round_verify.reference import rounded
from tensor_round_verify.runtimes import open_runtime

#: A program that has the results of all patterns of 16 bits beside it, in a file that is named by
#: the type and the direction. It is run some fifty times, and imports nothing that takes long.
TABLE = """
import array, pathlib, sys

results = pathlib.Path(__file__).with_name("-".join(sys.argv[1:])).read_bytes()
of = array.array("H", results).__getitem__
x = array.array("H", sys.stdin.buffer.read())
sys.stdout.buffer.write(array.array("H", map(of, x)).tobytes())
"""
#: A program that rounds float32 half away from zero.
AWAY = """
import sys
import numpy as np

x = np.frombuffer(sys.stdin.buffer.read(), "<f4")
with np.errstate(invalid="ignore"):
    whole = np.trunc(x)
    is_far = np.abs(x - whole) >= 0.5
sys.stdout.buffer.write(np.where(is_far, whole + np.copysign(np.float32(1), x), whole).tobytes())
"""


def program(folder: Path, code: str) -> str:
    path = folder / "kernel.py"
    path.write_text(code)
    return f"cmd:{sys.executable} {path}"


@pytest.mark.slow
def test_a_right_program_is_right_in_every_direction(tmp_path: Path) -> None:
    runtime = program(tmp_path, TABLE) + " {dtype} {rounding}"
    patterns = np.arange(1 << 16, dtype=np.uint16)
    for rounding in ROUNDINGS:
        (tmp_path / f"float16-{rounding}").write_bytes(rounded(patterns, "float16", rounding))
    report = verify(runtime, dtypes=["float16"], timeout=30)
    assert report.right
    assert [verdict.pair for verdict in report.verdicts] == [
        ("float16", rounding) for rounding in ROUNDINGS
    ]
    assert open_runtime(runtime).dtypes == tuple(FLOATS)


@pytest.mark.slow
def test_a_program_without_placeholders_rounds_float32_ties_to_even(tmp_path: Path) -> None:
    report = verify(program(tmp_path, AWAY), timeout=30)
    (verdict,) = report.verdicts
    assert verdict.pair == ("float32", "ties_to_even")
    assert str(verdict.explanation) == "this is half away from zero"


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("node") is None, reason="Node is not installed")
def test_javascripts_math_round(tmp_path: Path) -> None:
    """A runtime of the language whose rule the model is named after."""
    (tmp_path / "kernel.mjs").write_text(
        "import { readFileSync, writeSync } from 'node:fs';\n"
        "const given = readFileSync(0);\n"
        "const end = given.byteOffset + given.length;\n"
        "const x = new Float64Array(given.buffer.slice(given.byteOffset, end));\n"
        "const y = new Uint8Array(x.map(Math.round).buffer);\n"
        "for (let at = 0; at < y.length; ) at += writeSync(1, y, at);\n"
    )
    (verdict,) = verify(f"cmd:node {tmp_path}/kernel.mjs", dtypes=["float64"], nans="any").verdicts
    assert [model.name for model in verdict.explanation.models] == ["half toward +infinity"]


@pytest.mark.parametrize(
    ("code", "why"),
    [
        ("import sys; sys.stdin.buffer.read(); print('done')", "wrote 5 bytes for 131,072"),
        ("import sys; sys.stdin.buffer.read()", "wrote 0 bytes for 131,072"),
        ("import sys; sys.exit('no such type')", "ended with exit code 1: no such type"),
        (r"import sys; sys.exit('\033[31mred\007')", "ended with exit code 1: [31mred"),
        ("import os; os.abort()", "was ended by SIGABRT"),
        ("import time; time.sleep(100)", "was not done after 2 s"),
        ("import sys\nwhile True: sys.stdout.write('x' * 65536)", "wrote more than 131,072 bytes"),
        ("import os, time; os.close(1); time.sleep(100)", "was not done after 2 s"),
    ],
    ids=[
        "few-bytes",
        "no-bytes",
        "exit-code",
        "control-characters",
        "abort",
        "hangs",
        "writes-without-end",
        "hangs-at-its-end",
    ],
)
def test_a_program_that_fails_gets_no_verdict(tmp_path: Path, code: str, why: str) -> None:
    seconds = 2 if "not done" in why else 60
    began = time.monotonic()
    assert why in why_not(program(tmp_path, code), dtypes=["float16"], timeout=seconds)
    assert time.monotonic() - began < 50  # half of what those take that hang


@pytest.mark.slow
@pytest.mark.skipif(os.name != "posix", reason="sessions are POSIX's")
@pytest.mark.parametrize("waits", [True, False], ids=["waits", "ends"])
def test_a_child_with_a_session_of_its_own_delays_no_end(tmp_path: Path, waits: bool) -> None:
    """It is not in the program's group, and has the pipe."""
    pid_file = tmp_path / "pid"
    code = (
        "import pathlib, subprocess, sys\n"
        "child = subprocess.Popen(['sleep', '600'], start_new_session=True)\n"
        f"pathlib.Path({str(pid_file)!r}).write_text(str(child.pid))\n"
        f"{'child.wait()' if waits else ''}\n"
    )
    assert "was not done after 3 s" in why_not(
        program(tmp_path, code), dtypes=["float16"], timeout=3
    )
    os.kill(int(pid_file.read_text()), signal.SIGKILL)  # it is there still


@pytest.mark.skipif(os.name != "posix", reason="process groups are POSIX's")
def test_a_program_that_hangs_leaves_no_process_behind(tmp_path: Path) -> None:
    pid_file = tmp_path / "pid"
    code = (
        "import pathlib, subprocess, sys\n"
        "child = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(100)'])\n"
        f"pathlib.Path({str(pid_file)!r}).write_text(str(child.pid))\n"
        "child.wait()\n"
    )
    why_not(program(tmp_path, code), dtypes=["float16"], timeout=3)
    child = Path("/proc") / pid_file.read_text()
    ends = time.monotonic() + 10
    while child.exists() and "Z" not in (child / "stat").read_text().split(")")[1][:3]:
        assert time.monotonic() < ends, "the program's child is still there"
        time.sleep(0.05)
