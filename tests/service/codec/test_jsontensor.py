"""JSON tensors: numbers to bytes and back, and where a wrong one is."""

from __future__ import annotations

import json
import math
import sys
import time
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.cases.array_cases import off_wire, on_wire
from support.memory import traced
from tensor_round.contract.dtypes import BY_NAME, DTYPES, ROUNDABLE, DType
from tensor_round.contract.errors import InvalidDescriptor, PayloadSizeMismatch
from tensor_round.contract.wire import strictjson
from tensor_round_service.codec import jsontensor
from tensor_round_verify.reference import all_patterns

INTEGERS = [d.name for d in DTYPES if not d.is_float]


def written(*tensor: Any, **options: Any) -> bytes:
    """The parts of a tensor's JSON, joined."""
    return b"".join(jsontensor.write(*tensor, **options))


def exact(text: str | bytes) -> Any:
    data = text.encode() if isinstance(text, str) else text
    return strictjson.loads(data, max_depth=64, numbers="exact")


def read(text: str, name: str, shape: tuple[int, ...], *, any_nesting: bool = False) -> list[Any]:
    payload = jsontensor.read(exact(text), BY_NAME[name], shape, any_nesting=any_nesting)
    values: list[Any] = off_wire(bytes(payload), name, math.prod(shape)).tolist()
    return values


#: Those of nestings are in ``test_nesting.py``.
FAULTS: dict[str, tuple[str, str, tuple[int, ...], tuple[int, ...], str]] = {
    "an object for a number": ("{}", "int8", (), (), "an object"),
    "ragged": ("[[1,2],[3,4,5,6]]", "int8", (2, 3), (0,), "3 entries"),
    "null": ("[[1,2],[null,4]]", "int8", (2, 2), (1, 0), "null"),
    "boolean": ("[1,true]", "float32", (2,), (1,), "boolean"),
    "boolean for an integer": ("[false]", "uint8", (1,), (0,), "boolean"),
    "object": ("[[{}]]", "float32", (1, 1), (0, 0), "object"),
    "string": ('[0,"1.5"]', "float32", (2,), (1,), "a string"),
    "other name": ('["nan"]', "float32", (1,), (0,), "NaN"),
    "other infinity": ('["+Infinity"]', "float32", (1,), (0,), "Infinity"),
    "NaN for an integer": ('["NaN"]', "int8", (1,), (0,), "a string"),
    "token for an integer": ("[1,NaN]", "int8", (2,), (1,), "-128 to 127"),
    "fraction": ("[0,0,1.5]", "int8", (3,), (2,), "without fraction"),
    "fraction of zero": ("[1.0]", "int64", (1,), (0,), "without fraction"),
    "exponent": ("[1e2]", "uint8", (1,), (0,), "or exponent"),
    "flat in a shape": ("[0,0,0,300]", "uint8", (2, 2), (3,), "0 to 255"),
    "not even a sign": ("[1,-1]", "uint64", (2,), (1,), "0 to 18446744073709551615"),
    "5000 digits": (f"[{'1' * 5000}]", "int64", (1,), (0,), "9223372036854775807"),
}


@pytest.mark.parametrize(("text", "name", "shape", "where", "why"), FAULTS.values(), ids=FAULTS)
def test_a_fault_is_named_with_its_place(
    text: str, name: str, shape: tuple[int, ...], where: tuple[int, ...], why: str
) -> None:
    with pytest.raises(InvalidDescriptor) as caught:
        read(text, name, shape)
    (fault,) = caught.value.faults
    assert fault.loc == ("data", *where)
    assert why in fault.msg


def test_a_fault_in_any_nesting_has_its_own_path() -> None:
    data = exact("[1,[[2],[]],[[[null]],4]]")
    with pytest.raises(InvalidDescriptor) as caught:
        jsontensor.read(data, BY_NAME["int8"], (4,), any_nesting=True, loc=("inputs", 0, "data"))
    assert caught.value.faults[0].loc == ("inputs", 0, "data", 2, 0, 0, 0)


@pytest.mark.parametrize("name", INTEGERS)
def test_integers_are_exact_to_both_ends(name: str) -> None:
    info = ml_dtypes.iinfo(BY_NAME[name].numpy)
    low, high = int(info.min), int(info.max)
    values = [low, low + 1, 0, high - 1, high]
    assert read(json.dumps(values), name, (5,)) == values
    for beyond in (low - 1, high + 1):
        with pytest.raises(InvalidDescriptor) as caught:
            read(json.dumps([0, beyond]), name, (2,))
        assert caught.value.faults[0].loc == ("data", 1)


def test_a_wrong_integer_after_many_right_ones_is_found() -> None:
    count = 200_000
    with pytest.raises(InvalidDescriptor) as caught:
        read(f"[{'1,' * count}128]", "int8", (count + 1,))
    assert caught.value.faults[0].loc == ("data", count)


