"""What can be verified by name, functions and programs above all, and what keeps from a verdict."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tensor_round.contract.errors import InvalidArgument
from tensor_round.contract.rounding import Rounding
from tensor_round_verify import (
    FLOATS,
    ROUNDINGS,
    RUNTIMES,
    CannotVerify,
    NotSupported,
    edges,
    rounded,
    verify,
)
from tensor_round_verify.checks.rounding import usable_cores
from tensor_round_verify.patterns import BLOCK
from tensor_round_verify.runtimes import open_runtime


def why_not(runtime: Any, **options: Any) -> str:
    """The one line that stands in place of a verdict."""
    with pytest.raises(CannotVerify) as caught:
        verify(runtime, **options)
    assert "\n" not in caught.value.detail
    return caught.value.detail


def test_nans_with_other_bits_are_told_and_no_fault_unless_asked_for() -> None:
    asked: dict[str, Any] = {"dtypes": ["float16"], "roundings": ["ties_to_even"]}
    report = verify("numpy", **asked)
    assert report.right
    (verdict,) = report.verdicts
    assert verdict.wrong == 0
    assert verdict.nans is not None
    assert (verdict.nans.tried, verdict.nans.different, verdict.nans.quiet) == (2046, 1022, True)
    told = "every number is right; NaNs are quieted, as IEEE 754 permits"
    assert verdict.sentence == told
    assert "float16: NaNs are quieted, as IEEE 754 permits" in str(report)
    assert report.as_data()["verdicts"][0]["nans"] == {
        "tried": 2046,
        "different": 1022,
        "quiet": True,
        "deviations": ["NaN quieted"],
    }

    def signalling(x: Any) -> Any:
        bits = rounded(x.view("<u2"), "float16", "ties_to_even").reshape(x.shape)
        return np.where(np.isnan(x), np.uint16(0x7C01), bits).view("<f2")

    (verdict,) = verify(signalling, dtypes=["float16"]).verdicts
    assert verdict.sentence == "every number is right; NaNs get other bits"


def test_an_executable_file_is_suggested_as_a_program(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kernel = tmp_path / "kernel"
    kernel.write_text("#!/bin/sh\ncat\n")
    monkeypatch.chdir(tmp_path)
    assert 'runtime: got "./kernel"; accepted: ' in why_not("./kernel")
    kernel.chmod(0o755)
    assert why_not("./kernel") == "./kernel is a program: did you mean cmd:./kernel?"
    assert why_not("kernel") == "kernel is a program: did you mean cmd:./kernel?"
    assert why_not("cmd:kernel").endswith("; did you mean cmd:./kernel?")


def test_a_program_without_a_type_names_its_inputs() -> None:
    assert verify("cmd:cat", dtypes=["float32"]).notes == ()
    (note,) = verify("cmd:cat").notes
    assert note.startswith("cmd:cat was fed float32: name another type with --dtype")
    assert note in str(verify("cmd:cat"))
    assert verify("cmd:sh -c cat {dtype}").notes == ()


@pytest.mark.parametrize(
    ("runtime", "why"),
    [
        (
            "onnxrutime",
            'got "onnxrutime"; did you mean onnxruntime? Accepted: onnxruntime[:PROVIDER], ',
        ),
        ("numpy:1", "numpy has no argument"),
        ("cmd:", "cmd needs PROGRAM: write cmd:PROGRAM"),
        ("cmd:'", "is not a command line: No closing quotation"),
        ("cmd:/no/such/program", "cannot be run: No such file or directory"),
        ("python:json", "write python:module:function"),
        ("python:no_such_module:f", "no_such_module cannot be imported: ModuleNotFoundError"),
        ("python:json:nothing", "json has no function nothing"),
        ("python:json:__name__", "json has no function __name__"),
        ("service:", "service needs URL"),
        ("service:ftp://here", "ftp"),
        ("service:http://127.0.0.1:1", "service:http://127.0.0.1:1: "),
    ],
)
def test_runtime_that_cannot_be_opened_is_reported_in_one_line(runtime: str, why: str) -> None:
    assert why in why_not(runtime, dtypes=["float16"], timeout=5)


def test_a_missing_runtime_names_the_package_to_install() -> None:
    rows = [row for row in RUNTIMES if row.package]
    others = {"onnx-reference": "onnx", "litert": "ai_edge_litert"}
    modules = [others.get(row.name, row.name) for row in rows]
    names = [row.name + (":x" if row.required else "") for row in rows]
    code = (
        f"import sys; sys.modules.update(dict.fromkeys({modules!r}))\n"
        "from tensor_round import conformance\n"
        f"for name in {names!r}:\n"
        "    try: conformance.verify(name)\n"
        "    except conformance.CannotVerify as error: print(error)\n"
    )
    ran = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    for row, line in zip(rows, ran.stdout.splitlines(), strict=True):
        assert line.startswith(f"{row.name} cannot be imported (")
        assert line.endswith(f"pip install {row.package}")


def test_no_runtime_is_imported_before_it_is_named() -> None:
    code = (
        "import sys\n"
        "from tensor_round import conformance\n"
        "conformance.verify('numpy', dtypes=['float8_e5m2'])\n"
        "print(*({'onnx', 'onnxruntime', 'openvino', 'torch', 'jaxlib', 'cupy', 'rich', 'httpx2'} "
        "& set(sys.modules)))"
    )
    ran = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert ran.stdout.split() == []


@pytest.mark.parametrize(
    ("asked", "why"),
    [
        ({"dtypes": ["int32"]}, "no verdict on int32: it has no operator for int32 ties_to_even"),
        ({"roundings": ["ties_to_away"]}, "no verdict on ties_to_away: it has no operator"),
        ({"dtypes": ["float16", "int8"]}, "no verdict on int8"),
    ],
)
def test_unsupported_pair_asked_for_by_name_gets_no_verdict(
    asked: dict[str, Any], why: str
) -> None:
    with pytest.raises(NotSupported, match=why):
        verify("numpy", **asked)


@pytest.mark.parametrize(
    ("asked", "why"),
    [
        (
            {"dtypes": ["float31"]},
            'dtypes: got "float31"; did you mean float32. Accepted: float16, ',
        ),
        ({"dtypes": "float32"}, "dtypes is a sequence of names, got the string 'float32'"),
        (
            {"roundings": ["up"]},
            'roundings: got "up"; did you mean toward_positive. Accepted: ties_to_even, ',
        ),
    ],
)
def test_names_that_nobody_has_are_refused(asked: dict[str, Any], why: str) -> None:
    with pytest.raises(InvalidArgument, match=why):
        verify("numpy", **asked)


def test_every_goes_through_all_patterns_in_blocks_and_stops_at_a_failure() -> None:
    firsts: list[int] = []

    def kernel(x: Any) -> Any:
        if len(firsts) == 9:
            raise ArithmeticError("enough")
        bits = x.view("<u4")
        firsts.append(int(bits[0]))
        return rounded(bits, "float32", "ties_to_even").view("<f4")

    assert "ArithmeticError: enough" in why_not(kernel, dtypes=["float32"], every=True)
    # The hardest patterns come first, for the search; then blocks, on threads that may overtake.
    assert firsts[0] == edges("float32")[0]
    assert len(set(firsts[1:])) == 8
    assert set(firsts[1:]) <= {n * BLOCK for n in range(8 + 2 * usable_cores())}


def test_a_direction_is_named_by_its_enumerator_too() -> None:
    report = verify("numpy", dtypes=["float8_e4m3fn"], roundings=[Rounding.TOWARD_ZERO])
    assert [verdict.pair for verdict in report.verdicts] == [("float8_e4m3fn", "toward_zero")]
    assert type(report.verdicts[0].rounding) is str


def test_progress_counts_the_bytes_of_all_patterns() -> None:
    told: list[tuple[int, int]] = []
    verify("numpy", dtypes=["float16", "float32"], progress=lambda *seen: told.append(seen))
    total = 4 * (2 * 65536 + 4 * 1_062_678)
    assert told[0] == (0, total)
    assert told[-1] == (total, total)
    assert told == sorted(told)


@pytest.mark.parametrize(
    ("function", "why"),
    [
        (lambda x: x.tolist(), "returned a list for a NumPy array of float16"),
        (lambda x: x.sort(), "returned None for a NumPy array of float16"),
        (lambda x: np.rint(x.astype("f8")), "returned float64 of shape (65536,) for float16"),
        (lambda x: x[:-1], "returned float16 of shape (65535,) for float16 of shape (65536,)"),
        (lambda x: x.astype(">f2"), "returned >f2 of shape"),
        (lambda x: 1 // 0, "failed on float16: ZeroDivisionError: "),
        (lambda x: sys.exit("no"), "failed on float16: SystemExit: no"),
    ],
    ids=["list", "none", "dtype", "shape", "byte-order", "raises", "exits"],
)
def test_a_function_that_returns_no_result_gets_no_verdict(function: Any, why: str) -> None:
    assert why in why_not(function, dtypes=["float16"])


def test_a_callable_object_is_a_function() -> None:
    class Kernel:
        def __call__(self, x: Any) -> Any:
            return np.rint(x)

    report = verify(Kernel(), dtypes=["float8_e4m3fn"])
    assert report.right
    assert report.runtime.endswith("Kernel")
    assert verify(np.rint, dtypes=["float8_e4m3fn"]).runtime == "python:numpy:rint"


def test_a_function_of_the_current_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a_kernel_of_mine.py").write_text(
        "import numpy as np\n"
        "class Kernels:\n"
        "    @staticmethod\n"
        "    def away(x): return np.trunc(x + np.copysign(x.dtype.type(0.5), x))\n"
    )
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    report = verify("python:a_kernel_of_mine:Kernels.away", roundings=["ties_to_away"])
    assert report.runtime == "python:a_kernel_of_mine:Kernels.away"
    assert len(report.verdicts) == len(FLOATS)
    assert all("trunc(x + copysign(0.5, x))" in str(verdict) for verdict in report.verdicts)


def test_a_function_with_a_rounding_is_verified_in_all() -> None:
    def kernel(x: Any, rounding: str) -> Any:
        return rounded(x.view("<u4"), "float32", rounding).view("<f4")

    report = verify(kernel, dtypes=["float32"])
    assert len(report.verdicts) == 5
    assert report.right


#: A program that has the results of all patterns of 16 bits beside it, in a file that is named by
#: the type and the direction. It is run some fifty times, and imports nothing that takes long.
TABLE = """
import array, pathlib, sys

