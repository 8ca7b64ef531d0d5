"""Headers of .npy files: NumPy's read at every cut, others refused."""

from __future__ import annotations

import contextlib
import io
import math
import time
from functools import partial
from typing import Any, Literal

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.lib import format as numpy_format

from support.cases.every import every
from support.memory import traced
from tensor_round.contract.dtypes import BY_NAME, DTYPES, DType
from tensor_round.contract.errors import (
    InvalidDescriptor,
    MalformedNpy,
    RequestRefused,
    UnsupportedMediaType,
)
from tensor_round.contract.wire import npy

SHAPES: list[tuple[int, ...]] = [(), (1,), (3,), (2, 3), (0,), (2, 0, 3), (1, 1, 1, 2), (1,) * 32]
RAW = [d.name for d in DTYPES if not d.is_named_by_npy]
ORDERS: list[npy.ByteOrder] = ["little", "big"]


def saved(array: np.ndarray[Any, Any]) -> bytes:
    file = io.BytesIO()
    np.save(file, array)
    return file.getvalue()


def read(file: bytes) -> npy.NpyHeader:
    header = npy.read_header(file)
    assert isinstance(header, npy.NpyHeader)
    return header


def array_of(
    dtype: DType, byte_order: npy.ByteOrder, order: Literal["C", "F"], shape: tuple[int, ...]
) -> Any:
    values = np.arange(math.prod(shape)).reshape(shape).astype(dtype.numpy)
    return values.astype(dtype.numpy.newbyteorder(byte_order), order=order)


@pytest.mark.parametrize("dtype", DTYPES, ids=lambda d: d.name)
def test_files_of_numpy_are_read_byte_for_byte(dtype: DType) -> None:
    every(partial(check_saved, dtype), ORDERS, ("C", "F"), SHAPES)


def check_saved(
    dtype: DType, byte_order: npy.ByteOrder, order: Literal["C", "F"], shape: tuple[int, ...]
) -> None:
    array = array_of(dtype, byte_order, order, shape)
    file = saved(array)
    header = read(file)
    assert header.shape == shape
    assert header.fortran_order == (array.flags.fnc)
    assert header.header_length + header.data_length == len(file)
    assert header.raw == file[: header.header_length]
    assert header.byte_order == (byte_order if dtype.itemsize > 1 else "little")
    assert header.dtype == (None if dtype.name in RAW else dtype)
    assert npy.resolve_dtype(header, dtype.name) is dtype


@pytest.mark.parametrize("dtype", DTYPES, ids=lambda d: d.name)
@pytest.mark.parametrize("order", ["C", "F"])
def test_the_layout_says_where_each_element_lies(dtype: DType, order: Literal["C", "F"]) -> None:
    array = array_of(dtype, "little", order, (2, 3, 4))
    header = read(saved(array))
    layout = header.layout(dtype)
    assert layout.byte_length == header.data_length
    assert tuple(s * dtype.itemsize for s in layout.strides) == array.strides


def test_an_empty_fortran_array_has_a_layout_whatever_its_sizes() -> None:
    header = read(header_of("<f4", True, (2**62, 2**62, 0)))
    assert header.layout(BY_NAME["float32"]).byte_length == 0


@pytest.mark.parametrize("version", [1, 2, 3])
def test_a_header_is_read_at_every_cut_and_with_its_data(version: Literal[1, 2, 3]) -> None:
    whole = header_of(">f8", True, (3, 4), version)
    expected = read(whole)
    for tail in (b"\0", whole, b"x" * 20_000):
        assert npy.read_header(whole + tail) == expected
    assert npy.read_header(bytearray(whole)) == npy.read_header(memoryview(whole)) == expected


@pytest.mark.parametrize("version", [1, 2, 3])
def test_missing_length_of_a_partial_header_is_known(version: Literal[1, 2, 3]) -> None:
    whole = header_of("<f4", False, (3, 4), version)
    fixed = 10 if version == 1 else 12
    for cut in range(len(whole)):
        known = 10 if cut < 8 else fixed if cut < fixed else len(whole)
        assert npy.read_header(whole[:cut]) == known - cut


SPELLINGS: list[tuple[str, str]] = [
    ("as NumPy", "{'descr': '<f4', 'fortran_order': False, 'shape': (3, 4), }"),
    ("other order", "{'shape': (3, 4), 'fortran_order': False, 'descr': '<f4'}"),
    ("double quotes", '{"descr": "<f4", "fortran_order": False, "shape": (3, 4)}'),
    ("no spaces", "{'descr':'<f4','fortran_order':False,'shape':(3,4)}"),
    ("more spaces", " { 'descr' : '<f4' ,\n'fortran_order': False , 'shape': ( 3 , 4 , ) , } "),
    ("Python 2", "{'descr': '<f4', 'fortran_order': False, 'shape': (3L, 4L), }"),
]