def test_float_specials_as_strings_and_as_tokens() -> None:
    text = '["NaN",NaN,"Infinity",Infinity,"-Infinity",-Infinity,-0,-0.0,0]'
    values = np.array(read(text, "float32", (9,)))
    assert np.isnan(values[:2]).all()
    assert values[2:].tolist() == [math.inf, math.inf, -math.inf, -math.inf, 0, 0, 0]
    assert np.signbit(values[6:]).tolist() == [True, True, False]


# Writing


WRITTEN: dict[str, tuple[str, tuple[int, ...], list[Any], bytes]] = {
    "rank 0": ("float32", (), [1.5], b"1.5"),
    "rank 1": ("float32", (2,), [2, -0.0], b"[2.0,-0.0]"),
    "rank 2": ("int8", (2, 2), [1, -2, 3, 4], b"[[1,-2],[3,4]]"),
    "rank 70": ("int8", (1,) * 70, [1], b"[" * 70 + b"1" + b"]" * 70),
    "64 bits": ("uint64", (2,), [2**64 - 1, 2**53 + 1], b"[18446744073709551615,9007199254740993]"),
    "large float": ("float32", (1,), [2.0**100], b"[1.2676506002282294e+30]"),
    "special": ("float16", (3,), [np.nan, np.inf, -np.inf], b'["NaN","Infinity","-Infinity"]'),
    "empty rows": ("float32", (2, 0), [], b"[[],[]]"),
}


@pytest.mark.parametrize(("name", "shape", "values", "text"), WRITTEN.values(), ids=WRITTEN)
def test_written_text(name: str, shape: tuple[int, ...], values: list[Any], text: bytes) -> None:
    payload = np.array(values, BY_NAME[name].numpy).tobytes()
    assert written(payload, BY_NAME[name], shape) == text
    assert written(memoryview(payload), BY_NAME[name], shape) == text


def test_specials_as_bare_tokens() -> None:
    payload = np.array([np.nan, np.inf, -np.inf, 1], "<f8").tobytes()
    text = written(payload, BY_NAME["float64"], (4,), nan_tokens=True)
    assert text == b"[NaN,Infinity,-Infinity,1.0]"


@pytest.mark.parametrize("name", [d.name for d in ROUNDABLE if d.itemsize <= 2])
def test_every_pattern_comes_back(name: str) -> None:
    dtype, bits = BY_NAME[name], all_patterns(name)
    values = bits.view(dtype.numpy)
    with np.errstate(invalid="ignore"):
        keeps = ~np.isnan(values.astype(np.float64))
    text = written(on_wire(values), dtype, bits.shape)
    payload = jsontensor.read(exact(text), dtype, bits.shape)
    back = off_wire(bytes(payload), name, bits.size).view(dtype.bits)
    assert np.array_equal(back[keeps], bits[keeps])
    if dtype.is_float:
        with np.errstate(invalid="ignore"):
            assert np.isnan(back.view(dtype.numpy)[~keeps].astype(np.float64)).all()


@given(
    st.sampled_from(ROUNDABLE),
    st.lists(st.integers(1, 4), max_size=5).map(tuple),
    st.integers(0, 2**32),
    st.booleans(),
)
def test_any_tensor_comes_back(dtype: Any, shape: tuple[int, ...], seed: int, tokens: bool) -> None:
    count = math.prod(shape)
    raw = np.random.default_rng(seed).bytes(dtype.nbytes(count))
    array = off_wire(raw, dtype.name, count).reshape(shape)
    with np.errstate(invalid="ignore"):
        nan = np.isnan(array.astype(np.float64))
    text = written(raw, dtype, shape, nan_tokens=tokens)
    assert np.shape(json.loads(text)) == shape
    payload = jsontensor.read(exact(text), dtype, shape)
    back = off_wire(bytes(payload), dtype.name, count).view(dtype.bits).reshape(shape)
    assert np.array_equal(back[~nan], array.view(dtype.bits)[~nan])


@pytest.mark.parametrize(
    "shape", [(200_000,), (200_000, 1), (2, 100_000), (3, 65_536), (1, 2, 3, 40_000), (65_537, 3)]
)
def test_large_tensors_are_nested_as_small_ones(shape: tuple[int, ...]) -> None:
    array = np.arange(math.prod(shape), dtype="<i4").reshape(shape)
    text = written(array.tobytes(), BY_NAME["int32"], shape)
    assert text == json.dumps(array.tolist(), separators=(",", ":")).encode()


# Much of it

HOSTILE: dict[str, tuple[str, str, str, bool]] = {
    "ties": ("2049,", "float16", "2049", True),
    "a wrong integer at the end": ("1,", "int8", "128", False),
    "a fraction at the end": ("1,", "int8", "1.5", False),
    "null at the end": ("1,", "float32", "null", False),
    "rows and then a number": ("[1],", "float32", "1", False),
    "rows and then a longer one": ("[1],", "float32", "[[1]]", False),
}


