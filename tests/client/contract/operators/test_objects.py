"""Operators as objects: values, and what other programs write of them."""

from __future__ import annotations

import json
from dataclasses import FrozenInstanceError
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import tensor_round as tr
from tensor_round.contract.operators.operator import as_operator


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


def test_decimals_are_refused_by_either_name() -> None:
    given: Any = as_operator
    assert given(None, decimals=0) == as_operator(None)
    told = "rounding is to integers only, so scale first"
    with pytest.raises(tr.InvalidArgument, match=f"decimals must be 0: {told}"):
        given(None, decimals=2)
    with pytest.raises(tr.InvalidDescriptor, match=f"direction, got 2: {told}") as caught:
        given(2)
    assert caught.value.faults[0].loc == ("rounding",)


def test_an_operator_is_itself() -> None:
    for operator in (tr.OnnxRound(13), tr.DirectMLRound("TOWARD_ZERO")):
        assert as_operator(operator) is operator


def test_a_dtype_that_nobody_has_is_quoted() -> None:
    make: Any = tr.OnnxRound().descriptor
    with pytest.raises(tr.InvalidDescriptor, match='got "float33"; did you mean FLOAT'):
        make("float33", (2,))


def test_repr_omits_fields_that_equality_ignores() -> None:
    layer = '<layer type="Round"><input><port precision="I8"><dim>3</dim></port></input></layer>'
    shown = {
        tr.from_openvino(layer): "OpenVINORound(mode='half_to_even')",
        tr.from_onnx(node(domain="ai.onnx"), 11): "OnnxRound(opset_version=11)",
        tr.from_dxdispatch(OPERATOR): "DirectMLRound(rounding_mode='TOWARD_ZERO', "
        "feature_level='3_0')",
    }
    assert {operator: repr(operator) for operator in shown} == shown


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