def with_literal(literal: str | bytes, version: int = 1) -> bytes:
    """A header around any literal."""
    text = literal if isinstance(literal, bytes) else literal.encode("utf-8")
    field = 2 if version == 1 else 4
    return npy.MAGIC + bytes([version, 0]) + len(text).to_bytes(field, "little") + text


def header_of(descr: str, fortran_order: bool, shape: tuple[int, ...], version: int = 1) -> bytes:
    entries = {"descr": descr, "fortran_order": fortran_order, "shape": shape}
    return with_literal(repr(entries), version)


@pytest.mark.parametrize("literal", [s[1] for s in SPELLINGS], ids=[s[0] for s in SPELLINGS])
def test_header_spellings_of_other_writers_are_read(literal: str) -> None:
    header = read(with_literal(literal))
    assert (header.dtype, header.shape) == (BY_NAME["float32"], (3, 4))
    assert not header.fortran_order


def test_limits_are_inclusive() -> None:
    most = ", ".join(["1"] * npy.MAX_RANK)
    entries = f"{{'descr': '<f4', 'fortran_order': False, 'shape': ({most})}}"
    header = read(with_literal(entries.ljust(10_000)) + b"data")
    assert (npy.MAX_RANK, npy.MAX_LITERAL_LENGTH, npy.MAX_HEADER_LENGTH) == (64, 10_000, 10_012)
    assert (header.header_length, header.shape) == (10_010, (1,) * 64)
    header = read(with_literal(entries.ljust(10_000), 2) + b"data")
    assert header.header_length == 10_012
    with pytest.raises(MalformedNpy, match="longer than 10000 bytes"):
        npy.read_header(with_literal(entries.ljust(10_001)))
    with pytest.raises(MalformedNpy, match="more than 64 dimensions"):
        npy.read_header(with_literal(entries.replace("(1,", "(1, 1,")))
    assert read(header_of("<f4", False, (2**63 - 1,))).shape == (2**63 - 1,)


# Types that the file does not name


def raw_header(descr: str) -> npy.NpyHeader:
    return read(header_of(descr, False, (3,)))


@pytest.mark.parametrize(
    ("descr", "name"),
    [
        ("<V2", "bfloat16"),
        (">V2", "bfloat16"),
        ("|V2", "bfloat16"),
        ("<V1", "float8_e4m3fn"),
        ("|V1", "float8_e4m3fn"),
        ("|V1", "float8_e5m2"),
        ("<V1", "int4"),
        ("<f1", "float8_e5m2"),
        (">f1", "float8_e5m2"),
        ("<f4", "float32"),
    ],
)
def test_a_fitting_name_is_taken(descr: str, name: str) -> None:
    assert npy.resolve_dtype(raw_header(descr), name) is BY_NAME[name]


@pytest.mark.parametrize("descr", ["<V2", "|V2", "<V1", "|V1", "<f1"])
def test_without_a_name_the_answer_names_the_parameter(descr: str) -> None:
    size = descr[2] if descr[1] == "V" else "f1"
    names = {
        "1": "float8_e4m3fn float8_e5m2 int8 uint8 float8_e4m3fnuz float8_e5m2fnuz "
        "float8_e8m0fnu float4_e2m1fn int4 uint4",
        "f1": "float8_e5m2",
    }.get(size, "float16 bfloat16 int16 uint16")
    with pytest.raises(UnsupportedMediaType, match=rf"\?dtype= \(one of: {names}\)"):
        npy.resolve_dtype(raw_header(descr), None)


def test_a_type_of_its_own_needs_no_name() -> None:
    assert npy.resolve_dtype(raw_header(">f2"), None) is BY_NAME["float16"]


@pytest.mark.parametrize(
    ("descr", "name"),
    [
        ("<V2", "float8_e5m2"),
        ("<V1", "bfloat16"),
        ("<f1", "float8_e4m3fn"),
        ("<f4", "float64"),
        ("<f2", "bfloat16"),
        ("<f4", "int32"),
        ("<f4", ""),
        ("<V2", "bf16"),
        ("<V2", "x" * 1000),
    ],
)
def test_a_name_that_does_not_fit_is_refused(descr: str, name: str) -> None:
    with pytest.raises(InvalidDescriptor) as caught:
        npy.resolve_dtype(raw_header(descr), name)
    assert caught.value.faults[0].loc == ("query", "dtype")
    assert f"; elements stored as {descr} are one of: " in caught.value.detail
    assert len(caught.value.detail) < 200


