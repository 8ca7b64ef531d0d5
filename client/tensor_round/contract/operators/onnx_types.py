"""Names and numbers of ONNX that several of its operators have: opsets and data types."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, get_args

#: From the first opset with Round to the newest of onnx 1.23.
OnnxOpset = Literal[11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28]
#: Likewise of Floor and Ceil in their present form, of Cast, and of linear quantization.
OnnxFloorOpset = Literal[6, 7, 8, 9, 10, OnnxOpset]
OnnxCastOpset = Literal[9, 10, OnnxOpset]
OnnxLinearOpset = Literal[10, OnnxOpset]
NEWEST_OPSET = get_args(OnnxOpset)[-1]

#: TensorProto.DataType: ONNX's names, their numbers, and the dtypes.
_DATA_TYPES = (
    ("FLOAT16", 10, "float16"),
    ("BFLOAT16", 16, "bfloat16"),
    ("FLOAT", 1, "float32"),
    ("DOUBLE", 11, "float64"),
    ("FLOAT8E4M3FN", 17, "float8_e4m3fn"),
    ("FLOAT8E5M2", 19, "float8_e5m2"),
    ("INT8", 3, "int8"),
    ("INT16", 5, "int16"),
    ("INT32", 6, "int32"),
    ("INT64", 7, "int64"),
    ("UINT8", 2, "uint8"),
    ("UINT16", 4, "uint16"),
    ("UINT32", 12, "uint32"),
    ("UINT64", 13, "uint64"),
    ("FLOAT8E4M3FNUZ", 18, "float8_e4m3fnuz"),
    ("FLOAT8E5M2FNUZ", 20, "float8_e5m2fnuz"),
    ("UINT4", 21, "uint4"),
    ("INT4", 22, "int4"),
    ("FLOAT4E2M1", 23, "float4_e2m1fn"),
    ("FLOAT8E8M0", 24, "float8_e8m0fnu"),
)
DTYPES = {name: dtype for name, _, dtype in _DATA_TYPES}
NUMBERS = {dtype: number for _, number, dtype in _DATA_TYPES}


def type_spellings(names: Sequence[str]) -> dict[str | int, str]:
    """TensorProto.DataType names, and the type strings of the specification's constraints."""
    return {text: name for name in names for text in (name, f"tensor({name.lower()})")}


def attribute_spellings(names: Sequence[str]) -> dict[str | int, str]:
    """TensorProto.DataType names, and their numbers."""
    return {text: name for name in names for text in (name, NUMBERS[DTYPES[name]])}
