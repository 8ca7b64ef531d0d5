"""The census of JSON: counted right, and enough for whatever reading takes."""

from __future__ import annotations

import contextlib
import json
import time
from collections.abc import Callable
from functools import lru_cache, partial
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.cases.json_values import VALUES, counted
from support.memory import peak
from tensor_round.contract.dtypes import BY_NAME
from tensor_round.contract.errors import MalformedJSON
from tensor_round.contract.wire import strictjson
from tensor_round.contract.wire.strictjson import Limits
from tensor_round_service.codec import jsontensor
from tensor_round_service.codec.json_size import BLOCK, JSONSize, loads_exact, measure_json

KIB, MIB = 1 << 10, 1 << 20
DEPTH = 100
#: Of texts that cost little for each byte: more than a block.
LENGTH = 300 * KIB
#: Of the others: from a few items to some thousands. Arrays grow by eighths at any length.
LENGTHS = (2 * KIB, 6 * KIB, 20 * KIB)


def listed(item: str, nbytes: int) -> bytes:
    """An array of that item, again and again."""
    text = item.encode()
    return b"[" + b",".join([text] * (nbytes // (len(text) + 1))) + b"]"


# Counting


@given(VALUES, st.booleans(), st.sampled_from([None, 1]))
def test_any_value_is_counted(value: Any, ascii: bool, indent: int | None) -> None:
    found = measure_json(json.dumps(value, ensure_ascii=ascii, indent=indent).encode())
    assert (found.depth, found.containers, found.members, found.values) == counted(value)


STRADDLING = rb'{"a\\":[1.25,"\\\"[[{:,","\\\\",{"\u00e9":"\"]"}],"]":"\\\\\\\"[","":[[]]}'


def test_a_text_is_counted_alike_wherever_a_block_of_it_ends() -> None:
    alone = measure_json(STRADDLING)
    assert alone.depth == 3
    for before in range(len(STRADDLING) + 2):
        found = measure_json(b" " * (BLOCK - before) + STRADDLING)
        for name in ("depth", "containers", "members", "values"):
            assert getattr(found, name) == getattr(alone, name), (name, before)


LONG = 300_000
# text -> depth, containers, members, values, bytes
SIZES: dict[str, tuple[bytes, tuple[int, int, int, int, int]]] = {
    "spaces": (b"[1,   2]", (1, 1, 0, 3, 17_027)),
    "arrays": (b"[[],[]]", (2, 3, 0, 5, 17_217)),
    "members": (b'{"a":1,"b":[{}]}', (3, 3, 2, 5, 18_273)),
    "an escaped quote": (b'"\\""', (0, 0, 0, 1, 16_705)),
    "an escaped backslash": (b'"\\\\"', (0, 0, 0, 1, 16_705)),
    "an escape at the end": (b'"a\\', (0, 0, 0, 1, 16_624)),
    "code points": (b'"' + b"\\u0101" * 200 + b'"', (0, 0, 0, 1, 51_742)),
    "code points in Latin-1": ('"é'.encode() + b"\\u0101" * 200 + b'"', (0, 0, 0, 1, 53_016)),
    "the last character of ASCII": (b'"\x7f"', (0, 0, 0, 1, 16_701)),
    "a byte of no character": (b'"\x80"', (0, 0, 0, 1, 16_704)),
    "the last character of Latin-1": ('"ÿ"'.encode(), (0, 0, 0, 1, 16_711)),
    "the first behind Latin-1": ('"Ā"'.encode(), (0, 0, 0, 1, 16_719)),
    "the last of two bytes": ('"\uffff"'.encode(), (0, 0, 0, 1, 16_729)),
    "wide characters": ('"€"'.encode() * 200, (0, 0, 0, 1, 53_193)),
    "wider characters": ('"\U0001f600"'.encode() * 200, (0, 0, 0, 1, 66_671)),
    "numbers, a block and more": (
        b"[" + b",".join([b"12"] * (LONG // 3)) + b"]",
        (1, 1, 0, 100001, 10_811_829),
    ),
    "a string, a block and more": (b'"' + b"a" * LONG + b'"', (0, 0, 0, 1, 4_487_650)),
    "arrays, a block and more": (b"[" * LONG, (300000, 300000, 0, 300001, 43_487_561)),
    "commas, a block and more": (b"," * LONG, (0, 0, 0, 300001, 12_811_721)),
    "a wrong end": (b"[1,,,,", (1, 1, 0, 6, 17_416)),
    "closed, then deeper": (b"[[]][[[]]]", (3, 5, 0, 6, 17_370)),
    "what is no bracket": (b"zZ|<>;]", (0, 0, 0, 1, 16_703)),
    "a string of brackets, blocks and more": (b'"' + b"[" * 2 * LONG, (0, 0, 0, 1, 5_987_600)),
}


@pytest.mark.parametrize(("text", "size"), SIZES.values(), ids=SIZES)
def test_the_census_of_a_text_to_the_last_byte(
    text: bytes, size: tuple[int, int, int, int, int]
) -> None:
    """What is reserved for a text changes by decision alone."""
    assert measure_json(text) == JSONSize(*size)


def test_a_pause_follows_each_block() -> None:
    pauses: list[None] = []
    for blocks, length in ((0, 0), (1, 1), (1, BLOCK), (2, BLOCK + 1)):
        pauses.clear()
        measure_json(b" " * length, lambda: pauses.append(None))
        assert len(pauses) == blocks


def test_reading_pauses_while_it_measures_and_while_it_parses() -> None:
    pauses: list[None] = []
    loads_exact(listed("1", 40_000), Limits(1, 1), None, partial(pauses.append, None))
    assert len(pauses) == 1 + 20_000 // 4096


LARGE: dict[str, Callable[[], bytes]] = {
    "brackets": lambda: b"[" * (16 * MIB),
    "numbers": lambda: listed("0.5", 16 * MIB),
    "quotes": lambda: b'"' * (16 * MIB),
    "backslashes": lambda: b"\\" * (16 * MIB),
    "an unterminated string of escapes": lambda: b'"' + b'\\"' * (8 * MIB),
    "surrogates": lambda: b'"' + b"\\ud800" * (16 * MIB // 6),
    "digits": lambda: b"1" * (16 * MIB),
    "digits of a float": lambda: b"0." + b"1" * (16 * MIB),
    "one string": lambda: b'["' + b"a" * (16 * MIB) + b'",[[[[[]]]]]]',
}


@pytest.mark.parametrize("name", LARGE)
def test_hostile_text_of_16_mib_is_counted_in_little_memory_and_answered_soon(name: str) -> None:
    text = LARGE[name]()
    assert peak(lambda: measure_json(text)) < 5 * MIB
    began = time.process_time()
    with contextlib.suppress(MalformedJSON):
        strictjson.loads(text, max_depth=4)
    assert time.process_time() - began < 5


# Memory

NESTED = {
    "empty arrays": "[]",
    "arrays of one": "[0]",
    "arrays of two": "[0,0]",
    "arrays of five": "[10,20,30,40,50]",
    "deep and empty": "[" * 60 + "]" * 60,
    "deep": "[" * 60 + "12" + "]" * 60,
}
NUMBERS = {
    "digits": "0",
    "two digits": "12",
    "short floats": "0.5",
    "floats": "0.12345678",
    "long floats": "-1.2345678901234567e-12",
    "integers": "-1234567890123456789",
    "ties": "1.00048828125",
    "spaced": "\n    1.5",
}
OTHERS = {
    "empty strings": '""',
    "characters": '"a"',
    "strings": '"ab"',
    "specials": '"NaN"',
    "wide strings": '"\U0001f600"',
    "wider and wider": '"aé€\U0001f600"',
    "code points": r'"\ud83d\ude00ab"',
    "literals": "true",
    "objects": "{}",
    "objects in objects": '{"a":{}}',
    "arrays in objects": '{"a":[]}',
    "members": '{"a":0,"b":0,"c":0,"d":0,"e":0,"f":0}',
    "deep objects": '{"a":' * 50 + "10" + "}" * 50,
}


def keys(count: int) -> bytes:
    """An object of that many members."""
    return json.dumps(dict.fromkeys(map(hex, range(count)), 1)).encode()


WHOLE: dict[str, Callable[[], bytes]] = {
    "one string": lambda: b'["' + b"a" * LENGTH + b'"]',
    "one string, wide at the end": lambda: b'["' + b"a" * LENGTH + "\U0001f600".encode() + b'"]',
    "one string, wide by an escape": lambda: b'["' + b"a" * LENGTH + rb"\ud83d\ude00" + b'"]',
    "one string, widened thrice": lambda: (
        b'["' + "é".join(["a" * LENGTH] * 2).encode() + "€😀".encode() + b'"]'
    ),
    "one string of escapes": lambda: b'["' + b"\\n" * (LENGTH // 2) + b'"]',
    "one string of code points": lambda: b'["' + rb"\u0101" * (LENGTH // 6) + b'"]',
    "an unterminated string": lambda: b'["' + b'\\"' * (LENGTH // 2),
    "one integer": lambda: b"[" + b"1" * LENGTH + b"]",
    "one tie": lambda: b"[1.00048828125" + b"0" * LENGTH + b"]",
    "white space": lambda: b" " * LENGTH + b"1",
    "a wrong end": lambda: listed("12", LENGTH)[:-1] + b"," * LENGTH,
    "a wrong end, near": lambda: listed("12", 100 * KIB)[:-1] + b"," * (150 * KIB),
    "a wrong end of brackets": lambda: listed("12", 100 * KIB)[:-1] + b"]" * (150 * KIB),
    **{
        f"{count} keys": partial(keys, count)
        for count in (1, 5, 6, 1000, 5461, 5462, 10922, 10923, 21846)
    },
    **{
        f"{name}, {length // KIB} KiB": partial(listed, item, length)
        for name, item in (NESTED | NUMBERS | OTHERS).items()
        for length in LENGTHS
    },
}


def exactly(text: bytes) -> Any:
    return strictjson.loads(text, max_depth=DEPTH, numbers="exact")


def leaves(value: Any) -> int:
    return sum(map(leaves, value)) if isinstance(value, list) else 1


@lru_cache(1)
def elements(text: bytes) -> int:
    """How many numbers a text has, or 1."""
    with contextlib.suppress(MalformedJSON):
        return leaves(exactly(text))
    return 1


def read(text: bytes, dtype: str, *rows: int, any_nesting: bool = True) -> Callable[[], object]:
    """Reading the text as a tensor, each element of which may be a row of one."""
    shape = (elements(text), *rows)
    return lambda: jsontensor.read(exactly(text), BY_NAME[dtype], shape, any_nesting=any_nesting)


@pytest.mark.parametrize("name", WHOLE)
def test_reading_takes_no_more_than_the_census_says(name: str) -> None:
    text = WHOLE[name]()
    nbytes = measure_json(text).nbytes
    assert peak(lambda: strictjson.loads(text, max_depth=DEPTH)) <= nbytes
    for dtype in ("float16", "float64"):
        assert peak(read(text, dtype)) <= nbytes
    assert peak(read(text, "int64", 1, any_nesting=False)) <= nbytes


@given(VALUES, st.booleans())
def test_reading_any_value_takes_no_more_than_the_census_says(value: Any, ascii: bool) -> None:
    text = json.dumps(value, ensure_ascii=ascii).encode()
    assert peak(lambda: exactly(text)) <= measure_json(text).nbytes


@pytest.mark.parametrize("name", NUMBERS)
def test_the_census_of_many_numbers_is_enough_and_close_to_the_memory_of_reading(
    name: str,
) -> None:
    """In many blocks, where what each block is given for its own adds least."""
    text = listed(NUMBERS[name], MIB)
    most = peak(read(text, "float64", any_nesting=False))
    assert most <= measure_json(text).nbytes <= 2.75 * most


# Limits


@given(VALUES, st.booleans())
def test_any_value_is_read_at_its_limits_and_refused_below(value: Any, ascii: bool) -> None:
    text = json.dumps(value, ensure_ascii=ascii).encode()
    most = counted(value)
    assert strictjson.plain(loads_exact(text, most, measure_json(text))) == value
    # Too long to be parsed without being measured.
    text += b" " * 4096
    assert strictjson.plain(loads_exact(text, most)) == value
    for name, limit in most._asdict().items():
        if limit:
            with pytest.raises(MalformedJSON, match=r"deeper|more than"):
                loads_exact(text, most._replace(**{name: limit - 1}))