# Headers that lie: each is refused by its rule, soon, and without an allocation


def entries(descr: str = "'<f4'", fortran_order: str = "False", shape: str = "(3,)") -> bytes:
    return with_literal(
        f"{{'descr': {descr}, 'fortran_order': {fortran_order}, 'shape': {shape}, }}"
    )


#: A whole dict but for its closing brace.
ENTRIES = "{'descr': '<f4', 'fortran_order': False, 'shape': (3,)"
#: Bytes, and the rule that the refusal names.
MALFORMED: dict[str, tuple[bytes, str]] = {
    "first byte": (b"x", "magic bytes"),
    "a zip": (b"PK\x03\x04", "an archive of arrays"),
    "version 4": (b"\x93NUMPY\x04", "is not 1.0, 2.0 or 3.0"),
    "version 1.1": (b"\x93NUMPY\x01\x01", "is not 1.0, 2.0 or 3.0"),
    "10,001 bytes": (b"\x93NUMPY\x01\x00" + (10_001).to_bytes(2, "little"), "longer than 10000"),
    "4 GiB": (b"\x93NUMPY\x02\x00\xff\xff\xff\xff", "longer than 10000"),
    "a key in UTF-8": (with_literal(ENTRIES + ", 'é': 1}", 3), "not a dict of"),
    "no UTF-8": (with_literal(b"{\xff}", 3), "not UTF-8"),
    "empty": (with_literal(""), "header"),
    "empty dict": (with_literal("{}"), "header"),
    "no dict": (with_literal("('descr', '<f4')"), "header"),
    "only a brace": (with_literal("{"), "header"),
    "unclosed": (with_literal(ENTRIES + ", "), "header"),
    "key missing": (with_literal("{'descr': '<f4', 'shape': (3,), }"), "not a dict of"),
    "key unknown": (with_literal(ENTRIES + ", 'x': 1}"), "header"),
    "key twice": (with_literal(ENTRIES + ", 'shape': (4,)}"), "header"),
    "key no string": (with_literal(ENTRIES.replace("'descr'", "descr") + "}"), "header"),
    "mixed quotes": (with_literal(ENTRIES.replace("descr'", 'descr"') + "}"), "header"),
    "no comma": (with_literal(ENTRIES.replace("4',", "4'") + "}"), "not a dict of"),
    "two commas": (with_literal(ENTRIES.replace("4',", "4',,") + "}"), "header"),
    "text after": (with_literal(ENTRIES + "} x"), "header"),
    "hard space": (with_literal(ENTRIES.encode() + b",\xa0}"), "header"),
    "descr missing": (entries(descr=""), "descr in the .npy header is not a string"),
    "descr a number": (entries(descr="4"), "not a dict of"),
    "descr bytes": (entries(descr="b'<f4'"), "header"),
    "descr escaped": (entries(descr="'\\x3cf4'"), "header"),
    "order a number": (entries(fortran_order="0"), "header"),
    "order a string": (entries(fortran_order="'False'"), "neither True nor False"),
    "shape missing": (entries(shape=""), "not a tuple of sizes"),
    "shape in parentheses": (entries(shape="(3)"), "not a tuple of sizes"),
    "shape a list": (entries(shape="[3]"), "header"),
    "shape two commas": (entries(shape="(3,,)"), "a size in the .npy header"),
    "shape nested": (entries(shape="((3,),)"), "header"),
    "size negative": (entries(shape="(-1,)"), "header"),
    "size a float": (entries(shape="(3.0,)"), "header"),
    "size with underscores": (entries(shape="(1_0,)"), "header"),
    "size with a leading zero": (entries(shape="(03,)"), "header"),
    "size of other digits": (entries(shape="(\u0663,)"), "header"),
    "size in two words": (entries(shape="(1 2,)"), "header"),
    "size 2^63": (entries(shape=f"({2**63},)"), "a size in the .npy header"),
    "size of 5000 digits": (entries(shape=f"({'9' * 5000},)"), "header"),
    "size a call": (entries(shape="(__import__('os').getpid(),)"), "header"),
    "65 dimensions": (entries(shape=f"({'1,' * 65})"), "more than 64 dimensions"),
    "nested as deep as fits": (entries(shape="(" * 4900), "header"),
    "minus signs": (entries(shape="-" * 9000 + "1"), "header"),
}

