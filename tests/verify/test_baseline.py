"""Known faults: the same pass, more fail, fewer fail; and the report as XML."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import numpy.typing as npt
import pytest

from tensor_round_verify import (
    FLOATS,
    Baseline,
    CannotVerify,
    Lacking,
    Report,
    complaints,
    junit_xml,
    rounded,
    verify,
)
from tensor_round_verify.baseline import MAX_LENGTH, Known

Array = npt.NDArray[Any]
PAIR = ("float16", "ties_to_even")


@cache
def report(*wrong: int, got: int = 0x3C00, dtype: str = "float16") -> Report:
    """Of a kernel that returns ``got`` for these patterns, and what is right for others."""

    def kernel(x: Array) -> Array:
        bits = x.view(f"<u{x.dtype.itemsize}")
        results = rounded(bits, dtype, "ties_to_even")
        results[np.isin(bits, wrong)] = got
        return results.view(x.dtype)

    return verify(kernel, dtypes=[dtype])


def three() -> Report:
    return report(0x4100, 0x4500, 0x4900)


def saved(folder: Path, data: Any) -> Path:
    path = folder / "faults.json"
    if data is not None:
        path.write_text(data if isinstance(data, str) else json.dumps(data))
    return path


def test_a_report_is_its_own_baseline(tmp_path: Path) -> None:
    baseline = Baseline.read(saved(tmp_path, three().as_data()))
    assert baseline == Baseline.of(three())
    assert complaints(three(), baseline) == {}


@pytest.mark.parametrize(
    ("now", "complaint"),
    [
        (
            lambda: report(0x4100, 0x4500, 0x4900, 0x4D00),
            "worse than the baseline, which has 3 wrong",
        ),
        (lambda: report(0x4100), "partly fixed: 3 wrong in the baseline, now 1 of 65,536 wrong"),
        (report, "fixed: 3 wrong in the baseline, none now; write a new baseline"),
        (lambda: report(0x4100, 0x4500, 0x4901), "other errors than in the baseline, as many"),
        (
            lambda: report(0x4100, 0x4500, 0x4900, got=0),
            "other errors than in the baseline, as many",
        ),
    ],
    ids=["more", "fewer", "none", "elsewhere", "other-results"],
)
def test_change_from_the_baseline_is_reported(now: Callable[[], Report], complaint: str) -> None:
    found = complaints(now(), Baseline.of(three()))
    assert list(found) == [PAIR]
    assert found[PAIR].startswith(complaint)


def test_a_right_baseline_knows_no_fault() -> None:
    assert complaints(report(), Baseline.of(report())) == {}
    (complaint,) = complaints(three(), Baseline.of(report())).values()
    assert complaint.startswith("worse than the baseline, which has 0 wrong: 3 of 65,536")


def test_types_that_are_not_in_the_baseline_have_to_be_right() -> None:
    baseline = Baseline.of(report(0x38, dtype="float8_e4m3fn", got=0))
    assert list(complaints(three(), baseline)) == [PAIR]
    assert complaints(report(), baseline) == {}


def half(x: Array) -> Array:
    """A kernel that supports float16, and no other type."""
    if x.dtype != np.float16:
        raise NotImplementedError(f"there is no {x.dtype} here")
    return rounded(x.view("<u2"), "float16", "ties_to_even").view(x.dtype)


def test_a_type_that_is_no_longer_supported_is_complained_of() -> None:
    found = verify(half)
    why = "NotImplementedError: there is no bfloat16 here"
    pair = ("bfloat16", "ties_to_even")
    assert Lacking(*pair, why) in found.lacking
    assert f"bfloat16 ties_to_even: not supported: {why}" in str(found)
    assert complaints(found, Baseline.of(found)) == {}
    both = Baseline({**Baseline.of(found).known, pair: Known(65536, 0, "")})
    assert complaints(found, both) == {pair: f"no longer supported: {why}"}
    suite = ElementTree.fromstring(junit_xml(found, {})).find("testsuite")
    assert suite is not None
    assert (suite.get("tests"), suite.get("skipped")) == (str(len(FLOATS)), str(len(FLOATS) - 1))


def test_other_patterns_are_not_compared() -> None:
    data = three().as_data()
    data["verdicts"][0]["tried"] = 1 << 32
    with pytest.raises(CannotVerify, match=r"tried 4,294,967,296 patterns of float16 ties_to_even"):
        complaints(three(), Baseline.from_data(data))


@pytest.mark.parametrize(
    ("data", "why"),
    [
        ("{", "is not JSON"),
        ("[" * 100_000, "is not JSON"),
        ("[]", "a baseline is the output of verify --json"),
        ("{}", "KeyError: 'verdicts'"),
        ({"verdicts": [{"dtype": "float16"}]}, "KeyError: 'rounding'"),
        ({"verdicts": 3}, "TypeError"),
        ('{"verdicts": [{"dtype": 1, "rounding": 1, "tried": 1e400}]}', "OverflowError"),
        (" " * (MAX_LENGTH + 1), "more than 64 MiB"),
        (None, "No such file"),
    ],
    ids=["cut", "deep", "list", "empty", "row", "number", "infinity", "long", "not-there"],
)
def test_invalid_baseline_is_refused(tmp_path: Path, data: Any, why: str) -> None:
    with pytest.raises(CannotVerify) as caught:
        Baseline.read(saved(tmp_path, data))
    assert why in caught.value.detail
    assert "faults.json" in caught.value.detail


@pytest.mark.skipif(os.name != "posix", reason="named pipes are POSIX's")
def test_a_baseline_without_end_is_refused(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")  # nobody writes into it
    with pytest.raises(CannotVerify, match=r"pipe did not end within 0\.1 s"):
        Baseline.read(tmp_path / "pipe", 0.1)
    with pytest.raises(CannotVerify, match="/dev/zero has more than 64 MiB"):
        Baseline.read(Path("/dev/zero"))


def test_the_report_as_data_survives_json() -> None:
    data = json.loads(json.dumps(three().as_data()))
    assert data["right"] is False
    (verdict,) = data["verdicts"]
    assert (verdict["tried"], verdict["wrong"], verdict["deviations"]) == (65536, 3, [])
    assert verdict["explained"] is False
    assert verdict["classes"]["exact_tie"]["first"][0] == {
        "x": {"value": "2.5", "bits": "0x4100"},
        "got": {"value": "1.0", "bits": "0x3c00"},
        "want": {"value": "2.0", "bits": "0x4000"},
    }


def test_junit_has_a_case_for_each_type_and_direction() -> None:
    dtypes = ["float16", "float8_e4m3fn"]
    numpy = verify("numpy", dtypes=dtypes, roundings=["ties_to_even"], nans="bits")
    suite = ElementTree.fromstring(junit_xml(numpy, complaints(numpy))).find("testsuite")
    assert suite is not None
    assert (suite.get("tests"), suite.get("failures"), suite.get("skipped")) == ("2", "1", "0")
    wrong, right = suite.findall("testcase")
    assert (wrong.get("name"), right.get("name")) == (
        "float16 ties_to_even",
        "float8_e4m3fn ties_to_even",
    )
    failure = wrong.find("failure")
    assert failure is not None
    assert "NaN quieted" in failure.get("message", "")
    assert "x NaN (0x7c01): got NaN (0x7e01), want NaN (0x7c01)" in (failure.text or "")
    assert list(right) == []


def test_known_faults_do_not_fail_in_junit() -> None:
    suite = ElementTree.fromstring(junit_xml(three(), {})).find("testsuite")
    assert suite is not None
    assert suite.get("failures") == "0"
    assert "known errors:\nx 2.5" in (suite.findtext("testcase/system-out") or "")
