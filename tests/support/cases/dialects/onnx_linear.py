"""``onnx``: QuantizeLinear and DequantizeLinear.

What each version takes and refuses beyond the rules of every operator is in
``tests/client/contract/operators/test_onnx_linear.py``.
"""

from __future__ import annotations

from typing import Any

import tensor_round as tr
from support.cases.dialect import ABSENT, Model, OperatorCases, datatypes, spelled

#: TensorProto's names, in its table's order there.
FLOATS = {"FLOAT16": "float16", "BFLOAT16": "bfloat16", "FLOAT": "float32"}
FLOATS_OF_8_BITS = {
    "FLOAT8E4M3FN": "float8_e4m3fn",
    "FLOAT8E5M2": "float8_e5m2",
    "FLOAT8E4M3FNUZ": "float8_e4m3fnuz",
    "FLOAT8E5M2FNUZ": "float8_e5m2fnuz",
}
CODES = {
    **FLOATS_OF_8_BITS,
    "INT8": "int8",
    "INT16": "int16",
    "UINT8": "uint8",
    "UINT16": "uint16",
    "UINT4": "uint4",
    "INT4": "int4",
    "FLOAT4E2M1": "float4_e2m1fn",
}
TYPES = {**FLOATS, **CODES, "INT32": "int32", "FLOAT8E8M0": "float8_e8m0fnu"}
#: The datatypes of the operands, by the version that added them.
QUANTIZED = {
    "10": ("float32", "int32"),
    "13": (),
    "19": ("float16", "bfloat16"),
    "21": (),
    "23": (),
    "24": (),
    "25": (),
}
DEQUANTIZED = {
    "10": ("int8", "uint8", "int32"),
    "13": (),
    "19": ("float8_e4m3fn", "float8_e4m3fnuz", "float8_e5m2", "float8_e5m2fnuz"),
    "21": ("int16", "uint16", "int4", "uint4"),
    "23": ("float4_e2m1fn",),
    "24": (),
    "25": (),
}
ANY_QUANTIZE: Any = tr.OnnxQuantizeLinear
ANY_DEQUANTIZE: Any = tr.OnnxDequantizeLinear


def versions(added: dict[str, tuple[str, ...]]) -> dict[str, tuple[str, str]]:
    """The versions of a model."""
    known: tuple[str, ...] = ()
    found = {}
    for version, dtypes in added.items():
        known = (*known, *dtypes)
        found[version] = (datatypes(known), "0-32")
    return found


def per_tensor(*names: str) -> dict[str, Any]:
    """What makes the example one of opset 10."""
    scale, point = names
    return {
        "axis": ABSENT,
        scale: {"elem_type": "FLOAT", "shape": []},
        point: {"elem_type": "INT8", "shape": []},
    }


