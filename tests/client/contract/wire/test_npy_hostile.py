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


#: A whole dict but for its closing brace.
ENTRIES = "{'descr': '<f4', 'fortran_order': False, 'shape': (3,)"
#: Bytes, and the rule that the refusal names.
MALFORMED: dict[str, tuple[bytes, str]] = {
    "first byte": (b"x", "magic bytes"),
    "magic": (b"\x93NUMPX", "magic bytes"),
    "a zip": (b"PK\x03\x04", "an archive of arrays"),
    "version 0": (b"\x93NUMPY\x00\x00", "is not 1.0, 2.0 or 3.0"),
    "version 4": (b"\x93NUMPY\x04", "is not 1.0, 2.0 or 3.0"),
    "version 1.1": (b"\x93NUMPY\x01\x01", "is not 1.0, 2.0 or 3.0"),
    "10,001 bytes": (b"\x93NUMPY\x01\x00" + (10_001).to_bytes(2, "little"), "longer than 10000"),
    "4 GiB": (b"\x93NUMPY\x02\x00\xff\xff\xff\xff", "longer than 10000"),
    "no UTF-8": (with_literal(b"{\xff}", 3), "not UTF-8"),
    "empty": (with_literal(""), "header"),
    "blank": (with_literal(" \n"), "header"),
    "empty dict": (with_literal("{}"), "header"),
    "no dict": (with_literal("('descr', '<f4')"), "header"),
    "only a brace": (with_literal("{"), "header"),
    "shared brace": (with_literal("}"), "header"),
    "unclosed": (with_literal(ENTRIES + ", "), "header"),
    "key missing": (with_literal("{'descr': '<f4', 'shape': (3,), }"), "not a dict of"),
    "key unknown": (with_literal(ENTRIES + ", 'x': 1}"), "header"),
    "key twice": (with_literal(ENTRIES + ", 'shape': (4,)}"), "header"),
    "key no string": (with_literal(ENTRIES.replace("'descr'", "descr") + "}"), "header"),
    "key in bytes": (with_literal(ENTRIES.replace("{", "{b") + "}"), "header"),
    "mixed quotes": (with_literal(ENTRIES.replace("descr'", 'descr"') + "}"), "header"),
    "no comma": (with_literal(ENTRIES.replace("4',", "4'") + "}"), "not a dict of"),
    "two commas": (with_literal(ENTRIES.replace("4',", "4',,") + "}"), "header"),
    "only a comma": (with_literal("{,}"), "header"),
    "text after": (with_literal(ENTRIES + "} x"), "header"),
    "two dicts": (with_literal(ENTRIES + "}{}"), "header"),
    "hard space": (with_literal(ENTRIES.encode() + b",\xa0}"), "header"),
    "descr missing": (entries(descr=""), "descr in the .npy header is not a string"),
    "descr a number": (entries(descr="4"), "not a dict of"),
    "descr None": (entries(descr="None"), "header"),
    "descr bytes": (entries(descr="b'<f4'"), "header"),
    "descr escaped": (entries(descr="'\\x3cf4'"), "header"),
    "descr joined": (entries(descr="'<' 'f4'"), "header"),
    "descr sizes": (entries(descr="(4,)"), "descr in the .npy header is not a string"),
    "order a number": (entries(fortran_order="0"), "header"),
    "order a string": (entries(fortran_order="'False'"), "neither True nor False"),
    "order None": (entries(fortran_order="None"), "header"),
    "order an expression": (entries(fortran_order="not True"), "header"),
    "shape missing": (entries(shape=""), "not a tuple of sizes"),
    "shape a string": (entries(shape="'(3,)'"), "not a tuple of sizes"),
    "shape a number": (entries(shape="3"), "header"),
    "shape in parentheses": (entries(shape="(3)"), "not a tuple of sizes"),
    "shape a list": (entries(shape="[3]"), "header"),
    "shape None": (entries(shape="None"), "not a dict of"),
    "shape only a comma": (entries(shape="(,)"), "a size in the .npy header"),
    "shape two commas": (entries(shape="(3,,)"), "a size in the .npy header"),
    "shape nested": (entries(shape="((3,),)"), "header"),
    "size negative": (entries(shape="(-1,)"), "header"),
    "size signed": (entries(shape="(+1,)"), "header"),
    "size a float": (entries(shape="(3.0,)"), "header"),
    "size a string": (entries(shape="('3',)"), "header"),
    "size True": (entries(shape="(True,)"), "header"),
    "size None": (entries(shape="(None,)"), "header"),
    "size hexadecimal": (entries(shape="(0x3,)"), "header"),
    "size with underscores": (entries(shape="(1_0,)"), "header"),
    "size with a leading zero": (entries(shape="(03,)"), "header"),
    "size of other digits": (entries(shape="(\u0663,)"), "header"),
    "size in two words": (entries(shape="(1 2,)"), "header"),
    "size 2^63": (entries(shape=f"({2**63},)"), "a size in the .npy header"),
    "size of 5000 digits": (entries(shape=f"({'9' * 5000},)"), "header"),
    "size an expression": (entries(shape="(2**3,)"), "header"),
    "size a call": (entries(shape="(__import__('os').getpid(),)"), "header"),
    "65 dimensions": (entries(shape=f"({'1,' * 65})"), "more than 64 dimensions"),
    "nested as deep as fits": (entries(shape="(" * 4900), "header"),
    "minus signs": (entries(shape="-" * 9000 + "1"), "header"),
}

#: Bytes, and the type that the refusal names.
UNSUPPORTED: dict[str, tuple[bytes, str]] = {
    "object": (entries(descr="'|O'"), "type '|O'"),
    "boolean": (entries(descr="'|b1'"), "type"),
    "bytes": (entries(descr="'|S5'"), "type"),
    "text": (entries(descr="'<U5'"), "type"),
    "complex": (entries(descr="'<c8'"), "type"),
    "time": (entries(descr="'<M8[ns]'"), "type"),
    "long double": (entries(descr="'<f16'"), "type"),
    "void of 0": (entries(descr="'|V0'"), "type '|V0'"),
    "void of 4": (entries(descr="'|V4'"), "type"),
    "void of many": (entries(descr="'|V9223372036854775807'"), "type"),
    "no byte order": (entries(descr="'f4'"), "type"),
    "the machine's byte order": (entries(descr="'=f4'"), "type"),
    "no byte order for 2 bytes": (entries(descr="'|f2'"), "type"),
    "no byte order for 4 bytes": (entries(descr="'|f4'"), "type '|f4'"),
    "a name": (entries(descr="'float32'"), "type"),
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