@pytest.mark.slow
@pytest.mark.parametrize(("item", "name", "last", "sound"), HOSTILE.values(), ids=HOSTILE)
def test_4_mib_of_hostile_numbers_take_seconds_at_most(
    item: str, name: str, last: str, sound: bool
) -> None:
    count = (4 << 20) // len(item)
    data = exact(f"[{item * count}{last}]")
    shape = (count + 1, 1) if item.startswith("[") else (count + 1,)
    began = time.process_time()
    try:
        jsontensor.read(data, BY_NAME[name], shape)
    except InvalidDescriptor:
        assert not sound
    else:
        assert sound
    assert time.process_time() - began < 5


def test_a_vast_shape_takes_no_memory() -> None:
    with traced() as most:
        for shape in [(2**40,), (2**40, 2**20), (1, 2**60)]:
            with pytest.raises(PayloadSizeMismatch):
                read("[[1]]", "float64", shape)
        assert read("[]", "float64", (0, 2**60)) == []
        assert written(b"", BY_NAME["float64"], (2**60, 0, 2**60)) == b"[]"
        assert most() < 1 << 20


EXACT = [d for d in DTYPES if not d.is_float or d.width in (4, 8, 64)]


@pytest.mark.parametrize("dtype", EXACT, ids=lambda dtype: dtype.name)
def test_the_longest_number_of_a_dtype(dtype: DType) -> None:
    if dtype.is_float and dtype.width == 64:
        values: Any = np.array([-sys.float_info.max])
    elif not dtype.is_float:
        info = ml_dtypes.iinfo(dtype.numpy)
        values = np.array([info.min, info.max], dtype.numpy)
    else:
        values = np.arange(1 << dtype.width, dtype=np.uint8).view(dtype.numpy)
    numbers = written(on_wire(values), dtype, [len(values)])[1:-1].split(b",")
    assert max(map(len, numbers)) == jsontensor.longest_number(dtype)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["int8", "int64", "float64"])
@pytest.mark.parametrize(
    "shape",
    [(7,), (30_000,), (30_000, *[1] * 31), (2,) * 15, (200, 200), (20_000, 1), (4096, 1, 1)],
    ids=str,
)
def test_writing_takes_no_more_than_is_reserved_for_it(name: str, shape: tuple[int, ...]) -> None:
    dtype, count = BY_NAME[name], math.prod(shape)
    least = -sys.float_info.max if dtype.is_float else np.iinfo(dtype.numpy).min
    payload = np.full(count, least, dtype.numpy).tobytes()
    reserved = jsontensor.text_bytes(dtype, shape)
    with traced() as most:
        jsontensor.write(payload, dtype, shape)
        peak = most()
    assert peak <= reserved + 1024 < 8 * peak


@pytest.mark.parametrize(("rest", "arrays"), [((), 0), ((1,), 300_000)])
def test_reservation_grows_by_the_longest_text(rest: tuple[int, ...], arrays: int) -> None:
    """By no more than a byte above that for each array."""
    dtype, shapes = BY_NAME["int8"], [(300_000, *rest), (600_000, *rest)]
    short, long = (len(written(b"\x80" * shape[0], dtype, shape)) for shape in shapes)
    less, more = (jsontensor.text_bytes(dtype, shape) for shape in shapes)
    assert long - short <= more - less <= long - short + arrays


# Parts and pauses


@pytest.mark.parametrize("shape", [(400_000,), (100, 4000), (40, 10_000)])
def test_a_long_text_has_parts_of_256_kib(shape: tuple[int, ...]) -> None:
    values = np.arange(400_000).astype(np.int8).reshape(shape)
    parts = jsontensor.write(values.tobytes(), BY_NAME["int8"], shape)
    lengths = [len(part) for part in parts]
    assert len(parts) > 4
    assert min(lengths[:-1]) >= 256 << 10
    assert max(lengths) < 384 << 10
    assert json.loads(b"".join(parts)) == values.tolist()


def test_a_text_of_exactly_256_kib_is_a_part() -> None:
    """31 rows of 4096 numbers, of which these many have two digits, and the comma after them."""
    rows = np.zeros((80, 4096), np.int8)
    rows[:31].reshape(-1)[:8129] = 10
    rows[31:62].reshape(-1)[:8130] = 10
    first, second, rest = jsontensor.write(rows.tobytes(), BY_NAME["int8"], rows.shape)
    assert (len(first), first[-2:]) == (256 << 10, b"],")
    assert (len(second), second[-2:]) == (256 << 10, b"],")
    assert json.loads(first + second + rest) == rows.tolist()


@pytest.mark.parametrize("name", ["int8", "float32"])
def test_a_pause_follows_each_block(name: str) -> None:
    pauses: list[None] = []
    dtype, count = BY_NAME[name], 10 * jsontensor.BLOCK
    payload = jsontensor.read([b"1"] * count, dtype, (count,), pause=lambda: pauses.append(None))
    assert len(pauses) >= 10
    pauses.clear()
    jsontensor.write(payload, dtype, (count,), pause=lambda: pauses.append(None))
    assert len(pauses) >= 10
