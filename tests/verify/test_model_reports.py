"""Reports on models: what ends no other verdict, the width of the text, JUnit XML."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import numpy.typing as npt
import pytest

from tensor_round_verify import verify_model
from tensor_round_verify.graphs.outputs import REFERENCE, OutputDifference, OutputVerdict
from tensor_round_verify.graphs.report import ModelReport

X = np.array([-2.5, -0.3, 0.5, 1.5], np.float32)
TENSOR = {"DataType": "FLOAT32", "Sizes": [4]}


def operator(mode: str) -> dict[str, Any]:
    desc = {"InputTensor": TENSOR, "OutputTensor": TENSOR, "RoundingMode": mode}
    return {"type": "DML_OPERATOR_ELEMENT_WISE_ROUND", "desc": desc}


@pytest.fixture
def model(tmp_path: Path) -> Path:
    operators = {
        "away": operator("TOWARD_INFINITY"),
        "even": operator("HALVES_TO_NEAREST_EVEN"),
        "clip": {"type": "DML_OPERATOR_ELEMENT_WISE_CLIP"},
    }
    path = tmp_path / "dx.json"
    path.write_text(json.dumps({"dispatchables": operators}))
    return path


def test_one_node_on_which_a_runtime_fails_ends_no_other_verdict(model: Path) -> None:
    def kernel(x: npt.NDArray[Any]) -> npt.NDArray[Any]:
        if x[0] == 7:
            raise ValueError("no sevens")
        return np.rint(x)

    report = verify_model(model, {"away": np.full_like(X, 7), "even": X}, [kernel])
    assert [(row.node.name, row.right) for row in report.verdicts] == [("even", True)]
    assert " ".join(str(report).split()).endswith(
        f" away, ELEMENT_WISE_ROUND TOWARD_INFINITY: not judged by {report.verdicts[0].runtime}: "
        "ValueError: no sevens not judged, for they neither round nor convert: ELEMENT_WISE_CLIP"
    )
    assert report.summary.endswith("1 node by 1 runtime, right; 1 not judged")


def test_runtime_without_a_verdict_beside_another_is_not_right(model: Path) -> None:
    def short(x: npt.NDArray[Any]) -> npt.NDArray[Any]:
        return x[1:]

    inputs = {"away": np.rint(X), "even": X}
    report = verify_model(model, inputs, ["numpy", short])
    assert (report.right, report.wrong, len(report.verdicts)) == (False, 0, 2)
    (row,) = report.unjudged
    assert row.reason.startswith(f"not judged by python:{short.__module__}:")
    assert "no verdict: ELEMENT_WISE_ROUND" in row.why
    assert "; no verdict on the model by python:" in report.summary
    assert "short" in str(report)


def test_no_line_of_a_report_is_wider_than_a_terminal(model: Path) -> None:
    report = verify_model(model, {"away": X, "even": X}, ["numpy", np.trunc])
    assert max(map(len, str(report).splitlines()[1:])) <= 80


def test_junit_has_a_case_for_each_verdict_and_each_lack(model: Path) -> None:
    report = verify_model(model, {"away": X, "even": X}, ["numpy", lambda x: x[1:]])
    suite = ElementTree.fromstring(report.junit_xml()).find("testsuite")
    assert suite is not None
    assert {name: suite.get(name) for name in ("tests", "failures", "errors", "skipped")} == {
        **{"tests": "5", "failures": "1"},
        **{"errors": "1", "skipped": "2"},
    }
    cases = [(case.get("name"), [child.tag for child in case]) for case in suite]
    assert cases == [
        ("away", ["failure"]),
        ("even", []),
        ("the model", ["error"]),
        ("away", ["skipped"]),
        ("even", ["skipped"]),
    ]
    assert "[0]: x -2.5 " in (suite[0][0].text or "")


def test_a_report_tells_where_runtimes_differ_and_what_is_not_judged() -> None:
    output = OutputVerdict(
        "y", "A", "float32", (2,), REFERENCE, 2, 0, (), ("q", "r"), "", ("q (Q)",)
    )
    difference = OutputDifference("y", ("A", "B"), 2, 1)
    report = ModelReport("m", (), outputs=(output,), differences=(difference,))
    assert output.sentence == "2 elements, right; q (Q) before it is not judged"
    assert str(report).endswith(f"  A: {output.sentence}\n  A and B differ in 1 of 2 elements")
    assert report.right
    assert (
        report.summary == "m: 0 nodes and 1 output by 1 runtime, right; runtimes differ in 1 output"
    )
    assert report.as_data()["differences"] == [
        {"output": "y", "runtimes": ("A", "B"), "tried": 2, "different": 1}
    ]
