"""Wrong usage of the command line, exit codes, help, version and completion."""

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

from support.cases.array_cases import patterns
from support.command_line import command, good
from support.forking import start
from tensor_round.contract.version import __version__

WRONG: dict[str, tuple[str, tuple[str, ...]]] = {
    "no-command": ("Usage", ()),
    "unknown-command": ("No such command", ("truncate",)),
    "unknown-option": ("No such option", ("ping", "--loud")),
    "no-target": ("Missing argument", ("round", "in.npy")),
    "no-file": ("nothing.npy: No such file", ("round", "nothing.npy", "out.npy")),
    "a-folder": ("directory", ("round", ".", "out.npy")),
    "no-npy": ("text: this is not a .npy file", ("round", "text", "out.npy")),
    "npz": ("all.npz: the file is an archive of arrays (.npz)", ("round", "all.npz", "out.npy")),
    "cut-npy": ("cut.npy: the .npy header calls for", ("round", "cut.npy", "out.npy")),
    **{
        f"pipe-for-{arguments[0]}": ("pipe: this is a pipe or a device; pass - to read", arguments)
        for arguments in (
            ("round", "pipe", "out.npy"), ("compare", "pipe"),
            ("execute", "--descriptor", "text", "pipe", "out.bin"),
        )
    },
    "complex": ("complex.npy: the .npy file has elements of type complex64 ('<c8')",
                ("round", "complex.npy", "out.npy")),
    "complex-served": ("supported types: float16, bfloat16", ("round", "complex.npy", "out.npy")),
    "no-dtype": ("--dtype", ("round", "bf16.npy", "out.npy")),
    "wrong-dtype": ('got "bfloat16"; elements',
                    ("round", "f4.npy", "out.npy", "--dtype", "bfloat16")),
    "wrong-rounding": ('got "up"; did you mean toward_positive?',
                       ("round", "f4.npy", "out.npy", "--rounding", "up")),
    "wrong-operator": ("directml:MODE (HALVES_TO_NEAREST_EVEN, TOWARD_INFINITY",
                       ("round", "f4.npy", "out.npy", "--operator", "directml")),
    "two-operators": ("give one of the two", ("round", "f4.npy", "out.npy", "--operator", "onnx",
                                              "--rounding", "ties_to_even")),
    "no-target-type": ("--to", ("cast", "f4.npy", "out.npy")),
    **{
        f"cast-{name}": (why, ("cast", "f4.npy", "out.npy", *options))
        for name, (why, *options) in {
            "unknown-type": ('--to: got "half"; did you mean float16', "--to", "half"),
            "unknown-operator": ('--operator: got "onx"; did you mean onnx',
                                 "--to", "int8", "--operator", "onx"),
            "rounding": ("it does not cast to a type", "--to", "int8", "--operator", "onnx:Floor"),
            "old-opset": ("needs opset 19", "--to", "float8_e5m2", "--operator", "onnx:13"),
            "saturate": ("--saturate: unknown attribute", "--to", "int8", "--operator", "webnn",
                         "--saturate"),
            "two-operators": ("give one of the two", "--to", "int8", "--operator", "onnx",
                              "--rounding", "toward_zero"),
        }.items()
    },
    **{
        f"quantize-{name}": (why, ("quantize", "f4.npy", "out.npy", *options))
        for name, (why, *options) in {
            "no-scale": ("--scale",),
            "no-file": ("--scale: nothing.npy: No such file", "--scale", "nothing.npy"),
            "unknown-type": ('--to: got "half"; did you', "--scale", "1", "--to", "half"),
            "unknown-operator": ('--operator: got "onx"; did you mean onnx',
                                 "--scale", "1", "--operator", "onx"),
            "zero-point": ("zero_point must be a number of int8, got 300",
                           "--scale", "1", "--zero-point", "300", "--url", "local:"),
        }.items()
    },
    **{
        f"{arguments[0]}-of-{arguments[1]}": (f"{arguments[1]}: {why}", arguments)
        for why, arguments in (
            ("input.elem_type: ", ("round", "i2.npy", "out.npy", "--operator", "onnx")),
            ("input.dataType: ", ("cast", "i2.npy", "out.npy", "--to", "int8",
                                  "--operator", "webnn")),
            ("input.elem_type: ", ("quantize", "i2.npy", "out.npy", "--scale", "1")),
            ("input.elem_type: ", ("dequantize", "f4.npy", "out.npy", "--scale", "1")),
            ("input.elem_type: ", ("fake-quantize", "i2.npy", "out.npy", "--scale", "1")),
        )
    },
    "a-cast-to-round": ("it needs to, the target type",
                        ("round", "f4.npy", "out.npy", "--operator", "onnx:Cast")),
    **{
        suffix: (f"this is {what}", ("round", f"text.{suffix}", "out.npy"))
        for suffix, what in {
            "h5": "an HDF5 file, not a .npy file: numpy.save(", "parquet": "a Parquet file",
            "csv": "text, not a .npy", "pt": "a file of torch",
        }.items()
    },
    **{
        f"model-for-{arguments[0]}": (f"run tensor-round verify {arguments[at]} --input "
                                      f"x.npz --runtime {runtime}", arguments)
        for at, runtime, arguments in (
            (1, "onnxruntime", ("compare", "m.onnx")),
            (1, "openvino", ("round", "m.xml", "out.npy")),
            (2, "onnxruntime", ("execute", "--descriptor", "m.onnx", "f4.npy", "out.bin")),
        )
    },
    "model-as-result": ("verify m.onnx --input x.npz", ("compare", "f4.npy", "m.onnx")),
    "operators-of-compare": ("run tensor-round compare f4.npy",
                             ("compare", "f4.npy", "--operator", "onnx", "--operator", "mlir:x")),
    "serve": ("run tensor-round-service --port 8901", ("serve", "--port", "8901")),
    "no-folder": ("there is no folder nowhere", ("round", "f4.npy", "nowhere/out.npy")),
    "not-npy": ("out.csv: only .npy files are written here", ("round", "f4.npy", "out.csv")),
    "into-a-folder": (". is a folder", ("round", "f4.npy", ".")),
    "wrong-url": ("unix:///path", ("ping", "--url", "gopher://x")),
    "timeout-as-a-word": ("valid number", ("ping", "--timeout", "abc")),
    "wrong-timeout": ("timeout", ("ping", "--timeout", "0")),
    "no-runtime": ("Missing argument", ("verify",)),
    **{
        f"{option}-of-verify": (f"--{option}", ("verify", "numpy", f"--{option}", value))
        for option, value in {
            "dtype": "float31", "rounding": "up", "nans": "none", "timeout": "0",
        }.items()
    },
    "no-descriptor": ("--descriptor", ("execute", "f4.npy", "out.bin")),
    "no-key-file": ("does not exist", ("ping", "--api-key-file", "nothing")),
    "empty-key-file": ("first line is empty", ("ping", "--api-key-file", "empty")),
    "binary-key-file": ("cut.npy is not a text file", ("ping", "--api-key-file", "cut.npy")),
}  # fmt: skip


