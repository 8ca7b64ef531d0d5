"""``tensor-round verify``, of runtimes and of models: exit codes, what it says, and to whom."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest

from support.command_line import said
from support.forking import start
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

def always_even(x, rounding):
    return right(x)

def chatty(x):
    print("rounding", x.size)
    return right(x)

def one_wrong(x):
    y = right(x)
    y[x == 2.5] = 3
    return y
"""
MODEL = """{ // as DxDispatch has it
    "type": "DML_OPERATOR_ELEMENT_WISE_ROUND", "desc": {
        "InputTensor": {"DataType": "FLOAT32", "Sizes": [2, 3]},
        "OutputTensor": {"DataType": "FLOAT32", "Sizes": [2, 3]}, "RoundingMode": "MODE"}}"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("kernels")
    (path / "kernels.py").write_text(KERNELS)
    for mode in ("TOWARD_INFINITY", "TOWARD_ZERO"):
        (path / f"{mode}.json").write_text(MODEL.replace("MODE", mode))
    os.mkfifo(path / "pipe")
    np.savez(path / "x.npz", InputTensor=np.float32([[-2.5, -0.3, 0.5], [1.5, 2.5, 8388609]]))
    return path


def run(folder: Path, *arguments: object) -> subprocess.CompletedProcess[str]:
    return said("verify", *arguments, folder=folder)


RIGHT = ("python:kernels:right", "--dtype", "float16")
AWAY = ("python:kernels:away", "--dtype", "float16", "--rounding", "ties_to_away")
EVEN = ("numpy", "--dtype", "float32", "--rounding", "ties_to_even")
INPUT, NUMPY = ("--input", "x.npz"), ("--runtime", "numpy")
RIGHT_NODE, WRONG_NODE = (
    (f"{mode}.json", *INPUT, *NUMPY) for mode in ("TOWARD_ZERO", "TOWARD_INFINITY")
)


@pytest.mark.parametrize(
    ("arguments", "summary"),
    [
        ((*RIGHT, "--dtype", "bfloat16"), "python:kernels:right: 131,072 results, right\n"),
        (
            EVEN,
            f"numpy {np.__version__}: 1,062,678 results, every number is right; "
            "NaNs are quieted, as IEEE 754 permits\n",
        ),
    ],
    ids=["function", "runtime"],
)
def test_right_results_exit_with_0_and_print_a_summary_alone(
    folder: Path, arguments: tuple[str, ...], summary: str
) -> None:
    done = run(folder, *arguments)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", summary)


def test_every_judged_node_of_a_model_is_listed(folder: Path) -> None:
    done = run(folder, *RIGHT_NODE)
    shown = (
        "TOWARD_ZERO.json\n\n"
        "ELEMENT_WISE_ROUND: ELEMENT_WISE_ROUND TOWARD_ZERO of float32 [2, 3]\n"
        f"  numpy {np.__version__}, its own operator: 6 results, right\n"
    )
    summary = "TOWARD_ZERO.json: 1 node by 1 runtime, right\n"
    assert (done.returncode, done.stdout, done.stderr) == (0, shown, summary)


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no pseudo-terminals")
def test_a_terminal_of_80_columns_shows_whole_words_and_the_table_of_all_directions(
    folder: Path,
) -> None:
    import pty

    inner, terminal = pty.openpty()
    arguments = ["verify", "python:kernels:always_even", "--dtype", "float16"]
    with open(os.devnull, "r+b") as nothing:
        files = (nothing.fileno(), terminal, nothing.fileno())
        started = start("tensor_round", arguments, os.environ, files=files, folder=folder)
    os.close(terminal)
    shown = b""
    with os.fdopen(inner, "rb", buffering=0) as reader, contextlib.suppress(OSError):
        while data := reader.read(1 << 12):
            shown += data  # until the terminal has no other end: EIO
    assert started.wait(60) == 1
    lines = shown.decode().splitlines()
    assert max(map(len, lines)) <= 80
    assert lines[4].split() == ["dtype", "tried", "even", "away", "zero", "positive", "negative"]


#: What is shown, and the summary.
WRONG: dict[str, tuple[tuple[str, ...], str, str]] = {
    "function": (
        AWAY,
        "python:kernels:away\n\n"
        "dtype    patterns tried  wrong in ties_to_away\n"
        "float16          65,536                  1,026\n\n"
        "float16 ties_to_away: 1,026 of 65,536 wrong: 2 of 1,024 numbers next below a tie "
        "(off by one), 1,024 of 1,024 odd integers from 2^10 to 2^11 (off by one); "
        "this is trunc(x + copysign(0.5, x)).\n"
        "  x 0.4998 = 0x1.ffcp-2 (0x37ff): got 1.0 (0x3c00), want 0.0 (0x0000)\n",
        "python:kernels:away: 65,536 results, 1,026 wrong\n",
    ),
    "model": (
        WRONG_NODE,
        "TOWARD_INFINITY.json\n\n"
        "ELEMENT_WISE_ROUND: ELEMENT_WISE_ROUND TOWARD_INFINITY of float32 [2, 3]\n"
        f"  numpy {np.__version__}, its own operator: 3 of 6 wrong: 3 of 4 exact ties "
        "(off by one);\n"
        "    this is half to even; it has no ties_to_away, so its ties_to_even was run\n"
        "    [0, 0]: x -2.5 (0xc0200000): got -2.0 (0xc0000000), want -3.0 (0xc0400000)\n"
        "    [0, 2]: x 0.5 (0x3f000000): got 0.0 (0x00000000), want 1.0 (0x3f800000)\n"
        "    [1, 1]: x 2.5 (0x40200000): got 2.0 (0x40000000), want 3.0 (0x40400000)\n",
        "TOWARD_INFINITY.json: 1 node by 1 runtime, 1 of 1 checks failed\n",
    ),
}


@pytest.mark.parametrize(("arguments", "shown", "summary"), WRONG.values(), ids=WRONG)
def test_a_fault_is_counted_shown_named_and_1(
    folder: Path, arguments: tuple[str, ...], shown: str, summary: str
) -> None:
    done = run(folder, *arguments)
    assert (done.returncode, done.stdout, done.stderr) == (1, shown, summary)


def test_nans_have_to_come_back_as_asked_for(folder: Path) -> None:
    for nans, code in (("bits", 1), ("quiet", 0), ("any", 0)):
        assert run(folder, *EVEN, "--nans", nans).returncode == code


def test_a_fault_of_calls_is_told_and_1(folder: Path) -> None:
    done = run(folder, "python:kernels:tail", "--dtype", "float16")
    assert done.returncode == 1
    assert (
        "float16 ties_to_even: every pattern is right, but the elements after the last multiple of "
        "8 are not rounded: the last 3 of 11 elements.\n  x "
    ) in done.stdout
    assert done.stderr == "python:kernels:tail: 65,536 results, 0 wrong, 1 call error\n"


def test_a_report_as_json_is_the_baseline_of_the_next_run(folder: Path, tmp_path: Path) -> None:
    first = run(folder, *AWAY, "--json")
    assert first.returncode == 1
    report = json.loads(first.stdout)
    assert report["right"] is False
    assert report["verdicts"][0]["deviations"] == ["trunc(x + copysign(0.5, x))"]
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

    mended = run(folder, *RIGHT, "--rounding", "ties_to_away", "--baseline", faults, "--json")
    assert mended.returncode == 1
    assert json.loads(mended.stdout)["complaints"][0]["complaint"].startswith(
        "partly fixed: 1,026 wrong"
    )


def test_a_report_of_a_model_as_json_has_both_exit_codes(folder: Path) -> None:
    for arguments, code in ((RIGHT_NODE, 0), (WRONG_NODE, 1)):
        done = run(folder, *arguments, "--json")
        assert (done.returncode, done.stderr) == (code, "")
        report = json.loads(done.stdout)
        assert report["right"] is (code == 0)
        assert [row["node"] for row in report["verdicts"]] == ["ELEMENT_WISE_ROUND"]


def test_junit_is_written_whether_right_or_wrong(folder: Path, tmp_path: Path) -> None:
    for arguments, failures in ((AWAY, "1"), (RIGHT, "0")):
        path = tmp_path / f"{failures}.xml"
        assert run(folder, *arguments, "--junit", path).returncode == int(failures)
        suite = ElementTree.parse(path).find("testsuite")
        assert suite is not None
        assert (suite.get("tests"), suite.get("failures")) == ("1", failures)


def test_junit_that_nobody_reads_is_given_up(folder: Path) -> None:
    done = run(folder, *RIGHT, "--junit", "pipe", "--timeout", "5")
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.endswith("tensor-round: pipe: nobody read it within 5 s\n")


NO_VERDICT: dict[str, tuple[tuple[str, ...], str]] = {
    "unknown": (("nothing",), 'runtime: got "nothing"; accepted: '),
    "hangs": (
        (f"cmd:{sys.executable} -c 'while True: pass'", "--timeout", "1"),
        "did not finish within 1 s",
    ),
    "lacks-the-type": (("numpy", "--dtype", "int8"), "no verdict on int8"),
    "no-baseline": (("numpy", "--baseline", "none.json"), "none.json: No such file"),
    "not-a-baseline": (("numpy", "--baseline", "kernels.py"), "kernels.py is not JSON"),
    "endless-baseline": (
        ("numpy", "--baseline", "pipe", "--timeout", "0.1"),
        "pipe did not end within 0.1 s",
    ),
    "no-folder": (("numpy", "--junit", "none/junit.xml"), "there is no folder none"),
    "no-input": (
        ("TOWARD_ZERO.json", *NUMPY),
        "tensor-round verify TOWARD_ZERO.json --input x.npz --runtime onnxruntime",
    ),
    "no-runtime": (
        ("TOWARD_ZERO.json", *INPUT),
        "and runtimes: tensor-round verify TOWARD_ZERO.json --input x.npz",
    ),
    "for-a-runtime": (
        (*RIGHT_NODE, "--every"),
        "--every: is for a runtime; a model has its own nodes",
    ),
    "no-scale": ((*RIGHT_NODE, "--scale", "ceil"), "--scale: is for a runtime"),
    "no-rule": ((*RIGHT_NODE, "--rule", "x86"), "--rule: is for a runtime"),
    "for-a-model": (("numpy", *INPUT), "--input: is for a model, not for numpy"),
    "no-model": (("no.onnx", *INPUT, *NUMPY), "there is no file no.onnx"),
    "no-model-alone": (("no.onnx",), "there is no file no.onnx"),
    "no-inputs": (
        ("TOWARD_ZERO.json", "--input", "y.npz", *NUMPY),
        "y.npz cannot be read: No such file",
    ),
}


@pytest.mark.parametrize(("arguments", "why"), NO_VERDICT.values(), ids=NO_VERDICT)
def test_no_verdict_is_2_and_wrong_input_one_line(
    folder: Path, arguments: tuple[str, ...], why: str
) -> None:
    done = run(folder, *arguments)
    assert (done.returncode, done.stdout) == (2, "")
    assert why in done.stderr
    assert done.stderr.startswith("Usage") or done.stderr.count("\n") == 1
    as_json = run(folder, *arguments, "--json")
    assert (as_json.returncode, as_json.stdout) == (2, "")
    assert why in json.loads(as_json.stderr)["error"]["detail"]


def test_output_of_a_function_is_not_in_the_report(folder: Path) -> None:
    done = run(folder, "python:kernels:chatty", *RIGHT[1:], "--json")
    assert done.returncode == 0
    assert json.loads(done.stdout)["right"] is True
    assert "rounding 65536" in done.stderr


@pytest.mark.parametrize("dtype", ["float16", pytest.param("float32", marks=pytest.mark.sweep)])
def test_a_real_service_is_right(folder: Path, service: Service, dtype: str) -> None:
    done = run(folder, f"service:{service.url}", "--dtype", dtype)
    assert (done.returncode, done.stdout) == (0, ""), done.stderr


@pytest.mark.parametrize(
    "asked",
    [
        pytest.param(("float32", "float8_e4m3fn"), marks=pytest.mark.sweep),
        ("float8_e5m2", "float8_e8m0fnu", "--rule", "nan"),
        ("float32", "int8", "--rule", "saturate"),
        pytest.param(("uint64", "float4_e2m1fn"), marks=pytest.mark.sweep),
        ("uint8", "float4_e2m1fn"),
        ("int32", "uint4"),
    ],
    ids=" ".join,
)
def test_casts_of_a_real_service_are_right_in_every_direction(
    folder: Path, service: Service, asked: tuple[str, ...]
) -> None:
    source, target, *rule = asked
    dtypes = ("--dtype", source, "--dtype", target)
    done = run(folder, f"service:{service.url}", "--operator", "cast", *dtypes, *rule)
    assert (done.returncode, done.stdout) == (0, ""), done.stderr


def test_help_lists_the_runtimes(folder: Path) -> None:
    text: Any = run(folder, "--help").stdout
    for name in ("onnxruntime[:PROVIDER]", "cmd:PROGRAM", "python:MODULE:FUNCTION", "service:URL"):
        assert name in text.replace("\n", " ")
