"""Operators as objects: checked here by the same models, with the same words, as there."""

from __future__ import annotations

import json
from dataclasses import FrozenInstanceError
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import tensor_round as tr
from support.cases.descriptors import EXAMPLES
from tensor_round import operators
from tensor_round.dtypes import DTYPES
from tensor_round.operators.objects import as_operator

OPERATORS: dict[str, tuple[tr.RoundOperator, str]] = {
    "ieee754": (tr.IEEE754Round("ties_to_even"), "float32"),
    "onnx": (tr.OnnxRound(opset_version=22), "float16"),
    "openvino": (tr.OpenVINORound(mode="half_to_even"), "float32"),
    "directml": (tr.DirectMLRound("HALVES_TO_NEAREST_EVEN", feature_level="3_0"), "float32"),
    "webnn": (tr.WebNNRoundEven(), "float16"),
    "stablehlo": (tr.StableHLORound("round_nearest_afz"), "float16"),
    "array_api": (tr.ArrayAPIRound("round"), "float32"),
}


@pytest.mark.parametrize("dialect", OPERATORS)
def test_an_operator_makes_the_published_example(dialect: str) -> None:
    operator, dtype = OPERATORS[dialect]
    made = operator.prepare(dtype, (2, 3))
    assert operators.parse(made.descriptor) == operators.validate(EXAMPLES[dialect])
    assert made.call == operators.validate(EXAMPLES[dialect]).resolve()


def test_defaults_are_halves_to_even() -> None:
    for kind in {type(operator) for operator, _ in OPERATORS.values()}:
        operator = kind()
        assert operator.prepare("float32", (1,)).call.rounding == "ties_to_even"


@pytest.mark.parametrize("dialect", OPERATORS)
@pytest.mark.parametrize("dtype", [d.name for d in DTYPES])
def test_each_dtype_is_taken_or_refused_by_the_dialect_s_own_rule(dialect: str, dtype: str) -> None:
    operator, _ = OPERATORS[dialect]
    if dtype in operators.DIALECTS[dialect].dtypes.values():
        assert operator.prepare(dtype, (2,)).call.input.dtype.name == dtype
    else:
        with pytest.raises(tr.InvalidDescriptor, match="takes"):
            operator.prepare(dtype, (2,))


#: Called as by someone whom no type checker stops.
ANY_ROUNDING: Any = tr.IEEE754Round
ANY_OPERATOR: Any = as_operator

REFUSED: dict[str, tuple[Any, tuple[str | int, ...], str]] = {
    "rounding": (lambda: tr.IEEE754Round("up"), ("rounding",), 'got "up"'),
    "rounding-type": (lambda: ANY_ROUNDING(1), ("rounding",), "got 1"),
    "opset-old": (lambda: tr.OnnxRound(10), ("opset_version",), "opset 11"),
    "opset-new": (lambda: tr.OnnxRound(99), ("opset_version",), "newest"),
    "opset-bool": (lambda: tr.OnnxRound(True), ("opset_version",), "integer"),
    "mode-case": (lambda: tr.OpenVINORound("HALF_TO_EVEN"), ("data", "mode"), "half_to_even"),
    "dml-mode": (lambda: tr.DirectMLRound("CEIL"), ("desc", "RoundingMode"), "CEIL"),
    "dml-level": (lambda: tr.DirectMLRound(feature_level="1_0"), ("feature_level",), "2_1"),
    "hlo-op": (lambda: tr.StableHLORound("round"), ("op",), "round_nearest_afz"),
    "array-api-op": (lambda: tr.ArrayAPIRound("rint"), ("op",), "round, trunc, ceil, floor"),
    "unhashable": (lambda: ANY_ROUNDING(["x"]), ("rounding",), "array"),
    "plain-string": (lambda: as_operator("round"), ("rounding",), 'got "round"'),
    "no-operator": (lambda: ANY_OPERATOR(7), ("rounding",), "got 7"),
    "dml-rank": (
        lambda: tr.DirectMLRound(feature_level="2_1").prepare("float32", (2, 3)),
        ("desc", "InputTensor", "Sizes"),
        "exactly 4",
    ),
    "dml-empty": (
        lambda: tr.DirectMLRound().prepare("float32", (2, 0)),
        ("desc", "InputTensor", "Sizes", 1),
        "greater than or equal to 1|at least 1",
    ),
    "dml-vast": (
        lambda: tr.DirectMLRound().prepare("float16", (1 << 16, 1 << 16)),
        ("desc", "InputTensor", "Sizes"),
        r"2\^32-1",
    ),
    "onnx-bf16": (
        lambda: tr.OnnxRound(opset_version=21).prepare("bfloat16", (2,)),
        ("input", "elem_type"),
        "Round-11",
    ),
    "complex": (
        lambda: tr.IEEE754Round().prepare("complex64", (2,)),
        ("input", "dtype"),
        'got "complex64"',
    ),
    "rank": (lambda: tr.IEEE754Round().prepare("int8", (1,) * 33), ("input", "shape"), "32"),
}