@pytest.fixture(scope="module")
def odd_files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("odd")
    (folder / "text").write_text("this is not a .npy file")
    (folder / "empty").write_text("")
    for suffix in ("h5", "parquet", "csv", "pt"):
        (folder / f"text.{suffix}").write_text("1.5,2.5")
    for name in ("m.onnx", "m.xml"):
        (folder / name).write_bytes(b"\x08\x08\x12\x04onnx")
    os.mkfifo(folder / "pipe")
    np.save(folder / "f4.npy", np.zeros(3, "<f4"))
    np.save(folder / "i2.npy", np.zeros(3, "i2"))
    np.savez(folder / "all.npz", a=np.zeros(3), b=np.zeros(3))
    np.save(folder / "complex.npy", np.zeros(3, "<c8"))
    np.save(folder / "bf16.npy", patterns("bfloat16", 3))
    (folder / "cut.npy").write_bytes((folder / "f4.npy").read_bytes()[:-1])
    return folder


@pytest.mark.parametrize(("why", "arguments"), WRONG.values(), ids=WRONG)
def test_wrong_usage_is_exit_code_2(
    odd_files: Path, monkeypatch: pytest.MonkeyPatch, why: str, arguments: tuple[str, ...]
) -> None:
    monkeypatch.chdir(odd_files)
    done = command(*arguments, url="http://127.0.0.1:9")
    shown = (done.stdout + done.stderr).decode()
    assert done.returncode == 2, shown
    assert why in _words(shown)
    assert "Traceback" not in shown
    assert "Value error" not in shown
    as_json = command(*arguments, "--json", url="http://127.0.0.1:9")
    if arguments:
        assert (as_json.returncode, as_json.stdout) == (2, b"")
        error = json.loads(as_json.stderr)["error"]
        assert error["kind"] == "UsageError"
        assert why in error["detail"]


