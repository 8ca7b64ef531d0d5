"""The dialects' names and numbers, held against their specifications' own lists."""

from __future__ import annotations

from tensor_round.contract.dtypes import BY_NAME
from tensor_round.contract.operators.dialects import directml, onnx, openvino, stablehlo
from tensor_round.contract.operators.registry import DIALECTS

# onnx/onnx.proto, TensorProto.DataType
ONNX = {
    "FLOAT": 1, "UINT8": 2, "INT8": 3, "UINT16": 4, "INT16": 5, "INT32": 6, "INT64": 7,
    "FLOAT16": 10, "DOUBLE": 11, "UINT32": 12, "UINT64": 13, "BFLOAT16": 16,
    "FLOAT8E4M3FN": 17, "FLOAT8E5M2": 19,
}  # fmt: skip
# DirectML.h, DML_TENSOR_DATA_TYPE
DIRECTML = {
    "FLOAT32": 1, "FLOAT16": 2, "UINT32": 3, "UINT16": 4, "UINT8": 5, "INT32": 6, "INT16": 7,
    "INT8": 8, "FLOAT64": 9, "UINT64": 10, "INT64": 11,
}  # fmt: skip


def test_onnx_names_have_their_numbers() -> None:
    assert {name: onnx.NUMBERS[dtype] for name, dtype in onnx.DTYPES.items()} == ONNX
    assert onnx.NUMBERS.keys() == BY_NAME.keys()


def test_directml_names_have_their_numbers() -> None:
    assert directml.DTYPE_VALUES == DIRECTML
    assert directml.DTYPES.keys() == DIRECTML.keys()


def test_no_name_stands_for_two_types() -> None:
    own = (onnx.DTYPES, openvino.DTYPES, directml.DTYPES, stablehlo.DTYPES)
    for table in (*own, *(dialect.dtypes for dialect in DIALECTS.values())):
        assert len(set(table.values())) == len(table)
        assert set(table.values()) <= BY_NAME.keys()