#: Bytes, and the type that the refusal names.
UNSUPPORTED: dict[str, tuple[bytes, str]] = {
    "object": (entries(descr="'|O'"), "type '|O'"),
    "complex": (entries(descr="'<c8'"), "type"),
    "time": (entries(descr="'<M8[ns]'"), "type"),
    "long double": (entries(descr="'<f16'"), "type"),
    "void of 0": (entries(descr="'|V0'"), "type '|V0'"),
    "void of many": (entries(descr="'|V9223372036854775807'"), "type"),
    "the machine's byte order": (entries(descr="'=f4'"), "type"),
    "no byte order for 2 bytes": (entries(descr="'|f2'"), "type"),
    "no byte order for 4 bytes": (entries(descr="'|f4'"), "type '|f4'"),
    "empty": (entries(descr="''"), "an unknown type"),
    "nothing like a type": (entries(descr="'\x01<script>'"), "an unknown type"),
    "long": (entries(descr=f"'{'<f4,' * 2000}'"), "an unknown type"),
    "structured": (entries(descr="[('a', '<f4'), ('b', '<i4', (2,))]"), "a structured type"),
    "structured, deep": (entries(descr="[" * 9000), "type"),
    "subarray": (entries(descr="('<f4', (2,))"), "a structured type"),
}


@pytest.mark.parametrize(("data", "rule"), MALFORMED.values(), ids=MALFORMED)
def test_a_malformed_header_is_refused_by_its_rule(data: bytes, rule: str) -> None:
    assert rule in refused(data, MalformedNpy)


@pytest.mark.parametrize(("data", "named"), UNSUPPORTED.values(), ids=UNSUPPORTED)
def test_another_type_is_refused_as_such(data: bytes, named: str) -> None:
    assert named in refused(data, UnsupportedMediaType)


def refused(data: bytes, error: type[RequestRefused]) -> str:
    began = time.process_time()
    with pytest.raises(error) as caught:
        npy.read_header(data)
    assert time.process_time() - began < 0.2
    assert caught.value.detail.isprintable()
    assert len(caught.value.detail) < 120
    return caught.value.detail


def test_a_claimed_tebibyte_is_a_number_and_nothing_else() -> None:
    data = header_of("<f8", False, (2**62,) * 64)
    with traced() as most:
        header = read(data)
        assert header.data_length == 2 ** (62 * 64 + 3)
        assert str(header.data_length)
        assert most() < 1 << 20


# Against NumPy's own reader

PIECES = st.sampled_from(
    [*"{}()[],:'\"<>|fiV1248 \nL0-", "descr", "fortran_order", "shape", "True", "False", "é"]
)


@st.composite
def mutated(draw: st.DrawFn) -> bytes:
    """A header with a few pieces of its literal changed, dropped or repeated."""
    literal = "{'descr': '<f4', 'fortran_order': False, 'shape': (3, 4), }"
    for _ in range(draw(st.integers(0, 3))):
        start = draw(st.integers(0, len(literal)))
        stop = draw(st.integers(start, min(start + 6, len(literal))))
        literal = literal[:start] + "".join(draw(st.lists(PIECES, max_size=3))) + literal[stop:]
    return with_literal(literal, draw(st.sampled_from([1, 2])))


@given(mutated())
def test_numpy_agrees_with_every_header_that_is_read(file: bytes) -> None:
    try:
        header = read(file)
    except (MalformedNpy, UnsupportedMediaType):
        return
    if "L" in header.raw.decode("latin-1") or header.descr[1:] == "f1":
        return  # NumPy warns of the first and cannot load the second
    readers = {1: numpy_format.read_array_header_1_0, 2: numpy_format.read_array_header_2_0}
    stream = io.BytesIO(file)
    major, _ = numpy_format.read_magic(stream)
    shape, fortran_order, dtype = readers[major](stream)
    assert (shape, fortran_order) == (header.shape, header.fortran_order)
    assert dtype.itemsize == header.itemsize
    assert dtype == np.dtype(header.descr)


@given(st.binary(max_size=64) | st.binary(max_size=64).map(lambda tail: npy.MAGIC + tail))
def test_any_bytes_are_read_or_refused(data: bytes) -> None:
    with contextlib.suppress(MalformedNpy, UnsupportedMediaType):
        npy.read_header(data)