@pytest.mark.parametrize(("make", "loc", "why"), REFUSED.values(), ids=REFUSED)
def test_refusals_say_where_and_why(make: Any, loc: tuple[str | int, ...], why: str) -> None:
    with pytest.raises(tr.InvalidDescriptor, match=why) as caught:
        make()
    assert caught.value.faults[0].loc == loc
    assert (caught.value.status, caught.value.code) == (422, "invalid_descriptor")


def test_operators_are_values() -> None:
    a, b = tr.OpenVINORound("half_away_from_zero"), tr.OpenVINORound(mode="half_away_from_zero")
    assert a == b
    assert hash(a) == hash(b)
    assert a != tr.OpenVINORound()
    assert repr(a) == "OpenVINORound(mode='half_away_from_zero')"
    with pytest.raises(FrozenInstanceError):
        a.mode = "half_to_even"  # type: ignore[misc]


def test_a_string_or_a_rounding_is_an_ieee754_operator() -> None:
    for rounding in tr.Rounding:
        assert as_operator(rounding) == as_operator(rounding.value) == tr.IEEE754Round(rounding)


def test_the_direction_may_be_given_by_its_own_name() -> None:
    assert as_operator(None) == as_operator("ties_to_even") == tr.IEEE754Round()
    assert as_operator(None, "toward_zero") == tr.IEEE754Round("toward_zero")
    with pytest.raises(tr.InvalidArgument, match="one of the two"):
        as_operator("toward_zero", "toward_zero")


def node(**changes: Any) -> Any:
    fields = {"op_type": "Round", "domain": "", "attribute": [], "input": ["x"], "output": ["y"]}
    return SimpleNamespace(**{**fields, **changes})


def test_from_onnx_reads_a_node() -> None:
    assert tr.from_onnx(node(), 11) == tr.OnnxRound(opset_version=11)
    assert tr.from_onnx(node(domain="ai.onnx"), opset=22) == tr.OnnxRound()


@pytest.mark.parametrize(
    "changes",
    [
        {"op_type": "Ceil"},
        {"domain": "com.microsoft"},
        {"attribute": ["mode"]},
        {"input": []},
        {"output": ["y", "z"]},
    ],
    ids=lambda changes: next(iter(changes)),
)
def test_from_onnx_refuses_what_is_not_onnx_round(changes: dict[str, Any]) -> None:
    with pytest.raises(tr.InvalidDescriptor) as caught:
        tr.from_onnx(node(**changes), 22)
    assert caught.value.faults[0].loc == tuple(changes)


def test_from_onnx_refuses_an_opset_without_round() -> None:
    with pytest.raises(tr.InvalidDescriptor, match="opset 11"):
        tr.from_onnx(node(), 10)


#: As DxDispatch's own models are: an operator among resources and commands.
MODEL = {
    "$schema": "./_schema.json",
    "resources": {
        "A": {"initialValuesDataType": "FLOAT32", "initialValues": [-1.5, 0.5, 1.5]},
    },
    "dispatchables": {
        "round": {
            "type": "DML_OPERATOR_ELEMENT_WISE_ROUND",
            "desc": {
                "InputTensor": {"DataType": "FLOAT32", "Sizes": [3]},
                "OutputTensor": {"DataType": "DML_TENSOR_DATA_TYPE_FLOAT32", "Sizes": [3]},
                "RoundingMode": "DML_ROUNDING_MODE_TOWARD_ZERO",
            },
            "dmlCompileType": "DmlCompileGraph",
        },
        "clip": {"type": "DML_OPERATOR_ELEMENT_WISE_CLIP", "desc": {"Min": -2.5}},
    },
    "commands": [
        {
            "type": "dispatch",
            "dispatchable": "round",
            "bindings": {"InputTensor": "A", "OutputTensor": "A"},
        }
    ],
}
OPERATOR = MODEL["dispatchables"]["round"]  # type: ignore[index]


