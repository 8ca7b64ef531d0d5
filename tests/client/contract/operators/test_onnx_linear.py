"""ONNX QuantizeLinear and DequantizeLinear as descriptors: what each version takes."""

from __future__ import annotations

from typing import Any

import pytest

import tensor_round as tr
from tensor_round.contract.call import Call
from tensor_round.contract.dtypes import BY_NAME
from tensor_round.contract.errors import InvalidDescriptor
from tensor_round.contract.functions import Dequantize, Quantize
from tensor_round.contract.operators import registry
from tensor_round.contract.wire import strictjson

Document = dict[str, Any]


def tensor(elem_type: str, *shape: int) -> Document:
    return {"elem_type": elem_type, "shape": list(shape)}


def document(op_type: str = "QuantizeLinear", **members: Any) -> Document:
    """One of an example, with other members; those that are ... are left out."""
    example = registry.OPERATORS[f"onnx:{op_type}"].descriptor.example
    changed = {**example, "block_size": ..., **members}
    return {name: value for name, value in changed.items() if value is not ...}


def resolved(given: Document) -> Call:
    return registry.parse(strictjson.dumps(given)).resolve()


PER_TENSOR = {"y_scale": tensor("FLOAT"), "y_zero_point": tensor("INT8")}

# members of QuantizeLinear-25, and the sizes of blocks and numbers of scales of each dimension
GRANULARITIES: dict[str, tuple[Document, tuple[int, ...], tuple[int, ...]]] = {
    "per axis": ({}, (2, 1), (1, 3)),
    "per tensor": (PER_TENSOR, (2, 3), (1, 1)),
    "per tensor, by one element": (
        {"y_scale": tensor("FLOAT", 1), "y_zero_point": tensor("INT8", 1)},
        (2, 3),
        (1, 1),
    ),
    "per tensor, by a scalar and one element": (
        {"y_scale": tensor("FLOAT"), "y_zero_point": tensor("INT8", 1)},
        (2, 3),
        (1, 1),
    ),
    "a negative axis": (
        {"axis": -2, "y_scale": tensor("FLOAT", 2), "y_zero_point": ...},
        (1, 3),
        (2, 1),
    ),
    "blocked": (
        {"block_size": 2, "y_scale": tensor("FLOAT", 2, 2), "y_zero_point": None},
        (1, 2),
        (2, 2),
    ),
    "one dimension, blocked": (
        {
            "axis": 0,
            "block_size": 4,
            "input": tensor("FLOAT", 5),
            "y_scale": tensor("FLOAT", 2),
            "y_zero_point": tensor("UINT4", 2),
        },
        (4,),
        (2,),
    ),
    "no elements": (
        {
            "input": tensor("FLOAT", 2, 0),
            "y_scale": tensor("FLOAT", 0),
            "y_zero_point": tensor("INT8", 0),
        },
        (2, 1),
        (1, 0),
    ),
}


@pytest.mark.parametrize(("members", "blocks", "counts"), GRANULARITIES.values(), ids=GRANULARITIES)
def test_a_scales_shape_tells_what_it_is_for(
    members: Document, blocks: tuple[int, ...], counts: tuple[int, ...]
) -> None:
    parameters = resolved(document(**members)).parameters
    assert parameters is not None
    assert (parameters.blocks, parameters.scale.shape) == (blocks, counts)


def test_the_result_has_the_type_of_the_zero_point_or_output_dtype_or_is_uint8() -> None:
    named = {
        "int8": {},
        "uint8": {"y_zero_point": ...},
        "float8_e5m2": {"y_zero_point": None, "output_dtype": 19},
        "int4": {"y_zero_point": None, "output_dtype": "INT4"},
        "uint16": {"y_zero_point": tensor("UINT16", 3), "output_dtype": "UINT16"},
    }
    for dtype, members in named.items():
        assert resolved(document(**members)).output.dtype.name == dtype


def test_attributes_are_those_of_the_function() -> None:
    assert resolved(document()).function == Quantize()
    made = resolved(document(precision="FLOAT16", saturate=0, output_dtype=0))
    assert made.function == Quantize(precision=BY_NAME["float16"], saturates=False)
    given = resolved(document("DequantizeLinear", output_dtype="BFLOAT16"))
    assert given.function == Dequantize()
    assert given.output.dtype.name == "bfloat16"
    assert resolved(document("DequantizeLinear")).output.dtype.name == "float32"