def _words(shown: str) -> str:
    """The text without the frame that is drawn around it."""
    return " ".join(word for word in shown.split() if word not in ("\u2502", "|"))


def test_version() -> None:
    assert good("--version").stdout.decode().strip() == __version__


@pytest.mark.parametrize(
    "name", ["round", "cast", "quantize", "execute", "operators", "conformance", "ping", "verify"]
)
def test_help_cuts_no_word_at_80_columns(name: str) -> None:
    assert "\u2026" not in good(name, "--help", COLUMNS="80").stdout.decode()


def test_help_and_completion() -> None:
    shown = good("round", "--help").stdout.decode()
    for word in (
        "--rounding",
        "ties_to_away",
        "--operator",
        "directml:TOWARD_INFINITY",
        "--dtype",
        "--api-key-file",
        "TENSOR_ROUND_URL",
    ):
        assert word in shown
    completion = good("--show-completion", "bash", _TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION="1")
    assert b"complete" in completion.stdout


ROOT = Path(__file__).parents[3]
NOWHERE = "http://127.0.0.1:9"
#: Command lines that are right, in a folder of files.
RIGHT = {
    "round": ("round", "x.npy", "out.npy"),
    "cast": ("cast", "x.npy", "out.npy", "--to", "float16"),
    **{
        name: (name, source, "out.npy", "--scale", "0.5")
        for name, source in {
            "quantize": "x.npy", "dequantize": "codes.npy", "fake-quantize": "x.npy",
        }.items()
    },
    "execute": ("execute", "--descriptor", "d.json", "x.bin", "out.bin"),
    "operators": ("operators",),
    "conformance": ("conformance",),
    "ping": ("ping",),
    "doctor": ("doctor",),
    "specs": ("specs",),
    "verify": ("verify", "python:mine:right", "--dtype", "float16", "--rounding", "ties_to_even"),
    "compare": ("compare", "x.npy"),
}  # fmt: skip
#: Those that ask a service.
ASKING = (
    "round", "cast", "quantize", "dequantize", "fake-quantize",
    "execute", "operators", "conformance", "ping", "doctor",
)  # fmt: skip
#: Further command lines that end with 1 or 2, and why.
OTHERS: dict[str, tuple[int, tuple[str, ...]]] = {
    "unwritable-report": (1, (*RIGHT["verify"], "--junit", ".")),
    "unwritable-array": (1, ("round", "x.npy", "/proc/out.npy", "--url", "local:")),
    "unwritable-bytes": (1, ("execute", "--descriptor", "d.json", "x.bin", "/proc/out.bin",
                             "--url", "local:")),
    "endless-descriptor": (2, ("execute", "--descriptor", "/dev/zero", "x.bin", "out.bin",
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
    np.save("codes.npy", np.array([1, -2], np.int8))
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
    listed = re.findall(r"^│ (\w[\w-]*) ", command("--help").stdout.decode(), re.M)
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
    ("name", "says"),
    [
        ("round", "rounding"),
        ("quantize", "quantizing"),
        ("compare", "comparing"),
        ("verify", "verifying"),
    ],
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
    with open(os.devnull, "r+b") as nothing, open("said", "w+b") as said:
        files = (nothing.fileno(), nothing.fileno(), said.fileno())
        process = start("tensor_round", arguments, {**os.environ, "NO_COLOR": "1"}, files=files)
        try:
            while not (folder / "running").exists():
                assert process.poll() is None
                time.sleep(0.02)
            process.send_signal(signal.SIGINT)
            assert process.wait(30) == 130
        finally:
            process.kill()
    assert not report or json.loads(Path("said").read_bytes())["error"]["detail"] == "interrupted"


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
