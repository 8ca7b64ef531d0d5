"""Models verified node by node, as far as no runtime but NumPy is needed.

test_node_verdicts.py has the verdict on each node, and tests/interop/oracles/test_model_graphs.py
real models in real runtimes.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import numpy.typing as npt
import pytest

import tensor_round_verify as conformance
from tensor_round_verify import CannotVerify, ModelReport, verify_model
from tensor_round_verify.runtimes.model_tensors import Tensor

X = np.array([[-2.5, -0.3, 0.5], [1.5, 2.5, 8388609]], np.float32)


def operator(mode: str, sizes: tuple[int, ...] = (1, 1, 2, 3)) -> dict[str, Any]:
    tensor = {"DataType": "FLOAT32", "Sizes": list(sizes)}
    return {
        "type": "DML_OPERATOR_ELEMENT_WISE_ROUND",
        "desc": {"InputTensor": tensor, "OutputTensor": tensor, "RoundingMode": mode},
    }


MODEL = {
    "dispatchables": {
        "away": operator("TOWARD_INFINITY"),
        "even": operator("HALVES_TO_NEAREST_EVEN"),
        "clip": {"type": "DML_OPERATOR_ELEMENT_WISE_CLIP"},
    },
    "commands": [
        {"type": "print", "resource": "B"},
        {"type": "dispatch", "dispatchable": "away", "bindings": {"InputTensor": "A"}},
    ],
}


@pytest.fixture
def model(tmp_path: Path) -> Path:
    path = tmp_path / "dx.json"
    path.write_text(json.dumps(MODEL) + "// a comment, as DxDispatch accepts it")
    return path


def half_added(x: npt.NDArray[Any]) -> npt.NDArray[Any]:
    rounded: npt.NDArray[Any] = np.trunc(x + np.copysign(x.dtype.type(0.5), x))
    return rounded


def rows(report: ModelReport) -> list[tuple[str, str, int]]:
    return [(row.node.name, row.runtime, row.verdict.wrong) for row in report.verdicts]


def test_each_node_by_each_runtime_has_its_place_result_and_reason(model: Path) -> None:
    report = verify_model(model, {"A": X, "even": X}, ["numpy", half_added])
    name = f"python:{half_added.__module__}:half_added"
    assert [(node, wrong) for node, _, wrong in rows(report)] == [
        ("away", 3),
        ("even", 0),
        ("away", 1),
        ("even", 4),
    ]
    assert not report.right
    away, even, _, wrongly_even = report.verdicts
    assert (away.shape, away.in_model, away.source) == ((2, 3), False, "as given")
    assert away.note == "it has no ties_to_away, so its ties_to_even was run"
    assert str(away.verdict.explanation) == "this is half to even"
    assert [str(example) for example in away.first] == [
        "[0, 0]: x -2.5 (0xc0200000): got -2.0 (0xc0000000), want -3.0 (0xc0400000)",
        "[0, 2]: x 0.5 (0x3f000000): got 0.0 (0x00000000), want 1.0 (0x3f800000)",
        "[1, 1]: x 2.5 (0x40200000): got 2.0 (0x40000000), want 3.0 (0x40400000)",
    ]
    assert even.right
    assert even.first == ()
    assert str(wrongly_even.verdict.explanation) == "this is trunc(x + copysign(0.5, x))"
    assert [example.index for example in wrongly_even.first] == [(0, 0), (0, 2), (1, 1)]
    lines = str(report).splitlines()
    assert lines[0] == str(model)
    assert "even: ELEMENT_WISE_ROUND HALVES_TO_NEAREST_EVEN of float32 [2, 3]" in lines
    assert f"  {even.runtime}, its own operator: 6 results, right" in lines
    assert report.summary == f"{model}: 2 nodes by 2 runtimes, 3 of 4 checks failed"
    assert wrongly_even.runtime == name


def test_a_report_is_json(model: Path) -> None:
    report = verify_model(model, {"A": X, "even": X}, ["numpy"])
    data = json.loads(json.dumps(report.as_data()))
    assert (data["model"], data["right"], data["lacking"]) == (str(model), False, [])
    away, even = data["verdicts"]
    assert (away["node"], away["right"], away["wrong"], away["tried"]) == ("away", False, 3, 6)
    assert (away["shape"], away["in_model"], away["deviations"]) == (
        [2, 3],
        False,
        ["half to even"],
    )
    assert away["first"][0] == {
        "index": [0, 0],
        "x": {"value": "-2.5", "bits": "0xc0200000"},
        "got": {"value": "-2.0", "bits": "0xc0000000"},
        "want": {"value": "-3.0", "bits": "0xc0400000"},
    }
    assert (even["right"], even["first"], even["note"]) == (True, [], None)


def test_inputs_as_arrays_by_name_alone_or_in_files(model: Path, tmp_path: Path) -> None:
    single = tmp_path / "one.json"
    single.write_text(json.dumps(operator("TOWARD_ZERO")))
    np.save(tmp_path / "x.npy", X)
    np.savez(tmp_path / "x.npz", InputTensor=X.astype(">f4"))
    by_name = {"InputTensor": X}
    for inputs in (
        X,
        X.reshape(6, 1).T.reshape(2, 3),
        by_name,
        tmp_path / "x.npy",
        str(tmp_path / "x.npz"),
    ):
        report = verify_model(single, inputs, ["numpy"])
        assert report.right
        assert report.verdicts[0].verdict.tried == 6
    resource_by_the_operator = verify_model(model, {"away": X, "even": X}, ["numpy"])
    assert rows(resource_by_the_operator)[0][2] == 3


def test_a_direction_alone_is_right_by_a_function_that_has_it(model: Path) -> None:
    def rounds(x: npt.NDArray[Any], rounding: str) -> npt.NDArray[Any]:
        bits = x.view("<u4")
        return conformance.rounded(bits, "float32", rounding).view("<f4")

    report = verify_model(model, {"A": X, "even": X}, [rounds])
    assert report.right
    assert [row.note for row in report.verdicts] == ["", ""]


def test_nans_as_in_verify(tmp_path: Path) -> None:
    path = tmp_path / "one.json"
    path.write_text(json.dumps(operator("TOWARD_ZERO", (4,))))
    bits = np.array([0x7F800001, 0x7FC00001, 0xFFC00000, 0x7F800000], np.uint32)
    x = bits.view(np.float32)
    nan_rules: list[tuple[Any, bool]] = [("bits", False), ("quiet", True), ("any", True)]
    for nans, right in nan_rules:
        (row,) = verify_model(path, x, ["numpy"], nans=nans).verdicts
        assert row.right is right
        assert (str(row.verdict.explanation) == "this is NaN quieted") is not right
    (row,) = verify_model(path, x, ["numpy"]).verdicts
    assert str(row).endswith("4 results, right; NaNs are quieted, as IEEE 754 permits")
    (lost,) = verify_model(path, x, [lambda x: np.where(np.isnan(x), x.dtype.type(0), x)]).verdicts
    assert (lost.right, lost.verdict.wrong) == (False, 3)


Inputs = Mapping[str, Any]
BAD: dict[str, tuple[str, Inputs, list[Any], str]] = {
    "no-file": ("nothing.onnx", {}, ["numpy"], "there is no file .*nothing.onnx"),
    "no-model": ("a.txt", {}, ["numpy"], "the name of one ends in .onnx, .xml, .json"),
    "no-runtime": ("dx.json", {}, [], "sequence of at least one name"),
    "unknown": ("dx.json", {}, ["numpie"], 'runtime: got "numpie"; accepted: '),
    "missing-input": (
        "dx.json",
        {"A": X},
        ["numpy"],
        r"needs even \(float32 \[1, 1, 2, 3\]\); got A",
    ),
    "other-input": ("dx.json", {"B": X}, ["numpy"], r"has no input B; it has A \(float32"),
    "dtype": (
        "dx.json",
        {"A": X, "even": X.astype("f8")},
        ["numpy"],
        "be float32, got float64",
    ),
    "shape": ("dx.json", {"A": X.T, "even": X}, ["numpy"], r"got the shape \[3, 2\]"),
    "no-operator": ("none.json", {}, ["numpy"], "has no node that rounds or converts"),
    "unjudged": ("other.json", {}, ["numpy"], "has CAST, DYNAMIC_QUANTIZE_LINEAR, which are not"),
    "no-json": ("broken.json", {}, ["numpy"], "broken.json: not JSON"),
    "fails": ("dx.json", {"A": X, "even": X}, [lambda x: x[1:]], "returned float32 of shape"),
}


@pytest.mark.parametrize(("name", "inputs", "runtimes", "why"), BAD.values(), ids=BAD)
def test_no_verdict(model: Path, name: str, inputs: Inputs, runtimes: list[Any], why: str) -> None:
    (model.parent / "a.txt").write_text("")
    (model.parent / "none.json").write_text('{"dispatchables": {}}')
    kinds = ("CAST", "DYNAMIC_QUANTIZE_LINEAR", "ELEMENT_WISE_CLIP")
    others = {kind: {"type": f"DML_OPERATOR_{kind}"} for kind in kinds}
    (model.parent / "other.json").write_text(json.dumps({"dispatchables": others}))
    (model.parent / "broken.json").write_text("{")
    with pytest.raises(CannotVerify, match=why):
        verify_model(model.parent / name, inputs, runtimes)


def test_several_inputs_need_names(model: Path) -> None:
    with pytest.raises(CannotVerify, match=r"has 2 inputs .*: give them by name"):
        verify_model(model, X, ["numpy"])


def test_elements_of_types_that_npy_has_no_name_for(tmp_path: Path) -> None:
    """An array of bfloat16 in a .npz file is one of raw bytes."""
    from tensor_round_verify.graphs.graph import Declared, Graph

    class Nothing(Graph):
        def observed(self, *_: Any, **__: Any) -> tuple[str, dict[str, Tensor]]:
            raise NotImplementedError

    graph = Nothing(Path("m"), (), [Declared(("x",), np.dtype(ml_dtypes.bfloat16))])
    x = np.array([1.5, -0.0], ml_dtypes.bfloat16)
    np.savez(tmp_path / "x.npz", x=x)
    with np.load(tmp_path / "x.npz") as saved:
        found = graph.bound(dict(saved))["x"]
    assert found.dtype == x.dtype
    assert found.tobytes() == x.tobytes()
