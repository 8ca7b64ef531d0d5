"""``tensor-round verify`` as people call it: exit codes, what it says, and to whom."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from support.command_line import said
from support.services.server import Service

KERNELS = """
import numpy as np
from tensor_round_verify import rounded

def right(x):
    bits = x.view(f"u{x.dtype.itemsize}")
    return rounded(bits, x.dtype.name, "ties_to_even").view(x.dtype)

def away(x):
    y = np.trunc(x + np.copysign(x.dtype.type(0.5), x))
    return np.where(np.isnan(x), x.view("u2"), y.view("u2")).view(x.dtype)

def tail(x):
    y = right(x)
    rest = x.size % 8 if x.ndim == 1 else 0
    y[x.size - rest:] = x[x.size - rest:]
    return y

def wide(x):
    return np.rint(x.astype("f8"))

def chatty(x):
    print("rounding", x.size)
    return right(x)

def hangs(x):
    while True:
        pass

def one_wrong(x):
    y = right(x)
    y[x == 2.5] = 3
    return y
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("kernels")
    (path / "kernels.py").write_text(KERNELS)
    (path / "script.py").write_text("import sys; sys.exit(0)")
    return path


def run(folder: Path, *arguments: object) -> subprocess.CompletedProcess[str]:
    return said("verify", *arguments, folder=folder)


AWAY = ("python:kernels:away", "--dtype", "float16", "--rounding", "ties_to_away")


def test_a_right_function_is_silent_and_0(folder: Path) -> None:
    done = run(folder, "python:kernels:right", "--dtype", "float16", "--dtype", "float32")
    assert (done.returncode, done.stdout) == (0, "")
    assert done.stderr == "python:kernels:right: 1,128,214 results, right\n"


def test_a_fault_is_counted_shown_and_named(folder: Path) -> None:
    done = run(folder, *AWAY)
    assert done.returncode == 1
    assert done.stdout == (
        "python:kernels:away\n\n"
        "dtype    patterns tried  wrong in ties_to_away\n"
        "float16          65,536                  1,026\n\n"
        "float16 ties_to_away: 1,026 of 65,536 wrong: 2 of 1,024 numbers next below a tie "
        "(off by one), all 1,024 odd integers from 2^10 to 2^11 (off by one); "
        "this is trunc(x + copysign(0.5, x)).\n"
        "  x 0.4998 (0x37ff): got 1.0 (0x3c00), want 0.0 (0x0000)\n"
        "  x 1025.0 (0x6401): got 1026.0 (0x6402), want 1025.0 (0x6401)\n"
    )
    assert done.stderr == "python:kernels:away: 65,536 results, 1,026 wrong\n"


def test_nans_may_come_back_quiet(folder: Path) -> None:
    arguments = ("numpy", "--dtype", "float32", "--rounding", "ties_to_even")
    told = run(folder, *arguments)
    assert (told.returncode, told.stdout) == (0, "")
    assert told.stderr.endswith(
        "1,062,678 results, every number is right; NaNs are quieted, as IEEE 754 permits\n"
    )
    assert run(folder, *arguments, "--nans", "bits").returncode == 1
    assert run(folder, *arguments, "--nans", "quiet").returncode == 0
    assert run(folder, *arguments, "--nans", "any").returncode == 0


def test_a_fault_of_calls_is_told_and_1(folder: Path) -> None:
    done = run(folder, "python:kernels:tail", "--dtype", "float16")
    assert done.returncode == 1
    assert (
        "float16 ties_to_even: every pattern is right, but the last 3 of 11 elements are not "
        "rounded, and so behind the last multiple of 8 at every length.\n  x "
    ) in done.stdout
    assert done.stderr == "python:kernels:tail: 65,536 results, 0 wrong, 1 call error\n"


def test_a_report_as_json_is_the_baseline_of_the_next_run(folder: Path, tmp_path: Path) -> None:
    first = run(folder, *AWAY, "--json")
    assert first.returncode == 1
    report = json.loads(first.stdout)
    assert report["right"] is False
    assert report["verdicts"][0]["models"] == ["trunc(x + copysign(0.5, x))"]
    assert [row["rounding"] for row in report["complaints"]] == ["ties_to_away"]
    faults = tmp_path / "faults.json"
    faults.write_text(first.stdout)

    again = run(folder, *AWAY, "--baseline", faults)
    assert (again.returncode, again.stdout) == (0, "")
    assert again.stderr.endswith(f"65,536 results, 1,026 wrong, as in {faults}\n")

    options = ("--dtype", "float16", "--baseline", faults)
    other = run(folder, "python:kernels:one_wrong", *options)
    assert other.returncode == 1
    assert f"not as in {faults}:\n  float16 ties_to_even: not in the baseline: 1 of" in other.stdout


