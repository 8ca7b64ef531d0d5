"""The onnx dialect: Round-11 and Round-22, and what their specification refuses."""

from __future__ import annotations

from typing import Any

import pytest

from support.cases.descriptors import ABSENT, faults, resolved, varied
from tensor_round.rounding import Rounding

# TensorProto.DataType, type string, canonical dtype, the oldest opset that takes it
TYPES = [
    ("FLOAT16", "tensor(float16)", "float16", 11),
    ("FLOAT", "tensor(float)", "float32", 11),
    ("DOUBLE", "tensor(double)", "float64", 11),
    ("BFLOAT16", "tensor(bfloat16)", "bfloat16", 22),
]
OPSETS = range(11, 29)


@pytest.mark.parametrize("opset", OPSETS)
@pytest.mark.parametrize(("name", "type_string", "dtype", "since"), TYPES)
def test_each_opset_takes_its_versions_types(
    opset: int, name: str, type_string: str, dtype: str, since: int
) -> None:
    for spelling in (name, type_string):
        document = varied("onnx", {"opset_version": opset, "input.elem_type": spelling})
        if opset >= since:
            call = resolved(document)
            assert call.input.dtype.name == dtype
            assert call.rounding is Rounding.TIES_TO_EVEN
            assert call.is_in_place
        else:
            assert faults(document) == {
                "input.elem_type": "onnx Round-11 (opsets 11 to 21) takes FLOAT16, FLOAT, DOUBLE, "
                "got BFLOAT16"
            }


@pytest.mark.parametrize(
    "shape", [[], [0], [3, 0], [2] * 9, [1] * 32], ids=["scalar", "0", "3x0", "rank 9", "rank 32"]
)
def test_any_rank_and_empty_tensors_are_fine(shape: list[int]) -> None:
    assert resolved(varied("onnx", {"input.shape": shape})).output.shape == tuple(shape)


NOT_ROUND = [
    *("INT8", "INT16", "INT32", "INT64", "UINT8", "UINT16", "UINT32", "UINT64", "BOOL", "STRING"),
    *("COMPLEX64", "FLOAT8E4M3FN", "FLOAT8E5M2", "INT4", "UNDEFINED", "tensor(int32)"),
    *("float16", "Float", "tensor(FLOAT)", "float32", "seq(tensor(float))", "", 1, 10, None, True),
]


@pytest.mark.parametrize("elem_type", NOT_ROUND)
def test_other_types_are_refused_with_those_that_round_takes(elem_type: Any) -> None:
    found = faults(varied("onnx", {"input.elem_type": elem_type}))

    assert found.keys() == {"input.elem_type"}
    assert found["input.elem_type"].startswith(
        "onnx: Round takes FLOAT16, FLOAT, DOUBLE, BFLOAT16, got "
    )


@pytest.mark.parametrize("domain", ["", "ai.onnx"])
def test_the_default_domain_has_two_names(domain: str) -> None:
    assert resolved(varied("onnx", {"domain": domain})) == resolved(varied("onnx", {}))


REFUSALS: dict[str, tuple[dict[str, Any], dict[str, str]]] = {
    "before Round was": (
        {"opset_version": 10},
        {"opset_version": "onnx: Round was introduced in opset 11, got 10"},
    ),
    "opset 0": ({"opset_version": 0}, {"opset_version": "introduced in opset 11, got 0"}),
    "a negative opset": ({"opset_version": -1}, {"opset_version": "introduced in opset 11"}),
    "beyond the newest": (
        {"opset_version": 29},
        {"opset_version": "onnx: the newest opset known here is 28, got 29"},
    ),
    "far beyond": (
        {"opset_version": 10**60},
        {"opset_version": "got an integer of 200 bits"},
    ),
    "opset as text": ({"opset_version": "22"}, {"opset_version": "must be an integer"}),
    "opset as float": ({"opset_version": 22.0}, {"opset_version": "must be an integer"}),
    "opset as bool": ({"opset_version": True}, {"opset_version": "must be an integer"}),
    "no opset": ({"opset_version": ABSENT}, {"opset_version": "is required"}),
    "another operator": ({"op_type": "Ceil"}, {"op_type": "must be 'Round', got \"Ceil\""}),
    "lower case": ({"op_type": "round"}, {"op_type": "must be 'Round'"}),
    "no operator": ({"op_type": ABSENT}, {"op_type": "is required"}),
    "no input": ({"input": ABSENT}, {"input": "is required"}),
    "no type": ({"input.elem_type": ABSENT}, {"input.elem_type": "is required"}),
    "no shape": ({"input.shape": ABSENT}, {"input.shape": "is required"}),
    "a symbolic dimension": ({"input.shape": ["N"]}, {"input.shape.0": 'an integer, got "N"'}),
    "a negative dimension": ({"input.shape": [-1]}, {"input.shape.0": "at least 0"}),
    "33 dimensions": ({"input.shape": [1] * 33}, {"input.shape": "at most 32 dimensions, got 33"}),
    "strides, which ONNX has not": ({"input.strides": [1]}, {"input.strides": "unknown field"}),
    "a mode, which Round has not": ({"mode": "half_to_even"}, {"mode": "unknown field"}),
    "another domain": ({"domain": "com.microsoft"}, {"domain": "must be '' or 'ai.onnx', got"}),
    "a null domain": ({"domain": None}, {"domain": "got null"}),
}


@pytest.mark.parametrize(("changes", "expected"), REFUSALS.values(), ids=REFUSALS)
def test_what_breaks_a_rule_is_refused_with_where_and_why(
    changes: dict[str, Any], expected: dict[str, str]
) -> None:
    found = faults(varied("onnx", changes))

    assert found.keys() == expected.keys()
    for path, part in expected.items():
        assert part in found[path]
