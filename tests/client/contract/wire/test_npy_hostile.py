"""Headers that lie, one a case: each is refused by its rule, soon, and without an allocation."""

from __future__ import annotations

import time
import tracemalloc

import pytest

from tensor_round.contract.errors import MalformedNpy, RequestRefused, UnsupportedMediaType
from tensor_round.contract.wire import npy


def with_literal(literal: str | bytes, version: int = 1) -> bytes:
    text = literal if isinstance(literal, bytes) else literal.encode("utf-8")
    field = 2 if version == 1 else 4
    return npy.MAGIC + bytes([version, 0]) + len(text).to_bytes(field, "little") + text


def entries(descr: str = "'<f4'", fortran_order: str = "False", shape: str = "(3,)") -> bytes:
    return with_literal(
        f"{{'descr': {descr}, 'fortran_order': {fortran_order}, 'shape': {shape}, }}"
    )


MALFORMED: dict[str, bytes] = {
    "first byte": b"x",
    "magic": b"\x93NUMPX",
    "a zip": b"PK\x03\x04",
    "version 0": b"\x93NUMPY\x00\x00",
    "version 4": b"\x93NUMPY\x04",
    "version 1.1": b"\x93NUMPY\x01\x01",
    "10,001 bytes": b"\x93NUMPY\x01\x00" + (10_001).to_bytes(2, "little"),
    "4 GiB": b"\x93NUMPY\x02\x00\xff\xff\xff\xff",
    "no UTF-8": with_literal(b"{\xff}", 3),
    "empty": with_literal(""),
    "blank": with_literal(" \n"),
    "empty dict": with_literal("{}"),
    "no dict": with_literal("('descr', '<f4')"),
    "only a brace": with_literal("{"),
    "shared brace": with_literal("}"),
    "unclosed": with_literal("{'descr': '<f4', 'fortran_order': False, 'shape': (3,), "),
    "key missing": with_literal("{'descr': '<f4', 'shape': (3,), }"),
    "key unknown": with_literal("{'descr': '<f4', 'fortran_order': False, 'shape': (3,), 'x': 1}"),
    "key twice": with_literal(
        "{'descr': '<f4', 'fortran_order': False, 'shape': (3,), 'shape': (4,)}"
    ),
    "key no string": with_literal("{descr: '<f4', 'fortran_order': False, 'shape': (3,)}"),
    "key in bytes": with_literal("{b'descr': '<f4', 'fortran_order': False, 'shape': (3,)}"),
    "mixed quotes": with_literal("{'descr\": '<f4', 'fortran_order': False, 'shape': (3,)}"),
    "no comma": with_literal("{'descr': '<f4' 'fortran_order': False, 'shape': (3,)}"),
    "two commas": with_literal("{'descr': '<f4',, 'fortran_order': False, 'shape': (3,)}"),
    "only a comma": with_literal("{,}"),
    "text after": with_literal("{'descr': '<f4', 'fortran_order': False, 'shape': (3,)} x"),
    "two dicts": with_literal("{'descr': '<f4', 'fortran_order': False, 'shape': (3,)}{}"),
    "hard space": with_literal(b"{'descr': '<f4', 'fortran_order': False, 'shape': (3,),\xa0}"),
    "descr missing": entries(descr=""),
    "descr a number": entries(descr="4"),
    "descr None": entries(descr="None"),
    "descr bytes": entries(descr="b'<f4'"),
    "descr escaped": entries(descr="'\\x3cf4'"),
    "descr joined": entries(descr="'<' 'f4'"),
    "descr sizes": entries(descr="(4,)"),
    "order a number": entries(fortran_order="0"),
    "order a string": entries(fortran_order="'False'"),
    "order None": entries(fortran_order="None"),
    "order an expression": entries(fortran_order="not True"),
    "shape missing": entries(shape=""),
    "shape a string": entries(shape="'(3,)'"),
    "shape a number": entries(shape="3"),
    "shape in parentheses": entries(shape="(3)"),
    "shape a list": entries(shape="[3]"),
    "shape None": entries(shape="None"),
    "shape only a comma": entries(shape="(,)"),
    "shape two commas": entries(shape="(3,,)"),
    "shape nested": entries(shape="((3,),)"),
    "size negative": entries(shape="(-1,)"),
    "size signed": entries(shape="(+1,)"),
    "size a float": entries(shape="(3.0,)"),
    "size a string": entries(shape="('3',)"),
    "size True": entries(shape="(True,)"),
    "size None": entries(shape="(None,)"),
    "size hexadecimal": entries(shape="(0x3,)"),
    "size with underscores": entries(shape="(1_0,)"),
    "size with a leading zero": entries(shape="(03,)"),
    "size of other digits": entries(shape="(\u0663,)"),
    "size in two words": entries(shape="(1 2,)"),
    "size 2^63": entries(shape=f"({2**63},)"),
    "size of 5000 digits": entries(shape=f"({'9' * 5000},)"),
    "size an expression": entries(shape="(2**3,)"),
    "size a call": entries(shape="(__import__('os').getpid(),)"),
    "65 dimensions": entries(shape=f"({'1,' * 65})"),
    "nested as deep as fits": entries(shape="(" * 4900),
    "minus signs": entries(shape="-" * 9000 + "1"),
}

