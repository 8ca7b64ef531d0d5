"""What can be verified by name, and what keeps from a verdict."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from support.verifying import why_not
from tensor_round.contract.errors import InvalidArgument
from tensor_round.contract.rounding import Rounding
from tensor_round_verify import (
    RUNTIMES,
    NotTaken,
    edges,
    rounded,
    verify,
)
from tensor_round_verify.checks.rounding import usable_cores
from tensor_round_verify.patterns import BLOCK


def test_numpy_quiets_nans_and_is_right_otherwise() -> None:
    report = verify("numpy", dtypes=["float16", "float8_e4m3fn"], nans="bits")
    assert report.runtime == f"numpy {np.__version__}"
    assert [verdict.wrong for verdict in report.verdicts] == [1022] * 4 + [0] * 4
    assert {str(verdict.explanation) for verdict in report.verdicts[:4]} == {"this is NaN quieted"}
    assert not report.right


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
        "models": ["NaN quieted"],
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
    with pytest.raises(NotTaken, match=why):
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
    # The hardest patterns come first, for the models; then blocks, on threads that may overtake.
    assert firsts[0] == edges("float32")[0]
    assert len(set(firsts[1:])) == 8
    assert set(firsts[1:]) <= {n * BLOCK for n in range(8 + 2 * usable_cores())}


def test_a_direction_is_named_by_its_enumerator_too() -> None:
    report = verify("numpy", dtypes=["float8_e4m3fn"], roundings=[Rounding.TOWARD_ZERO])
    assert [verdict.pair for verdict in report.verdicts] == [("float8_e4m3fn", "toward_zero")]
    assert type(report.verdicts[0].rounding) is str
    with pytest.raises(NotTaken, match="no verdict on ties_to_away"):
        verify("numpy", roundings=[Rounding.TIES_TO_AWAY])


def test_progress_counts_the_bytes_of_all_patterns() -> None:
    told: list[tuple[int, int]] = []
    verify("numpy", dtypes=["float16", "float32"], progress=lambda *seen: told.append(seen))
    total = 4 * (2 * 65536 + 4 * 1_062_678)
    assert told[0] == (0, total)
    assert told[-1] == (total, total)
    assert told == sorted(told)
