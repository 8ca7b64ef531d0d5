"""``tensor-round verify MODEL`` as people call it: exit codes, what it says, and to whom."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import numpy as np
import pytest

from support.command_line import said

MODEL = """{ // as DxDispatch has it
    "type": "DML_OPERATOR_ELEMENT_WISE_ROUND", "desc": {
        "InputTensor": {"DataType": "FLOAT32", "Sizes": [2, 3]},
        "OutputTensor": {"DataType": "FLOAT32", "Sizes": [2, 3]}, "RoundingMode": "MODE"}}"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("models")
    for mode in ("TOWARD_INFINITY", "TOWARD_ZERO"):
        (path / f"{mode}.json").write_text(MODEL.replace("MODE", mode))
    np.savez(path / "x.npz", InputTensor=np.float32([[-2.5, -0.3, 0.5], [1.5, 2.5, 8388609]]))
    return path


def run(folder: Path, *arguments: object) -> subprocess.CompletedProcess[str]:
    return said("verify", *arguments, folder=folder)


INPUT = ("--input", "x.npz")
NUMPY = ("--runtime", "numpy")


def test_a_right_model_is_silent_and_0(folder: Path) -> None:
    done = run(folder, "TOWARD_ZERO.json", *INPUT, *NUMPY)
    assert (done.returncode, done.stdout) == (0, ""), done.stderr
    assert done.stderr == "TOWARD_ZERO.json: 1 node by 1 runtime, right\n"


def test_a_wrong_node_is_shown_and_1(folder: Path) -> None:
    done = run(folder, "TOWARD_INFINITY.json", *INPUT, *NUMPY)
    assert done.returncode == 1
    version = np.__version__
    assert done.stdout == (
        "TOWARD_INFINITY.json\n\n"
        "ELEMENT_WISE_ROUND: ELEMENT_WISE_ROUND TOWARD_INFINITY of float32 [2, 3]\n"
        f"  numpy {version}, its own operator: 3 of 6 wrong: 3 of 4 exact ties (off by one); "
        "this is half to even; it has no ties_to_away, so its ties_to_even was run\n"
        "    [0, 0]: x -2.5 (0xc0200000): got -2.0 (0xc0000000), want -3.0 (0xc0400000)\n"
        "    [0, 2]: x 0.5 (0x3f000000): got 0.0 (0x00000000), want 1.0 (0x3f800000)\n"
        "    [1, 1]: x 2.5 (0x40200000): got 2.0 (0x40000000), want 3.0 (0x40400000)\n"
    )
    summary = "TOWARD_INFINITY.json: 1 node by 1 runtime, 1 of 1 verdicts wrong\n"
    assert done.stderr == summary


def test_a_report_as_json_has_both_exit_codes(folder: Path) -> None:
    for name, code in (("TOWARD_ZERO", 0), ("TOWARD_INFINITY", 1)):
        done = run(folder, f"{name}.json", *INPUT, *NUMPY, "--json")
        assert (done.returncode, done.stderr) == (code, "")
        report = json.loads(done.stdout)
        assert report["right"] is (code == 0)
        assert [row["node"] for row in report["verdicts"]] == ["ELEMENT_WISE_ROUND"]


USAGE = {
    "no-input": (
        ("TOWARD_ZERO.json", *NUMPY),
        "tensor-round verify TOWARD_ZERO.json --input x.npz --runtime onnxruntime",
    ),
    "no-runtime": (
        ("TOWARD_ZERO.json", *INPUT),
        "in runtimes: tensor-round verify TOWARD_ZERO.json --input x.npz",
    ),
    "for-a-runtime": (
        ("TOWARD_ZERO.json", *INPUT, *NUMPY, "--every"),
        "--every: is for a runtime; a model has its own nodes",
    ),
    "for-a-model": (("numpy", *INPUT), "--input: is for a model, not for numpy"),
    "not-there": (("no.onnx", *INPUT, *NUMPY), "tensor-round: there is no file no.onnx"),
    "no-inputs": (
        ("TOWARD_ZERO.json", "--input", "y.npz", *NUMPY),
        "tensor-round: y.npz cannot be read: No such file",
    ),
}


@pytest.mark.parametrize(("arguments", "why"), USAGE.values(), ids=USAGE)
def test_no_verdict_is_2(folder: Path, arguments: tuple[str, ...], why: str) -> None:
    done = run(folder, *arguments)
    assert (done.returncode, done.stdout) == (2, "")
    assert why in done.stderr
    as_json = run(folder, *arguments, "--json")
    assert (as_json.returncode, as_json.stdout) == (2, "")
    assert why.removeprefix("tensor-round: ") in json.loads(as_json.stderr)["error"]["detail"]
