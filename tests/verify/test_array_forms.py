"""Kernels that are right for every pattern: what else is wrong with them is found and named."""

from __future__ import annotations

import copy
import sys
from pathlib import Path
from threading import Event
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest

from support.cases.subtle_kernels import SUBTLE, rounded, tail
from tensor_round_verify import Baseline, CannotVerify, complaints, junit_xml, verify

#: Of these the results for patterns are no one's: each call gives others.
UNSTEADY = {"second-call", "every-third-call"}


@pytest.mark.slow
@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float8_e4m3fn"])
@pytest.mark.parametrize("kind", SUBTLE)
def test_a_subtle_fault_has_one_true_cause(kind: str, dtype: str) -> None:
    kernel, cause = SUBTLE[kind]
    report = verify(copy.deepcopy(kernel), dtypes=[dtype])
    (verdict,) = report.verdicts
    (fault,) = verdict.calls
    assert cause in fault.cause
    assert cause in verdict.sentence
    assert not report.right
    if kind not in UNSTEADY:
        assert (verdict.wrong, verdict.explanation.models) == (0, ())
        assert verdict.sentence == f"every pattern is right, but {fault.cause}"


def test_a_wrong_pattern_and_a_wrong_tail_are_told_apart() -> None:
    """A kernel of half added, whose tail is not rounded: each fault has its own name."""
    ends = tail(16, lambda x: x)

    def kernel(x: Any) -> Any:
        half = np.trunc(x + np.copysign(x.dtype.type(0.5), x))
        rest = x.size % 16 if x.ndim == 1 else 0
        half[..., half.shape[-1] - rest :] = ends(x)[..., half.shape[-1] - rest :]
        return half

    (verdict,) = verify(kernel, dtypes=["float32"], roundings=["ties_to_away"]).verdicts
    assert verdict.wrong == 15_904
    assert [model.name for model in verdict.explanation.models] == ["trunc(x + copysign(0.5, x))"]
    (fault,) = verdict.calls
    assert fault.cause.startswith("the last 3 of 19 elements are not rounded")
    assert fault.example is not None


def test_a_form_that_is_refused_is_told_and_no_fault() -> None:
    def kernel(x: Any) -> Any:
        if x.ndim > 1:
            raise TypeError("one dimension only")
        return rounded(x)

    report = verify(kernel, dtypes=["float16"])
    assert report.right
    (verdict,) = report.verdicts
    assert verdict.refused == (
        "several dimensions, (64, 64), (64, 19), (1, 1024), (1024, 1), (4, 16, 16), (2, 4, 8, 16): "
        "TypeError: one dimension only",
    )
    assert f"refused: {verdict.refused[0]}" in str(report)


def program(folder: Path, body: str) -> str:
    path = folder / "kernel.py"
    path.write_text(
        "import sys, numpy as np\n"
        "x = np.frombuffer(sys.stdin.buffer.read(), '<f4')\n"
        f"y = np.rint(x)\n{body}\n"
        "sys.stdout.buffer.write(y.tobytes())\n"
    )
    return f"cmd:{sys.executable} {path}"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("body", "causes"),
    [
        ("", []),
        (
            "rest = x.size % 8\nif rest: y[-rest:] = x[-rest:]",
            ["the last 3 of 19 elements are not rounded, and so behind the last multiple of 8"],
        ),
        ("x.max()", ["the empty tensor: "]),
        (
            "import pathlib\nhere = pathlib.Path(__file__)\n"
            "here.with_suffix('.n').open('a').write('.')\n"
            "if len(here.with_suffix('.n').read_text()) % 2: y = x",
            ["differs from call to call"],
        ),
    ],
    ids=["right", "tail", "empty", "every-second-call"],
)
def test_a_program_is_tried_with_lengths_and_again(
    tmp_path: Path, body: str, causes: list[str]
) -> None:
    (verdict,) = verify(program(tmp_path, body), timeout=60).verdicts
    assert verdict.pair == ("float32", "ties_to_even"), "no placeholder names another"
    found = [fault.cause for fault in verdict.calls]
    assert len(found) == len(causes)
    assert all(some.startswith(cause) for some, cause in zip(found, causes, strict=True))


def test_a_cause_is_in_every_form_of_the_report() -> None:
    report = verify(SUBTLE["tail-of-16"][0], dtypes=["float16"])
    (verdict,) = report.verdicts
    (cause,) = [fault.cause for fault in verdict.calls]
    data = report.as_data()
    assert (data["right"], data["verdicts"][0]["wrong"]) == (False, 0)
    assert data["verdicts"][0]["calls"][0]["cause"] == cause
    assert f"float16 ties_to_even: every pattern is right, but {cause}.\n  x " in str(report)
    found = complaints(report)
    assert found == {verdict.pair: verdict.sentence}
    suite = ElementTree.fromstring(junit_xml(report, found)).find("testsuite")
    assert suite is not None
    assert suite.get("failures") == "1"
    failure = suite.find("testcase/failure")
    assert failure is not None
    assert failure.get("message") == verdict.sentence
    assert (failure.text or "").startswith("x ")


def test_a_baseline_knows_causes() -> None:
    wrong = verify(SUBTLE["in-place"][0], dtypes=["float16"])
    right = verify(rounded, dtypes=["float16"])
    assert complaints(wrong, Baseline.of(wrong)) == {}
    assert list(complaints(wrong, Baseline.of(right)).values()) == [
        "not in the baseline: changes its operand"
    ]
    assert list(complaints(right, Baseline.of(wrong)).values()) == [
        "fixed: changes its operand; write a new baseline"
    ]
    data = right.as_data()
    del data["verdicts"][0]["calls"]  # of a report from before causes were told
    assert complaints(right, Baseline.from_data(data)) == {}


def test_check_raises_the_whole_report() -> None:
    verify(rounded, dtypes=["float16"]).check()
    report = verify(SUBTLE["in-place"][0], dtypes=["float16"])
    with pytest.raises(AssertionError) as caught:
        report.check()
    assert str(report) in str(caught.value)


def test_a_kernel_that_hangs_on_one_length_is_not_called_again() -> None:
    released, calls = Event(), []

    def kernel(x: Any) -> Any:
        calls.append(x.size)
        if x.size == 7:
            released.wait(100)
        return rounded(x)

    try:
        with pytest.raises(CannotVerify, match="was not done after 2 s"):
            verify(kernel, dtypes=["float16"], timeout=2)
    finally:
        released.set()
    assert calls.count(7) == 1