@pytest.mark.parametrize(
    "document",
    [MODEL, OPERATOR, json.dumps(MODEL), json.dumps(OPERATOR).encode()],
    ids=["model", "operator", "text", "bytes"],
)
def test_from_dxdispatch_reads_operators_and_models(document: Any) -> None:
    assert tr.from_dxdispatch(document) == tr.DirectMLRound("TOWARD_ZERO")
    read = tr.from_dxdispatch(document, feature_level="DML_FEATURE_LEVEL_6_0")
    assert read == tr.DirectMLRound("TOWARD_ZERO", feature_level="6_0")


LENIENT = """
/* a model, as people keep them */
{ // of one operator
    "Type": "DML_OPERATOR_ELEMENT_WISE_ROUND", "name": "a // b /* c */, }",
    "Desc": {
        "InputTensor": {"Type": "BUFFER", "Desc": {"DataType": "FLOAT32", "Sizes": [3 /*,*/, ], }},
        "OutputTensor": {"DataType": "FLOAT32", "Sizes": [3,], }, // the same
        "RoundingMode": "TOWARD_ZERO",
    },
}
// \u00fc
"""


@pytest.mark.parametrize("make", [str, str.encode], ids=["text", "bytes"])
def test_from_dxdispatch_is_as_lenient_as_dxdispatch(make: Any) -> None:
    assert tr.from_dxdispatch(make(LENIENT)) == tr.DirectMLRound("TOWARD_ZERO")


@pytest.mark.parametrize("make", [Path, str], ids=["path", "text"])
def test_from_dxdispatch_reads_a_file(tmp_path: Path, make: Any) -> None:
    path = tmp_path / "model.json"
    path.write_text(LENIENT, encoding="utf-8")
    assert tr.from_dxdispatch(make(path)) == tr.DirectMLRound("TOWARD_ZERO")


@pytest.mark.parametrize("make", [Path, str], ids=["path", "text"])
def test_from_dxdispatch_names_the_file_that_cannot_be_read(tmp_path: Path, make: Any) -> None:
    path = tmp_path / "nothing.json"
    with pytest.raises(tr.InvalidArgument, match=r"nothing\.json cannot be read: No such file"):
        tr.from_dxdispatch(make(path))


@pytest.mark.parametrize(
    "text", ["{,}", "[1,,2]", "{/*", "{} /", '{"a" // : 1}', "{'a': 1}", "", "{# a\n}"]
)
def test_from_dxdispatch_is_no_more_lenient(text: str) -> None:
    with pytest.raises((tr.MalformedJSON, tr.InvalidDescriptor)):
        tr.from_dxdispatch(text)


BAD_DXDISPATCH: dict[str, tuple[Any, type[tr.TensorRoundError], str]] = {
    "no-json": ("{", tr.MalformedJSON, "JSON"),
    "no-object": ("[1]", tr.InvalidDescriptor, "JSON object"),
    "no-operator": ({"dispatchables": {}}, tr.InvalidDescriptor, "got 0"),
    "two-operators": (
        {"dispatchables": {"a": OPERATOR, "b": OPERATOR}},
        tr.InvalidDescriptor,
        "got 2",
    ),
    "other-operator": (
        {**OPERATOR, "type": "DML_OPERATOR_ELEMENT_WISE_CEIL"},
        tr.InvalidDescriptor,
        "ELEMENT_WISE_ROUND",
    ),
    "no-desc": ({"type": "DML_OPERATOR_ELEMENT_WISE_ROUND"}, tr.InvalidDescriptor, "desc"),
    "unlawful-tensors": (
        {
            **OPERATOR,
            "desc": {
                **OPERATOR["desc"],
                "OutputTensor": {"DataType": "FLOAT32", "Sizes": [4]},
            },
        },
        tr.InvalidDescriptor,
        "OutputTensor",
    ),
}


@pytest.mark.parametrize(("document", "kind", "why"), BAD_DXDISPATCH.values(), ids=BAD_DXDISPATCH)
def test_from_dxdispatch_refuses(document: Any, kind: type[tr.TensorRoundError], why: str) -> None:
    with pytest.raises(kind, match=why):
        tr.from_dxdispatch(document)
