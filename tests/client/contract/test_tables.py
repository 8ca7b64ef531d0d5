"""The tables, held against the specifications' own lists and the libraries' types."""

from __future__ import annotations

import io
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from tensor_round.contract.dtypes import (
    BY_NAME,
    BY_OIP,
    DTYPES,
    DType,
    dtype_name,
    from_numpy,
)
from tensor_round.contract.operators import DIALECTS
from tensor_round.contract.operators.dialects import directml, onnx, openvino, stablehlo
from tensor_round.contract.rounding import Rounding

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


# exponent bits, bias, the patterns of the exponent field and of the sign (IEEE 754-2019, 3.4; OCP)
FORMATS = {
    "float16": (5, 15, 0x7C00, 0x8000),
    "bfloat16": (8, 127, 0x7F80, 0x8000),
    "float32": (8, 127, 0x7F80_0000, 0x8000_0000),
    "float64": (11, 1023, 0x7FF0_0000_0000_0000, 0x8000_0000_0000_0000),
    "float8_e4m3fn": (4, 7, 0x78, 0x80),
    "float8_e5m2": (5, 15, 0x7C, 0x80),
}


@pytest.mark.parametrize(("name", "fields"), FORMATS.items())
def test_the_fields_of_a_float_are_the_formats(
    name: str, fields: tuple[int, int, int, int]
) -> None:
    dtype = BY_NAME[name]
    found = dtype.exponent_bits, dtype.exponent_bias, dtype.exponent_mask, dtype.sign_bit
    assert found == fields


def test_a_type_is_named_by_numpy_in_either_order_and_told() -> None:
    assert dtype_name(np.dtype(">f2")) == "float16"
    assert dtype_name(np.dtype(ml_dtypes.float8_e5m2)) == "float8_e5m2"
    assert dtype_name(np.dtype(bool)) == "bool"
    assert repr(BY_NAME["int8"]) == "<DType int8>"


@each_dtype
def test_infinity_is_the_formats(dtype: DType) -> None:
    if dtype.is_float:
        assert dtype.has_infinity == bool(np.isinf(np.array([np.inf]).astype(dtype.numpy)[0]))
    else:
        assert not dtype.has_infinity


@each_dtype
def test_the_code_in_npy_files_is_numpys(dtype: DType) -> None:
    file = io.BytesIO()
    np.save(file, np.zeros(1, dtype.numpy))
    code = file.getvalue().partition(b"'descr': '")[2].partition(b"'")[0].decode()
    assert code[1:] == dtype.npy
    try:
        read = np.dtype(code)
    except TypeError:
        read = None  # NumPy does not read what it writes of float8_e5m2
    assert dtype.is_named_by_npy == (read == dtype.numpy)


@each_dtype
def test_each_number_rounds_to_a_number(dtype: DType) -> None:
    if dtype.is_float:
        # From here on, all numbers are integers: it is the largest that rounding makes.
        assert np.isfinite(np.array([2.0**dtype.mantissa_bits]).astype(dtype.numpy)[0])


def test_a_type_that_is_not_closed_under_rounding_is_refused() -> None:
    numpy = np.dtype(ml_dtypes.float8_e3m4)
    assert np.isinf(np.rint(np.array([15.5], numpy)))[0]
    with pytest.raises(ValueError, match="float8_e3m4 is not closed under rounding"):
        DType("float8_e3m4", "float", numpy, 4, True, None)


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
    *(
        ({name: dtype.name for name, dtype in BY_OIP.items()}, name, canonical)
        for name, canonical in (("BF16", "bfloat16"), ("FP64", "float64"), ("FP16", "float16"))
    ),
]


@pytest.mark.parametrize(("table", "name", "canonical"), NAMES, ids=lambda x: str(x)[:12])
def test_dialects_names(table: dict[str, str], name: str, canonical: str) -> None:
    assert table[name] == canonical


def test_openvino_has_a_name_for_each_and_oip_for_all_but_fp8() -> None:
    assert set(openvino.DTYPES.values()) == BY_NAME.keys()
    assert set(DTYPES) - set(BY_OIP.values()) == {
        BY_NAME["float8_e4m3fn"],
        BY_NAME["float8_e5m2"],
    }


def test_no_name_stands_for_two_types() -> None:
    assert len(BY_NAME) == len(DTYPES)
    assert len(set(BY_OIP.values())) == len(BY_OIP)
    own = (onnx.DTYPES, openvino.DTYPES, directml.DTYPES, stablehlo.DTYPES)
    for table in (*own, *(dialect.dtypes for dialect in DIALECTS.values())):
        assert len(set(table.values())) == len(table)
        assert set(table.values()) <= BY_NAME.keys()


def test_a_direction_prints_as_its_wire_name() -> None:
    assert f"{Rounding.TIES_TO_AWAY}" == str(Rounding.TIES_TO_AWAY) == "ties_to_away"


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