CASES = {
    "onnx:QuantizeLinear": OperatorCases(
        example={
            "dialect": "onnx",
            "op_type": "QuantizeLinear",
            "opset_version": 25,
            "axis": 1,
            "block_size": 0,
            "input": {"elem_type": "FLOAT", "shape": [2, 3]},
            "y_scale": {"elem_type": "FLOAT", "shape": [3]},
            "y_zero_point": {"elem_type": "INT8", "shape": [3]},
        },
        operator=(tr.OnnxQuantizeLinear("int8"), "<f4"),
        parameters=(("float32", [3]), ("int8", [3])),
        word="onnx:QuantizeLinear",
        dtypes=TYPES,
        rounds_to_integral=False,
        defaulted={"axis", "block_size", "y_zero_point"},
        accepted=[
            (spelled(0, 1, at=["saturate"]), {"output.dtype.name": "int8"}),
            (spelled("", "ai.onnx", at=["domain"]), None),
            (spelled(0, "UNDEFINED", "INT8", 3, at=["output_dtype"]), None),
        ],
        refusals=[
            ("input.elem_type", "DOUBLE", "onnx: quantization takes FLOAT16, BFLOAT16, FLOAT, "),
            ("axis", 2, "must be from -2 to 1, the dimensions of input, got 2"),
        ],
        refused=[
            (lambda: ANY_QUANTIZE("int8", 9), "opset_version", "is the oldest version known"),
            (lambda: ANY_QUANTIZE("int16", 13), "y_zero_point.elem_type", "needs opset 21"),
            (lambda: ANY_QUANTIZE(axis=0, opset_version=10), "axis", "axis needs opset 13"),
            (lambda: ANY_QUANTIZE(precision="int8"), "precision", "must be FLOAT, "),
        ],
        words={
            "onnx:QuantizeLinear": tr.OnnxQuantizeLinear(),
            "onnx:QuantizeLinear:13": tr.OnnxQuantizeLinear(opset_version=13),
            "onnx": tr.OnnxQuantizeLinear(),
            "onnx:21": tr.OnnxQuantizeLinear(opset_version=21),
        },
        wrong_words={
            "onnx:QuantizeLinear:x": "onnx:QuantizeLinear:OPSET (10 to 28)",
            "onnx:QuantizeLinear:9": "is the oldest version known here, got 9",
            "onnx:Cast:24": "write onnx:QuantizeLinear or",
            "openvino": 'got "openvino"; accepted: onnx:QuantizeLinear',
        },
        spelling="onnx:QuantizeLinear or onnx:QuantizeLinear:OPSET (10 to 28)",
        optional=("domain", "output_dtype", "precision", "saturate"),
        in_every_version={**per_tensor("y_scale", "y_zero_point"), "block_size": ABSENT},
        model=Model(
            "onnx_quantize_linear",
            "x",
            "y",
            None,
            versions(QUANTIZED),
            ("y_scale", "y_zero_point"),
            ("y_zero_point", "y"),
        ),
    ),
    "onnx:DequantizeLinear": OperatorCases(
        example={
            "dialect": "onnx",
            "op_type": "DequantizeLinear",
            "opset_version": 25,
            "axis": 1,
            "input": {"elem_type": "INT8", "shape": [2, 3]},
            "x_scale": {"elem_type": "FLOAT", "shape": [3]},
            "x_zero_point": None,
        },
        operator=(tr.OnnxDequantizeLinear("float32"), "i1"),
        parameters=(("float32", [3]),),
        word="onnx:DequantizeLinear",
        dtypes=TYPES,
        rounds_to_integral=False,
        defaulted={"axis", "x_zero_point"},
        accepted=[
            (spelled(0, "UNDEFINED", "FLOAT", 1, at=["output_dtype"]), None),
            (spelled("FLOAT16", 10, at=["output_dtype"]), {"output.dtype.name": "float16"}),
        ],
        refusals=[
            ("saturate", 1, "unknown field"),
            ("output_dtype", "INT8", "takes FLOAT, FLOAT16, BFLOAT16 here, got INT8"),
        ],
        refused=[
            (lambda: ANY_DEQUANTIZE("float16", 13), "x_scale.elem_type", "needs opset 19"),
            (lambda: ANY_DEQUANTIZE(block_size=-1), "block_size", "must be at least 0"),
        ],
        words={
            "onnx:DequantizeLinear": tr.OnnxDequantizeLinear(),
            "onnx:DequantizeLinear:13": tr.OnnxDequantizeLinear(opset_version=13),
            "onnx": tr.OnnxDequantizeLinear(),
        },
        wrong_words={"onnx:QuantizeLinear": "write onnx:DequantizeLinear or"},
        spelling="onnx:DequantizeLinear or onnx:DequantizeLinear:OPSET (10 to 28)",
        optional=("block_size", "domain", "output_dtype"),
        in_every_version=per_tensor("x_scale", "x_zero_point"),
        model=Model(
            "onnx_dequantize_linear",
            "x",
            "y",
            None,
            versions(DEQUANTIZED),
            ("x_scale", "x_zero_point"),
            ("x", "x_zero_point"),
        ),
    ),
}