UNSUPPORTED: dict[str, bytes] = {
    "object": entries(descr="'|O'"),
    "boolean": entries(descr="'|b1'"),
    "bytes": entries(descr="'|S5'"),
    "text": entries(descr="'<U5'"),
    "complex": entries(descr="'<c8'"),
    "time": entries(descr="'<M8[ns]'"),
    "long double": entries(descr="'<f16'"),
    "void of 0": entries(descr="'|V0'"),
    "void of 4": entries(descr="'|V4'"),
    "void of many": entries(descr="'|V9223372036854775807'"),
    "no byte order": entries(descr="'f4'"),
    "the machine's byte order": entries(descr="'=f4'"),
    "no byte order for 2 bytes": entries(descr="'|f2'"),
    "no byte order for 4 bytes": entries(descr="'|f4'"),
    "a name": entries(descr="'float32'"),
    "empty": entries(descr="''"),
    "nothing like a type": entries(descr="'\x01<script>'"),
    "long": entries(descr=f"'{'<f4,' * 2000}'"),
    "structured": entries(descr="[('a', '<f4'), ('b', '<i4', (2,))]"),
    "structured, deep": entries(descr="[" * 9000),
    "subarray": entries(descr="('<f4', (2,))"),
}


# Which of the rules each breaks, where another could be meant.
RULES = {
    "a zip": "an archive of arrays",
    "first byte": "magic bytes",
    "magic": "magic bytes",
    "version 0": "none of 1.0, 2.0 and 3.0",
    "version 4": "none of 1.0, 2.0 and 3.0",
    "version 1.1": "none of 1.0, 2.0 and 3.0",
    "10,001 bytes": "longer than 10000 bytes",
    "4 GiB": "longer than 10000 bytes",
    "no UTF-8": "not UTF-8",
    "key missing": "not a dict of",
    "no comma": "not a dict of",
    "descr missing": "descr in the .npy header is not a string",
    "descr a number": "not a dict of",
    "descr sizes": "descr in the .npy header is not a string",
    "order a string": "fortran_order in the .npy header is neither",
    "shape missing": "not a tuple of sizes",
    "shape a string": "not a tuple of sizes",
    "shape in parentheses": "not a tuple of sizes",
    "shape None": "not a dict of",
    "shape only a comma": "a size in the .npy header",
    "shape two commas": "a size in the .npy header",
    "size 2^63": "a size in the .npy header",
    "65 dimensions": "more than 64 dimensions",
}


@pytest.mark.parametrize(("name", "rule"), RULES.items())
def test_a_malformed_header_is_told_its_rule(name: str, rule: str) -> None:
    with pytest.raises(MalformedNpy) as caught:
        npy.read_header(MALFORMED[name])
    assert rule in caught.value.detail


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("object", "type '|O'"),
        ("no byte order for 4 bytes", "type '|f4'"),
        ("void of 0", "type '|V0'"),
        ("nothing like a type", "an unknown type"),
        ("empty", "an unknown type"),
        ("long", "an unknown type"),
        ("structured", "a structured type"),
        ("subarray", "a structured type"),
    ],
)
def test_another_type_is_told(name: str, told: str) -> None:
    with pytest.raises(UnsupportedMediaType) as caught:
        npy.read_header(UNSUPPORTED[name])
    assert f"the .npy file has elements of {told}" in caught.value.detail


@pytest.mark.parametrize("name", MALFORMED)
def test_a_malformed_header_is_refused(name: str) -> None:
    assert_refused(MALFORMED[name], MalformedNpy)


@pytest.mark.parametrize("name", UNSUPPORTED)
def test_another_type_is_refused_as_such(name: str) -> None:
    assert_refused(UNSUPPORTED[name], UnsupportedMediaType)


def assert_refused(data: bytes, error: type[RequestRefused]) -> None:
    began = time.process_time()
    with pytest.raises(error) as caught:
        npy.read_header(data)
    assert time.process_time() - began < 0.2
    assert caught.value.detail.isprintable()
    assert len(caught.value.detail) < 120


def test_a_claimed_tebibyte_is_a_number_and_nothing_else() -> None:
    data = npy.write_header("<f8", False, (2**62,) * 64)
    tracemalloc.start()
    try:
        header = npy.read_header(data)
        assert header is not None
        assert header.data_length == 2 ** (62 * 64 + 3)
        assert str(header.data_length)
        assert tracemalloc.get_traced_memory()[1] < 1 << 20
    finally:
        tracemalloc.stop()
