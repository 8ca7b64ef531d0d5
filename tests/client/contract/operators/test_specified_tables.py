"""The dialects' names, numbers and modes, held against their specifications' own lists."""

from __future__ import annotations

import pytest

from tensor_round.contract.dtypes import BY_NAME
from tensor_round.contract.operators.dialects import directml, onnx, openvino, stablehlo
from tensor_round.contract.operators.registry import DIALECTS
from tensor_round.contract.rounding import Rounding

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


# name in a dialect -> canonical, where they differ by more than case
NAMES: list[tuple[dict[str, str], str, str]] = [
    (onnx.DTYPES, "FLOAT", "float32"),
    (onnx.DTYPES, "DOUBLE", "float64"),
    (onnx.DTYPES, "FLOAT8E4M3FN", "float8_e4m3fn"),
    (onnx.DTYPES, "FLOAT8E5M2", "float8_e5m2"),
    (openvino.DTYPES, "f8e4m3", "float8_e4m3fn"),
    (openvino.DTYPES, "f8e5m2", "float8_e5m2"),
    (openvino.DTYPES, "bf16", "bfloat16"),
    (openvino.DTYPES, "u64", "uint64"),
    (stablehlo.DTYPES, "f8E4M3FN", "float8_e4m3fn"),
    (stablehlo.DTYPES, "f8E5M2", "float8_e5m2"),
    (stablehlo.DTYPES, "bf16", "bfloat16"),
]


@pytest.mark.parametrize(("table", "name", "canonical"), NAMES, ids=lambda x: str(x)[:12])
def test_dialects_names(table: dict[str, str], name: str, canonical: str) -> None:
    assert table[name] == canonical


def test_openvino_has_a_name_for_each() -> None:
    assert set(openvino.DTYPES.values()) == BY_NAME.keys()


def test_no_name_stands_for_two_types() -> None:
    own = (onnx.DTYPES, openvino.DTYPES, directml.DTYPES, stablehlo.DTYPES)
    for table in (*own, *(dialect.dtypes for dialect in DIALECTS.values())):
        assert len(set(table.values())) == len(table)
        assert set(table.values()) <= BY_NAME.keys()


def test_directmls_modes_and_their_integers() -> None:
    assert directml.MODE_VALUES == {
        "HALVES_TO_NEAREST_EVEN": 0,
        "TOWARD_ZERO": 1,
        "TOWARD_INFINITY": 2,
    }
    assert DIALECTS["directml"].modes == {
        "HALVES_TO_NEAREST_EVEN": Rounding.TIES_TO_EVEN,
        "TOWARD_ZERO": Rounding.TOWARD_ZERO,
        # Nearest, halves away from zero: no directed rounding, whatever its name says.
        "TOWARD_INFINITY": Rounding.TIES_TO_AWAY,
    }


def test_openvinos_modes() -> None:
    assert DIALECTS["openvino"].modes == {
        "half_to_even": Rounding.TIES_TO_EVEN,
        "half_away_from_zero": Rounding.TIES_TO_AWAY,
    }


def test_onnx_knows_ties_to_even_alone() -> None:
    assert (DIALECTS["onnx"].modes, DIALECTS["onnx"].default_rounding) == ({}, "ties_to_even")
