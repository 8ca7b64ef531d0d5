"""The tables, held against the formats and the libraries' types."""

from __future__ import annotations

import copy
import hashlib
import pickle
from itertools import product
from typing import Any, get_args

import ml_dtypes
import numpy as np
import pytest

from tensor_round.contract.call import Call
from tensor_round.contract.digests import DIGESTS, differing
from tensor_round.contract.dtypes import (
    BY_NAME,
    BY_OIP,
    DTYPES,
    ROUNDABLE,
    DType,
    DTypeName,
    dtype_name,
    from_numpy,
)
from tensor_round.contract.layout import Layout
from tensor_round.contract.rounding import Rounding, RoundingName
from tensor_round_verify.reference import all_patterns, rounded

each_dtype = pytest.mark.parametrize("dtype", DTYPES, ids=lambda dtype: dtype.name)


@each_dtype
def test_a_row_is_its_format_in_numpy(dtype: DType) -> None:
    assert dtype.numpy.name == dtype.name
    for numpy in (dtype.numpy, dtype.numpy.newbyteorder(">")):
        assert from_numpy(numpy) is dtype
    assert dtype.numpy.byteorder in "<=|", "little-endian on the wire"
    assert dtype.bits.kind == "u"
    assert dtype.bits.itemsize == dtype.itemsize == dtype.numpy.itemsize
    assert dtype.is_float == ("int" not in dtype.name)
    if dtype.is_float:
        assert dtype.mantissa_bits == ml_dtypes.finfo(dtype.numpy).nmant
        infinity, largest = np.array([np.inf, 2.0**dtype.mantissa_bits]).astype(dtype.numpy)
        assert dtype.has_infinity == bool(np.isinf(infinity))
        # From there on, all numbers are integers: it is the largest that rounding makes.
        assert np.isfinite(largest)
    else:
        assert (dtype.mantissa_bits, dtype.has_infinity) == (0, False)


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
def test_a_copy_of_a_row_is_the_row_in_another_process_too(dtype: DType) -> None:
    assert pickle.loads(pickle.dumps(dtype)) is copy.deepcopy(dtype) is dtype
    call = Call.converting(Layout.of(dtype, (2, 3)), "float8_e4m3fn")
    assert pickle.loads(pickle.dumps(call)) == call


def test_a_type_knows_whether_it_is_closed_under_rounding() -> None:
    numpy = np.dtype(ml_dtypes.float8_e3m4)
    assert np.isinf(np.rint(np.array([15.5], numpy)))[0]
    lacks_16 = DType("float8_e3m4", numpy, 8, True, 3, 4, 3, "ieee", None)
    assert not lacks_16.is_closed_under_rounding
    assert [d.name for d in DTYPES if d not in ROUNDABLE] == ["float8_e8m0fnu"]


@pytest.mark.parametrize("dtype", [d for d in DTYPES if d.is_float], ids=repr)
def test_the_patterns_of_a_row_are_those_of_ml_dtypes(dtype: DType) -> None:
    info, values = ml_dtypes.finfo(dtype.numpy), np.array([dtype.largest], dtype.bits)
    assert values.view(dtype.numpy)[0] == info.max
    if dtype.nan is not None:
        assert np.isnan(np.array([dtype.nan], dtype.bits).view(dtype.numpy))[0]
    assert (info.bits, info.nmant, info.nexp) == (
        dtype.width, dtype.mantissa_bits, dtype.exponent_bits
    )  # fmt: skip


@pytest.mark.parametrize(
    "foreign",
    [
        bool,
        complex,
        object,
        "S4",
        "U1",
        "M8[s]",
        "m8[s]",
        "V2",
        "V1",
        [("a", "<f4")],
        "f4,f4",
        ml_dtypes.float8_e4m3b11fnuz,
        ml_dtypes.float6_e2m3fn,
        ml_dtypes.int2,
        ml_dtypes.uint2,
    ],
    ids=str,
)
def test_other_types_are_not_mistaken_for_ours(foreign: Any) -> None:
    assert from_numpy(np.dtype(foreign)) is None


def test_the_inference_protocol_has_a_name_for_all_but_the_narrowest() -> None:
    unnamed = {d for d in DTYPES if d.width < 8 or (d.is_float and d.width == 8)}
    assert set(DTYPES) - set(BY_OIP.values()) == unnamed
    names = [BY_OIP[name].name for name in ("BF16", "FP64", "FP16")]
    assert names == ["bfloat16", "float64", "float16"]
    assert len(BY_NAME) == len(DTYPES) == len(BY_OIP) + len(unnamed)


def test_literals_for_type_checkers_are_the_tables() -> None:
    assert set(get_args(DTypeName)) == BY_NAME.keys()
    assert set(get_args(RoundingName)) == {rounding.value for rounding in Rounding}


def test_a_direction_prints_as_its_wire_name() -> None:
    assert f"{Rounding.TIES_TO_AWAY}" == str(Rounding.TIES_TO_AWAY) == "ties_to_away"


def test_the_published_digests_are_the_references() -> None:
    """SHA-256 of the little-endian results for every pattern, ascending."""
    for (dtype, rounding), published in DIGESTS.items():
        results = rounded(all_patterns(dtype), dtype, rounding)
        if BY_NAME[dtype].is_sub_byte:
            results = results[::2] | results[1::2] << 4
        assert hashlib.sha256(results.tobytes()).hexdigest() == published
    narrow = {row.name for row in ROUNDABLE if row.width <= 16}
    assert DIGESTS.keys() == {*product(narrow, Rounding)}


def test_rows_that_differ_from_the_published_ones_are_named() -> None:
    rows: dict[str, dict[str, dict[str, str]]] = {}
    for (dtype, rounding), published in DIGESTS.items():
        rows.setdefault(dtype, {})[rounding] = {"sha256": published}
    assert differing(rows) == []
    rows["int8"]["toward_zero"]["sha256"] = "0" * 64
    del rows["uint16"]["ties_to_even"]
    assert differing(rows) == ["int8 toward_zero", "uint16 ties_to_even"]
    assert len(differing({})) == len(DIGESTS)