def test_fixed_error_fails_until_the_baseline_is_written_anew(folder: Path, tmp_path: Path) -> None:
    faults = tmp_path / "faults.json"
    wrong = run(folder, "python:kernels:one_wrong", "--dtype", "float16", "--json")
    faults.write_text(wrong.stdout)
    options = ("python:kernels:right", "--dtype", "float16")
    mended = run(folder, *options, "--baseline", faults)
    assert mended.returncode == 1
    assert "float16 ties_to_even: fixed: 1 wrong in the baseline, none now" in mended.stdout
    as_json = run(folder, *options, "--baseline", faults, "--json")
    assert as_json.returncode == 1
    assert json.loads(as_json.stdout)["complaints"][0]["complaint"].startswith("fixed")


def test_junit_is_written_whether_right_or_wrong(folder: Path, tmp_path: Path) -> None:
    for arguments, failures in ((AWAY, "1"), (("python:kernels:right", *AWAY[1:3]), "0")):
        path = tmp_path / f"{failures}.xml"
        assert run(folder, *arguments, "--junit", path).returncode == int(failures)
        suite = ElementTree.parse(path).find("testsuite")
        assert suite is not None
        assert (suite.get("tests"), suite.get("failures")) == ("1", failures)


NO_VERDICT: dict[str, tuple[list[str], str]] = {
    "unknown": (["nothing"], 'runtime: got "nothing"; accepted: '),
    "other-bytes": (["python:kernels:wide", "--dtype", "float16"], "returned float64 of shape"),
    "no-function": (["python:kernels:none"], "kernels has no function none"),
    "no-module": (["python:none:none"], "none cannot be imported: ModuleNotFoundError"),
    "script": (["python:script:main"], "script cannot be imported: SystemExit: 0"),
    "dies": ([f"cmd:{sys.executable} -c exit(3)"], "ended with exit code 3"),
    "hangs": (
        [f"cmd:{sys.executable} -c 'while True: pass'", "--timeout", "1"],
        "was not done after 1 s",
    ),
    "function-hangs": (["python:kernels:hangs", "--timeout", "1"], "was not done after 1 s"),
    "few-bytes": ([f"cmd:{sys.executable} -c 'print(1)'"], "wrote 2 bytes for"),
    "lacks-the-type": (["numpy", "--dtype", "int8"], "no verdict on int8"),
    "lacks-the-direction": (["numpy", "--rounding", "ties_to_away"], "no verdict on ties_to_away"),
    "no-service": (["service:http://127.0.0.1:1"], "service:http://127.0.0.1:1: "),
    "no-baseline": (["numpy", "--baseline", "none.json"], "none.json: No such file"),
    "not-a-baseline": (["numpy", "--baseline", "kernels.py"], "kernels.py is not JSON"),
    "no-folder": (["numpy", "--junit", "none/junit.xml"], "there is no folder none"),
}


@pytest.mark.slow
@pytest.mark.parametrize(("arguments", "why"), NO_VERDICT.values(), ids=NO_VERDICT)
def test_bad_input_is_one_line_and_2(folder: Path, arguments: list[str], why: str) -> None:
    done = run(folder, *arguments)
    assert (done.returncode, done.stdout) == (2, "")
    assert why in done.stderr
    assert done.stderr.count("\n") == 1
    as_json = run(folder, *arguments, "--json")
    assert as_json.returncode == 2
    assert why in json.loads(as_json.stderr)["error"]["detail"]


def test_output_of_a_function_is_not_in_the_report(folder: Path) -> None:
    done = run(folder, "python:kernels:chatty", "--dtype", "float16", "--json")
    assert done.returncode == 0
    assert json.loads(done.stdout)["right"] is True
    assert "rounding 65536" in done.stderr


@pytest.mark.slow
def test_a_real_service_is_right(folder: Path, service: Service) -> None:
    done = run(folder, f"service:{service.url}", "--dtype", "float16", "--dtype", "float32")
    assert (done.returncode, done.stdout) == (0, ""), done.stderr


def test_help_lists_the_runtimes(folder: Path) -> None:
    text: Any = run(folder, "--help").stdout
    for name in ("onnxruntime[:PROVIDER]", "cmd:PROGRAM", "python:MODULE:FUNCTION", "service:URL"):
        assert name in text.replace("\n", " ")