Q, D = "QuantizeLinear", "DequantizeLinear"
# operator, members, the path of the fault and a part of its message
FAULTS: dict[str, tuple[str, Document, str, str]] = {
    "an old opset": (Q, {"opset_version": 9}, "opset_version", "QuantizeLinear-10 is the oldest"),
    "a future one": (Q, {"opset_version": 99}, "opset_version", "newest opset known here is 28"),
    "axis before it": (Q, {"opset_version": 10, **PER_TENSOR}, "axis", "needs opset 13"),
    "scales before axis": (Q, {"opset_version": 10, "axis": ...}, "y_scale.shape", "a scalar"),
    "saturate before it": (Q, {"opset_version": 13, "saturate": 1}, "saturate", "opset 19"),
    "blocks before them": (Q, {"opset_version": 19, "block_size": 0}, "block_size", "opset 21"),
    "precision before it": (Q, {"opset_version": 21, "precision": 1}, "precision", "opset 23"),
    "another precision": (Q, {"precision": "INT8"}, "precision", "FLOAT16 or BFLOAT16, got INT8"),
    "a newer type": (
        Q,
        {"opset_version": 19, "y_zero_point": tensor("INT4", 3)},
        "y_zero_point.elem_type",
        "INT4 needs opset 21 or newer; onnx QuantizeLinear-19 (opsets 19 to 20) takes INT8, ",
    ),
    "a newer result": (
        Q,
        {"opset_version": 22, "y_zero_point": None, "output_dtype": "FLOAT4E2M1"},
        "output_dtype",
        "FLOAT4E2M1 needs opset 23",
    ),
    "a type of no version": (Q, {"input": tensor("DOUBLE", 2, 3)}, "input.elem_type", "DOUBLE"),
    "a type of two bits": (Q, {"output_dtype": 25}, "output_dtype", "two bits are not served"),
    "a scale of another type": (
        Q,
        {"opset_version": 21, "y_scale": tensor("FLOAT16", 3)},
        "y_scale.elem_type",
        "must be the type of input, FLOAT, before opset 23",
    ),
    "a newer scale": (
        D,
        {"opset_version": 23, "x_scale": tensor("FLOAT8E8M0", 3)},
        "x_scale.elem_type",
        "FLOAT8E8M0 needs opset 24",
    ),
    "a scale that no result has": (
        D,
        {"x_scale": tensor("FLOAT8E8M0", 3)},
        "output_dtype",
        "takes FLOAT, FLOAT16, BFLOAT16",
    ),
    "a zero point of another type": (
        Q,
        {"output_dtype": "UINT8"},
        "y_zero_point.elem_type",
        "must be output_dtype, UINT8, got INT8",
    ),
    "a zero point not of the operand's": (
        D,
        {"x_zero_point": tensor("UINT8", 3)},
        "x_zero_point.elem_type",
        "must be the type of input, INT8, got UINT8",
    ),
    "a zero point of another shape": (
        Q,
        {"y_zero_point": tensor("INT8", 2)},
        "y_zero_point.shape",
        "must have the shape of y_scale, [3], got [2]",
    ),
    "another number of scales": (
        Q,
        {"y_scale": tensor("FLOAT", 4), "y_zero_point": None},
        "y_scale.shape",
        "must be [3] for each index of axis 1, got [4]",
    ),
    "another number of blocks": (
        Q,
        {"block_size": 2, "y_scale": tensor("FLOAT", 2, 3), "y_zero_point": None},
        "y_scale.shape",
        "must be [2, 2], for axis 1 and blocks of 2, got [2, 3]",
    ),
    "blocks without a size": (
        Q,
        {"y_scale": tensor("FLOAT", 2, 2), "y_zero_point": None},
        "y_scale.shape",
        "with block_size the 2 of input",
    ),
    "an axis out of range": (Q, {"axis": 2}, "axis", "must be from -2 to 1"),
    "a scale beyond the input beside it": (
        Q,
        {"axis": 2, "y_scale": tensor("FLOAT", 1 << 62), "y_zero_point": None},
        "y_scale.shape",
        "must be at most the sizes of input, [2, 3]",
    ),
    "a negative size of blocks": (Q, {"block_size": -1}, "block_size", "at least 0"),
    "an unknown field": (Q, {"zero_point": None}, "zero_point", "unknown field"),
    "no scale": (Q, {"y_scale": ...}, "y_scale", "is required"),
}


@pytest.mark.parametrize(("op_type", "members", "path", "message"), FAULTS.values(), ids=FAULTS)
def test_a_refused_descriptor_names_the_field_and_the_rule(
    op_type: str, members: Document, path: str, message: str
) -> None:
    with pytest.raises(InvalidDescriptor) as refused:
        resolved(document(op_type, **members))
    found = {".".join(map(str, fault.loc)): fault.msg for fault in refused.value.faults}
    assert path in found
    assert message in found[path]


@pytest.mark.parametrize(("name", "value"), [("axis", True), ("axis", 1.0), ("block_size", False)])
def test_values_that_equal_a_default_are_no_integers(name: str, value: Any) -> None:
    for made in (tr.OnnxQuantizeLinear, tr.OnnxDequantizeLinear):
        with pytest.raises(InvalidDescriptor, match=f"{name}: must be an integer"):
            made(**{name: value})


@pytest.mark.parametrize("op_type", ["QuantizeLinear", "DequantizeLinear"])
@pytest.mark.parametrize("opset", [10, 13, 19, 21, 23, 24, 25, 28])
def test_every_version_has_what_the_first_one_has(op_type: str, opset: int) -> None:
    scale, point = ("y_scale", "y_zero_point") if op_type == Q else ("x_scale", "x_zero_point")
    members = {scale: tensor("FLOAT"), point: tensor("INT8"), "axis": ...}
    call = resolved(document(op_type, opset_version=opset, **members))
    assert {call.input.dtype.name, call.output.dtype.name} == {"float32", "int8"}
    assert call.payload_bytes == call.input.byte_length + 5
