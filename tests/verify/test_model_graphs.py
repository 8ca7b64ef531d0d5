"""Models verified node by node, as far as no runtime but NumPy is needed, and each node's verdict.

tests/interop/oracles/test_model_graphs.py has real models in real runtimes.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from fractions import Fraction
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import numpy.typing as npt
import pytest

import tensor_round_verify as conformance
from tensor_round.contract.dtypes import BY_NAME
from tensor_round_verify import CannotVerify, ModelReport, NotSupported, all_patterns, verify_model
from tensor_round_verify.conversions.linear import dequantized
from tensor_round_verify.graphs.graph import (
    Casting,
    Dequantizing,
    Node,
    Quantizing,
    Rounding,
    Rule,
    cast_rule,
)
from tensor_round_verify.graphs.judging import NoRule, alone, verdict_of
from tensor_round_verify.reference import bits_type
from tensor_round_verify.report import Verdict
from tensor_round_verify.runtimes import PythonFunction, open_runtime
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


Array = npt.NDArray[Any]


def node(rule: Rule) -> Node:
    return Node("n", "Operator", rule, ("x", "scale", "zero_point"), ("y",))


def judged(rule: Rule, got: Array, *operands: Array) -> Verdict:
    return verdict_of(node(rule), [Tensor.of(x) for x in operands], Tensor.of(got), "bits")


def examples(verdict: Verdict) -> list[str]:
    return sorted(str(one) for count in verdict.classes for one in count.first)


def test_a_large_tensor_is_explained_over_all_of_its_elements() -> None:
    """A fault far behind the elements on which deviations are tried first rules one out."""
    x = np.random.default_rng(754).normal(0, 9, 200_000).astype(np.float32)
    x[[17, 150_000]] = 2.5, 1025.5
    got = np.rint(x)
    got[[17, 150_000]] = 3, 1026
    verdict = judged(Rounding("ties_to_even"), got, x.reshape(400, 500))
    assert (verdict.wrong, str(verdict.explanation)) == (1, "this is half away from zero")
    assert examples(verdict)[0].startswith("[0, 17]: x 2.5 ")
    got[199_999] += 1
    verdict = judged(Rounding("ties_to_even"), got, x.reshape(400, 500))
    assert (verdict.wrong, verdict.tried) == (2, 200_000)
    assert str(verdict.explanation) == "no named deviation explains it"


def test_a_tensor_without_elements_and_one_without_dimensions() -> None:
    empty = judged(Rounding("ties_to_even"), *[np.zeros((0, 3), np.float16)] * 2)
    assert (empty.tried, empty.wrong) == (0, 0)
    scalar = judged(Rounding("ties_to_even"), np.float32([3])[0], np.array(2.5, np.float32))
    assert examples(scalar) == [
        "[]: x 2.5 (0x40200000): got 3.0 (0x40400000), want 2.0 (0x40000000)"
    ]


def test_a_cast_that_rounds_twice() -> None:
    x = np.array([[1.125 + 2**-9, 70000]], np.float32)
    got = x.astype(ml_dtypes.bfloat16).astype(ml_dtypes.float8_e5m2)
    verdict = judged(Casting("float8_e5m2"), got, x)
    assert (verdict.wrong, str(verdict.explanation)) == (1, "this is through bfloat16")
    assert examples(verdict)[0].startswith("[0, 0]: x 1.126953")
    verdict = judged(Casting("float8_e5m2", saturate=True), x.astype(ml_dtypes.float8_e5m2), x)
    assert str(verdict.explanation) == "this is does not saturate"


SCALES = np.array([0.5, 0.25], np.float32)
POINTS = np.array([3, 0], np.int8)


def channels(x: Array, axis: int) -> tuple[Array, Array]:
    """Scales and zero points in the shape of the axis."""
    shape = [1] * x.ndim
    shape[axis] = 2
    return SCALES.reshape(shape), POINTS.reshape(shape)


@pytest.mark.parametrize("axis", [0, 1, -1])
def test_a_quantization_by_axis(axis: int) -> None:
    x = np.array([[-1.25, 0.3], [1.125, 99]], np.float32)
    scale, point = channels(x, axis)
    right = np.clip(np.rint(x / scale) + point, -128, 127).astype(np.int8)
    rule = Quantizing(axis)
    assert judged(rule, right, x, SCALES, POINTS).wrong == 0
    away = np.clip(np.trunc(x / scale + np.copysign(0.5, x)) + point, -128, 127).astype(np.int8)
    verdict = judged(rule, away, x, SCALES, POINTS)
    assert verdict.wrong == np.count_nonzero(away != right) >= 1
    assert str(verdict.explanation) == "this is half away from zero"
    assert "by scale 0.5 and zero point 3" in "".join(examples(verdict))
    found, note = alone(node(rule), [Tensor.of(a) for a in (x, SCALES, POINTS)], quantizer())
    assert (found.bits.tobytes(), found.shape, note) == (right.tobytes(), (2, 2), "")


def quantizer() -> PythonFunction:
    def quantize(x: Array, scale: Array, zero_point: Array, axis: int = 0) -> Array:
        shape = (-1, *[1] * (x.ndim - 1 - axis % x.ndim)) if scale.ndim else ()
        quotients = np.rint(x / scale.reshape(shape)) + zero_point.reshape(shape)
        info = np.iinfo(zero_point.dtype)
        clipped: Array = np.clip(quotients, info.min, info.max).astype(zero_point.dtype)
        return clipped

    return PythonFunction(quantize, 30)


def test_a_nan_has_no_quantization() -> None:
    x = np.array([np.nan, 2.5, np.nan, 3.5], np.float32)
    got = np.array([7, 2, 7, 3], np.uint8)
    verdict = judged(Quantizing(0), got, x, np.float32([1]))
    assert (verdict.tried, verdict.wrong) == (2, 1)
    assert examples(verdict)[0].startswith("[3]: x 3.5 ")


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
def test_a_dequantization_is_the_product_rounded_once(dtype: str) -> None:
    own = np.dtype({"bfloat16": ml_dtypes.bfloat16}.get(dtype, dtype))
    q = np.arange(-128, 128, dtype=np.int8).reshape(2, 128)
    scales = np.array([0.1, 7.7], own)
    points = np.array([-5, 100], np.int8)
    integers = q.astype(np.int64) - points[:, None]
    # The product has at most 9 and 24 bits: float64 holds it.
    want = (integers * scales.astype(np.float64)[:, None]).astype(own)
    assert judged(Dequantizing(0), want, q, scales, points).wrong == 0
    wrong = want.copy()
    bits = wrong.view(bits_type(dtype))
    bits[1, 5] += 1
    verdict = judged(Dequantizing(0), wrong, q, scales, points)
    assert (verdict.wrong, verdict.explanation.complete) == (1, False)
    assert examples(verdict)[0].startswith("[1, 5]: x 5 (0x05) by scale 7.")


def test_products_beyond_the_largest_and_of_zero() -> None:
    scales = np.array([60000, 60000, 0.5, 0.5], np.float16).view(np.uint16)
    integers = np.array([2, -2, 0, -1], np.int16).view(np.uint16)
    types = "int16", "float16", "float16"
    found = dequantized(integers, scales, None, types).view(np.float16)
    assert [str(value) for value in found] == ["inf", "-inf", "0.0", "-0.5"]
    odd = np.array([0x3C01], np.uint16)
    exact = Fraction(65535) * (1 + Fraction(1, 1024))
    assert exact > 65504 + 16  # half a place beyond the largest
    whole = np.array([65535], np.uint16)
    assert dequantized(whole, odd, None, ("uint16", *types[1:]))[0] == 0x7C00


LACKING: dict[str, tuple[Rule, list[Array], str]] = {
    "int64-scales": (Quantizing(0), [np.float32([1]), np.int64([1])], "scales of int64"),
    "int32-quotients": (
        Quantizing(0, precision="int32"),
        [np.float32([1]), np.float32([1])],
        "quotients of int32",
    ),
    "zero": (Quantizing(0), [np.float32([1]), np.float32([0])], "not positive and finite"),
    "negative": (Quantizing(0), [np.float32([1]), np.float32([-1])], "not positive and finite"),
    "two-axes": (
        Quantizing(0),
        [np.ones((3, 2), np.float32), np.ones(2, np.float32), np.zeros(2, np.uint8)],
        r"2 scales of \[3, 2\]",
    ),
    "blocks-of-others": (
        Quantizing(1, block_size=2),
        [np.ones((3, 5), np.float32), np.ones((3, 2), np.float32)],
        r"6 scales of \[3, 5\]",
    ),
    "no-such-axis": (
        Quantizing(2, block_size=2),
        [np.ones((3, 4), np.float32), np.ones((3, 2), np.float32)],
        r"6 scales of \[3, 4\]",
    ),
    "float64": (Quantizing(0), [np.float64([1]), np.float64([1])], "float64 to uint8"),
    "bool": (Rounding("ties_to_even"), [np.array([True])], "has type bool"),
    "another-type": (Rounding("ties_to_even"), [np.float32([1])], "turned float32 into uint8"),
    "other": (Casting("int8"), [np.int32([1])], "turned int32 into uint8"),
}


def narrow(*values: float) -> Array:
    return np.array(values, ml_dtypes.float8_e4m3fn)


IN_BLOCKS = np.arange(-11, 11, dtype=np.float32).reshape(2, 11) / 4
OF_BLOCKS = np.array([[0.25, 0.5, 1], [2, 0.125, 0.3]], np.float32)
#: What a node was given, its right result, and what no other rule gives: of blocks whose last is
#: not whole, by zero points that are no integers, with quotients and scales of other types.
SCALED: dict[str, tuple[Rule, list[Array], Array]] = {
    "blocks": (
        Quantizing(1, "int8", block_size=4),
        [IN_BLOCKS, OF_BLOCKS, np.array([[1, 2, 3], [-1, -2, -3]], np.int8)],
        np.clip(
            np.rint(IN_BLOCKS / OF_BLOCKS.repeat(4, 1)[:, :11])
            + np.array([[1, 2, 3], [-1, -2, -3]]).repeat(4, 1)[:, :11],
            -128,
            127,
        ).astype(np.int8),
    ),
    "blocks-back": (
        Dequantizing(-1, block_size=4),
        [np.arange(22, dtype=np.uint8).reshape(2, 11), OF_BLOCKS],
        np.arange(22, dtype=np.float32).reshape(2, 11) * OF_BLOCKS.repeat(4, 1)[:, :11],
    ),
    "float-points": (
        Quantizing(0),
        [np.float32([1, -8, 500]), np.float32([0.5]), narrow(1.5)],
        narrow(3.5, -14, 448),
    ),
    "float-points-back": (
        Dequantizing(0),
        [narrow(3.5, -14, 448), np.float32([0.5]), narrow(1.5)],
        np.float32([1, -7.75, 223.25]),
    ),
    "precision": (
        # In bfloat16 the quotient 257 is 256.
        Quantizing(0, "int16", precision="bfloat16"),
        [np.float32([257, 2.5]), np.float32([1])],
        np.int16([256, 2]),
    ),
    "e8m0-scales": (
        Quantizing(0, "int8"),
        [np.float32([7, 10]), np.array([4], ml_dtypes.float8_e8m0fnu)],
        np.int8([2, 2]),
    ),
    "results-of-another-type": (
        Dequantizing(0, "float16"),
        [np.int8([2, 127]), np.float32([1000])],
        np.float16([2000, np.inf]),
    ),
}


@pytest.mark.parametrize(("rule", "operands", "right"), SCALED.values(), ids=SCALED)
def test_blocks_float_zero_points_precisions_and_scales_of_other_types_are_judged(
    rule: Rule, operands: list[Array], right: Array
) -> None:
    assert judged(rule, right, *operands).right
    wrong = right.copy()
    wrong.view(f"u{right.itemsize}").flat[1] += 1
    assert judged(rule, wrong, *operands).wrong == 1
    asked: list[tuple[int, int]] = []

    def runtime(
        x: Array,
        scale: Array,
        zero_point: Array,
        axis: int = 0,
        block_size: int = 0,
        precision: Any = None,
        output_dtype: Any = None,
    ) -> Array:
        asked.append((axis, block_size))
        assert x.shape == operands[0].shape
        assert scale.tobytes() == operands[1].tobytes()
        assert zero_point.shape == scale.shape
        return wrong

    tensors = [Tensor.of(each) for each in operands]
    found, _ = alone(node(rule), tensors, PythonFunction(runtime, 30))
    assert found.array().tobytes() == wrong.tobytes()
    if operands[0].ndim > 1:
        assert isinstance(rule, Quantizing | Dequantizing)
        assert asked == [(rule.axis, rule.block_size)]


@pytest.mark.parametrize(("rule", "operands", "why"), LACKING.values(), ids=LACKING)
def test_tensors_without_a_rule(rule: Rule, operands: list[Array], why: str) -> None:
    got = np.zeros(operands[0].shape, np.uint8)
    with pytest.raises(NoRule, match=why):
        judged(rule, got, *operands)


CASTS = {
    ("float32", "float16"): Casting("float16"),
    ("bfloat16", "float16"): Casting("float16"),
    ("float16", "float32"): Casting("float32"),
    ("float32", "float32"): Casting("float32"),
    ("", "float32"): Casting("float32"),
    ("int8", "float16"): Casting("float16"),
    ("", "int64"): Casting("int64"),
    ("float32", "bool"): "no rule is known here for a cast from float32 to bool",
    ("", "float8_e8m0fnu"): "no rule is known here for a cast from another type to float8_e8m0fnu",
}


@pytest.mark.parametrize(("types", "rule"), CASTS.items(), ids=map("-to-".join, CASTS))
def test_every_cast_of_numbers_is_judged_and_others_have_a_reason(
    types: tuple[str, str], rule: Casting | str
) -> None:
    assert cast_rule(*types, saturate=False) == rule


@pytest.mark.parametrize("source", ["float16", "bfloat16", "float8_e4m3fn", "float8_e5m2"])
def test_a_widening_cast_keeps_every_number(source: str) -> None:
    x = all_patterns(source).view(BY_NAME[source].numpy)
    wide = x.astype(np.float32)
    assert judged(Casting("float32"), wide, x).right
    wide[1] = 7
    assert judged(Casting("float32"), wide, x).wrong == 1


@pytest.mark.parametrize(
    ("rule", "beyond"),
    [("saturate", [127, 127]), ("x86", [44, 0]), ("arm", [44, -1]), ("wrap", [44, 5])],
)
def test_a_cast_to_integers_follows_any_of_the_rules(rule: str, beyond: list[int]) -> None:
    x = np.array([-1.75, 0.5, 300.0, 2.0**32 + 5, np.nan])
    y = np.array([-1, 0, *beyond, 0], np.int8)
    verdict = judged(Casting("int8"), y, x)
    assert (verdict.right, verdict.rule) == (True, rule)
    y[0] = -2
    assert judged(Casting("int8"), y, x).wrong == 1


def test_the_elements_of_4_bits_come_two_in_a_byte() -> None:
    assert Tensor.of_bytes("int4", (3,), b"\xf1\x07").bits.tolist() == [1, 15, 7]


def test_a_runtime_alone_casts_and_lacks_the_rest() -> None:
    numpy = open_runtime("numpy")
    x = [Tensor.of(np.array([[2.5000001]], np.float32))]
    found, note = alone(node(Casting("bfloat16")), x, numpy)
    assert (found.dtype, found.shape, note) == ("bfloat16", (1, 1), "")
    one = Tensor.of(np.float32([1]))
    with pytest.raises(NotSupported, match="no quantize_linear"):
        alone(node(Quantizing(0)), [*x, one], numpy)
    with pytest.raises(NotSupported, match="no dequantize_linear"):
        alone(node(Dequantizing(0)), [Tensor.of(np.int8([[2]])), one], numpy)
    with pytest.raises(NoRule, match="has type bool"):
        alone(node(Rounding("ties_to_even")), [Tensor.of(np.array([True]))], numpy)
