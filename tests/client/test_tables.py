"""The two tables, held against the specifications' own lists and the libraries' types."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

from tensor_round.dtypes import (
    BY_DIRECTML,
    BY_NAME,
    BY_OIP,
    BY_ONNX,
    BY_OPENVINO,
    BY_STABLEHLO,
    DTYPES,
    DType,
    from_numpy,
)
from tensor_round.rounding import (
    DIRECTML_MODE_VALUES,
    DIRECTML_MODES,
    OPENVINO_MODES,
    ROUNDING_NAMES,
    Rounding,
)

each_dtype = pytest.mark.parametrize("dtype", DTYPES, ids=lambda dtype: dtype.name)


def test_the_fourteen_types_have_their_canonical_names() -> None:
    assert set(BY_NAME) == {
        *("float16", "bfloat16", "float32", "float64", "float8_e4m3fn", "float8_e5m2"),
        *(f"{sign}int{width}" for sign in ("", "u") for width in (8, 16, 32, 64)),
    }


@each_dtype
def test_a_name_is_that_of_the_numpy_type(dtype: DType) -> None:
    assert dtype.numpy.name == dtype.name
    assert dtype.numpy.byteorder in "<=|", "little-endian on the wire"


@each_dtype
def test_bits_are_unsigned_and_of_the_same_width(dtype: DType) -> None:
    assert dtype.bits.kind == "u"
    assert dtype.bits.itemsize == dtype.itemsize == dtype.numpy.itemsize


@each_dtype
def test_kind_and_fraction_bits_are_the_formats(dtype: DType) -> None:
    if dtype.is_float:
        assert dtype.mantissa_bits == ml_dtypes.finfo(dtype.numpy).nmant
        assert dtype.kind == "float"
    else:
        assert dtype.mantissa_bits == 0
        assert dtype.kind == {"i": "signed", "u": "unsigned"}[dtype.numpy.kind]


@each_dtype
def test_each_type_is_found_in_either_byte_order(dtype: DType) -> None:
    assert from_numpy(dtype.numpy) is dtype
    if dtype.numpy.kind != "V":
        assert from_numpy(dtype.numpy.newbyteorder(">")) is dtype


@pytest.mark.parametrize(
    "foreign",
    [
        *(bool, complex, object, "S4", "U1", "M8[s]", "m8[s]", "V2", "V1", [("a", "<f4")], "f4,f4"),
        *(ml_dtypes.float8_e4m3fnuz, ml_dtypes.float8_e5m2fnuz, ml_dtypes.int4, ml_dtypes.uint4),
    ],
    ids=str,
)
def test_other_types_are_not_mistaken_for_ours(foreign: Any) -> None:
    assert from_numpy(np.dtype(foreign)) is None


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
    assert {dtype.onnx: dtype.onnx_number for dtype in DTYPES} == ONNX
    assert set(BY_ONNX) == set(ONNX)


def test_directml_names_have_their_numbers() -> None:
    numbers = {d.directml: d.directml_number for d in DTYPES if d.directml is not None}

    assert numbers == DIRECTML
    assert set(BY_DIRECTML) == set(DIRECTML)
    assert all((d.directml is None) == (d.directml_number is None) for d in DTYPES)


# name in a dialect -> canonical, where they differ by more than case
NAMES: list[tuple[dict[str, DType], str, str]] = [
    (BY_ONNX, "FLOAT", "float32"),
    (BY_ONNX, "DOUBLE", "float64"),
    (BY_ONNX, "FLOAT8E4M3FN", "float8_e4m3fn"),
    (BY_ONNX, "FLOAT8E5M2", "float8_e5m2"),
    (BY_OPENVINO, "f8e4m3", "float8_e4m3fn"),
    (BY_OPENVINO, "f8e5m2", "float8_e5m2"),
    (BY_OPENVINO, "bf16", "bfloat16"),
    (BY_OPENVINO, "u64", "uint64"),
    (BY_STABLEHLO, "f8E4M3FN", "float8_e4m3fn"),
    (BY_STABLEHLO, "f8E5M2", "float8_e5m2"),
    (BY_STABLEHLO, "bf16", "bfloat16"),
    (BY_OIP, "BF16", "bfloat16"),
    (BY_OIP, "FP64", "float64"),
    (BY_OIP, "FP16", "float16"),
]


@pytest.mark.parametrize(("table", "name", "canonical"), NAMES, ids=lambda x: str(x)[:12])
def test_dialects_names(table: dict[str, DType], name: str, canonical: str) -> None:
    assert table[name] is BY_NAME[canonical]


def test_openvino_has_a_name_for_each_and_oip_for_all_but_fp8() -> None:
    assert len(BY_OPENVINO) == len(DTYPES)
    assert set(DTYPES) - set(BY_OIP.values()) == {
        BY_NAME["float8_e4m3fn"],
        BY_NAME["float8_e5m2"],
    }


def test_no_name_stands_for_two_types() -> None:
    for table in (BY_NAME, BY_ONNX, BY_OPENVINO, BY_DIRECTML, BY_STABLEHLO, BY_OIP):
        assert len(set(table.values())) == len(table)


def test_every_direction_has_one_row() -> None:
    assert [row.rounding for row in ROUNDING_NAMES] == list(Rounding)


def test_a_direction_prints_as_its_wire_name() -> None:
    assert f"{Rounding.TIES_TO_AWAY}" == str(Rounding.TIES_TO_AWAY) == "ties_to_away"


def test_directmls_modes_and_their_integers() -> None:
    assert DIRECTML_MODE_VALUES == {
        0: "HALVES_TO_NEAREST_EVEN",
        1: "TOWARD_ZERO",
        2: "TOWARD_INFINITY",
    }
    assert DIRECTML_MODES == {
        "HALVES_TO_NEAREST_EVEN": Rounding.TIES_TO_EVEN,
        "TOWARD_ZERO": Rounding.TOWARD_ZERO,
        # Nearest, halves away from zero: no directed rounding, whatever its name says.
        "TOWARD_INFINITY": Rounding.TIES_TO_AWAY,
    }


def test_openvinos_modes() -> None:
    assert OPENVINO_MODES == {
        "half_to_even": Rounding.TIES_TO_EVEN,
        "half_away_from_zero": Rounding.TIES_TO_AWAY,
    }


def test_onnx_knows_ties_to_even_alone() -> None:
    assert [row.rounding for row in ROUNDING_NAMES if row.onnx] == [Rounding.TIES_TO_EVEN]