results = pathlib.Path(__file__).with_name("-".join(sys.argv[1:])).read_bytes()
of = array.array("H", results).__getitem__
x = array.array("H", sys.stdin.buffer.read())
sys.stdout.buffer.write(array.array("H", map(of, x)).tobytes())
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
@pytest.mark.skipif(shutil.which("node") is None, reason="Node is not installed")
def test_javascripts_math_round(tmp_path: Path) -> None:
    """A runtime of the language whose rule the deviation is named after."""
    (tmp_path / "kernel.mjs").write_text(
        "import { readFileSync, writeSync } from 'node:fs';\n"
        "const given = readFileSync(0);\n"
        "const end = given.byteOffset + given.length;\n"
        "const x = new Float64Array(given.buffer.slice(given.byteOffset, end));\n"
        "const y = new Uint8Array(x.map(Math.round).buffer);\n"
        "for (let at = 0; at < y.length; ) at += writeSync(1, y, at);\n"
    )
    (verdict,) = verify(f"cmd:node {tmp_path}/kernel.mjs", dtypes=["float64"], nans="any").verdicts
    assert [one.name for one in verdict.explanation.deviations] == ["half toward +infinity"]


@pytest.mark.parametrize(
    ("code", "why"),
    [
        ("import sys; sys.stdin.buffer.read(); print('done')", "wrote 5 bytes for 131,072"),
        ("import sys; sys.stdin.buffer.read()", "wrote 0 bytes for 131,072"),
        ("import sys; sys.exit('no such type')", "ended with exit code 1: no such type"),
        (r"import sys; sys.exit('\033[31mred\007')", "ended with exit code 1: [31mred"),
        ("import os; os.abort()", "was ended by SIGABRT"),
        ("import time; time.sleep(100)", "did not finish within 2 s"),
        ("import sys\nwhile True: sys.stdout.write('x' * 65536)", "wrote more than 131,072 bytes"),
        ("import os, time; os.close(1); time.sleep(100)", "did not finish within 2 s"),
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
    seconds = 2 if "did not finish" in why else 60
    began = time.monotonic()
    assert why in why_not(program(tmp_path, code), dtypes=["float16"], timeout=seconds)
    assert time.monotonic() - began < 50  # half of what those take that hang


def with_a_child(folder: Path, child: str, then: str = "child.wait()") -> str:
    """A program that starts a child, and tells its process in a file."""
    return program(
        folder,
        "import pathlib, subprocess, sys\n"
        f"child = subprocess.Popen({child})\n"
        f"pathlib.Path({str(folder / 'pid')!r}).write_text(str(child.pid))\n"
        f"{then}\n",
    )


@pytest.mark.slow
@pytest.mark.skipif(os.name != "posix", reason="sessions are POSIX's")
@pytest.mark.parametrize("then", ["child.wait()", ""], ids=["waits", "ends"])
def test_a_child_with_a_session_of_its_own_delays_no_end(tmp_path: Path, then: str) -> None:
    """It is not in the program's group, and has the pipe."""
    runtime = with_a_child(tmp_path, "['sleep', '600'], start_new_session=True", then)
    assert "did not finish within 3 s" in why_not(runtime, dtypes=["float16"], timeout=3)
    os.kill(int((tmp_path / "pid").read_text()), signal.SIGKILL)  # it is there still


@pytest.mark.skipif(os.name != "posix", reason="process groups are POSIX's")
def test_a_program_that_hangs_leaves_no_process_behind(tmp_path: Path) -> None:
    runtime = with_a_child(tmp_path, "[sys.executable, '-c', 'import time; time.sleep(100)']")
    why_not(runtime, dtypes=["float16"], timeout=3)
    child = Path("/proc") / (tmp_path / "pid").read_text()
    ends = time.monotonic() + 10
    while child.exists() and "Z" not in (child / "stat").read_text().split(")")[1][:3]:
        assert time.monotonic() < ends, "the program's child is still there"
        time.sleep(0.05)
