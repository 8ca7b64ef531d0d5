"""JSON: what is read, what is refused, and that neither takes long."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from support.cases.json_values import VALUES, counted
from support.memory import peak
from tensor_round.contract.errors import MalformedJSON
from tensor_round.contract.wire import strictjson

REFUSED: list[tuple[str, bytes, str]] = [
    ("empty", b"", "not JSON"),
    ("blank", b" \n", "not JSON"),
    ("invalid UTF-8", b'"\xff"', "not UTF-8 at byte 1"),
    ("UTF-16", '{"a":1}'.encode("utf-16"), "not UTF-8"),
    ("UTF-16 without mark", '{"a":1}'.encode("utf-16-le"), "not JSON"),
    ("byte order mark", b"\xef\xbb\xbf{}", "byte order mark"),
    ("second value", b"1 2", "not JSON"),
    ("trailing comma", b"[1,]", "not JSON"),
    ("leading zero", b"01", "not JSON"),
    ("other digits", "١".encode(), "not JSON"),
    ("control character", b'"\x01"', "not JSON"),
    ("only a backslash", b"\\", "not JSON"),
    ("key twice", b'{"a":1,"a":1}', "twice"),
    ("key twice, escaped", b'{"a":1,"\\u0061":2}', "twice"),
    ("key twice, deep", b'[{"b":{"a":1,"c":2,"a":3}}]', "twice"),
    ("high surrogate alone", b'"\\ud800"', "surrogate"),
    ("low surrogate alone", b'"\\uDC00x"', "surrogate"),
    ("high surrogate twice", b'"\\ud800\\ud800\\udc00"', "surrogate"),
    ("surrogate in a key", b'{"\\ud800":1}', "surrogate"),
    ("surrogate after a backslash", b'"\\\\\\ud800"', "surrogate"),
    ("NaN", b"[NaN]", "token NaN"),
    ("-Infinity", b"-Infinity", "token -Infinity"),
    ("641 digits", b"1" * 641, "640 digits"),
    ("beyond Python's digits", b"[-" + b"1" * 5000 + b"]", "640 digits"),
    ("beyond float64", b"1e999", "range of float64"),
    ("depth 5, mixed", b'{"a":[{"a":[{}]}]}', "deeper than 4"),
    ("depth without an end", b"[" * 100_000, "deeper than 4"),
    ("depth after strings", b'["[[[","\\"","\\\\",[[[[1]]]]]', "deeper than 4"),
]


@pytest.mark.parametrize(
    ("text", "rule"), [case[1:] for case in REFUSED], ids=[case[0] for case in REFUSED]
)
def test_json_outside_the_standard_is_refused_in_one_line(text: bytes, rule: str) -> None:
    with pytest.raises(MalformedJSON) as caught:
        strictjson.loads(text, max_depth=4)
    assert rule in caught.value.detail
    assert "\n" not in caught.value.detail
    assert len(caught.value.detail) < 120


READ: list[tuple[str, bytes, Any]] = [
    ("zero", b"-0", 0),
    ("float", b" 1.5e3 ", 1500.0),
    ("64-bit integer", b"18446744073709551615", 2**64 - 1),
    ("640 digits", b"9" * 640, int("9" * 640)),
    ("surrogate pair", b'"\\ud83d\\ude00"', "\U0001f600"),
    ("escaped backslash before u", b'"\\\\ud800"', "\\ud800"),
    ("depth 4", b'{"a":[{"a":[]}]}', {"a": [{"a": []}]}),
    ("brackets in a string", b'"[[[[[[["', "[[[[[[["),
    ("brackets after an escaped quote", b'["\\"[[[[[["]', ['"[[[[[[']),
    ("brackets after an escaped backslash", b'["\\\\",["[[[[["]]', ["\\", ["[[[[["]]),
    ("many shallow", b"[" + b",".join([b"[[]]"] * 9) + b"]", [[[]]] * 9),
]


@pytest.mark.parametrize(
    ("text", "value"), [case[1:] for case in READ], ids=[case[0] for case in READ]
)
@pytest.mark.parametrize("form", [bytes, bytearray, memoryview])
def test_plain_json_is_read(text: bytes, value: Any, form: Any) -> None:
    assert strictjson.loads(form(text), max_depth=4) == value


def test_exact_numbers_are_their_own_text() -> None:
    text = b'{"a":[-0,1.50,1E+400,9007199254740993],"b":"1.5","c":[true,null,NaN]}'
    exact = strictjson.loads(text, max_depth=2, numbers="exact")
    assert exact == {
        "a": [b"-0", b"1.50", b"1E+400", b"9007199254740993"],
        "b": "1.5",
        "c": [True, None, b"NaN"],
    }


def test_plain_turns_exact_values_into_numbers() -> None:
    exact = [b"-0", b"1.50", b"1e2", b"-12", b"-Infinity", {"a": [b"1"]}, "1", None, True]
    value = strictjson.plain(exact)
    assert value == [0, 1.5, 100.0, -12, -math.inf, {"a": [1]}, "1", None, True]
    assert [type(number) for number in value[:5]] == [int, float, float, int, float]
    assert math.isnan(strictjson.plain(b"NaN"))


@pytest.mark.parametrize("text", [b"1" * 5000, b"1e999"], ids=["digits", "range"])
def test_plain_refuses_the_same_as_plain_reading(text: bytes) -> None:
    with pytest.raises(MalformedJSON):
        strictjson.plain([text])


FLAT = b"[" + b",".join([b"1.5", b"-2"] * 20_000) + b"]"


def pauses(text: bytes, **options: Any) -> int:
    """How often reading pauses."""
    called: list[None] = []
    strictjson.loads(text, max_depth=1, pause=lambda: called.append(None), **options)
    return len(called)


def test_reading_pauses_after_every_few_thousand_numbers() -> None:
    assert 5 < pauses(FLAT, numbers="exact") < 50
    alone = strictjson.loads(FLAT, max_depth=1, numbers="exact")
    assert strictjson.loads(FLAT, max_depth=1, numbers="exact", pause=lambda: None) == alone


@pytest.mark.parametrize(
    ("item", "is_number"), [("NaN", True), ("-Infinity", True), ("true", False), ('"1"', False)]
)
def test_names_of_numbers_count_for_pauses_and_others_do_not(item: str, is_number: bool) -> None:
    text = f"[{','.join([item] * 10_000)}]".encode()
    assert (pauses(text, numbers="exact") > 0) == is_number


@pytest.mark.parametrize("end", [b"", b"]]"], ids=["unterminated", "a wrong end"])
def test_pauses_do_not_change_the_refusal(end: bytes) -> None:
    text = FLAT[:-1] + end
    told = []
    for pause in (lambda: None, strictjson.no_pause):
        with pytest.raises(MalformedJSON) as caught:
            strictjson.loads(text, max_depth=1, pause=pause)
        told.append(caught.value.detail)
    assert told[0] == told[1]
    assert told[0].startswith("not JSON")


#: Values, and how many are in them; keys are not counted.
COUNTED: list[tuple[Any, int]] = [
    ([], 0),
    ({}, 0),
    ([1, "ab", None], 3),
    ((1, 2), 2),
    ({"a": 1, "b": 2}, 2),
    ({"a": [1, 2, 3], "b": {"c": {}}}, 6),
    ([[], [[]], {"a": ()}], 5),
]


@pytest.mark.parametrize(("value", "count"), COUNTED, ids=lambda value: str(value)[:12])
def test_values_are_counted_up_to_a_limit(value: Any, count: int) -> None:
    assert strictjson.extent(value, count)[0] == count
    assert strictjson.extent(value, count - 1)[0] > count - 1
    assert strictjson.extent([value, 7, "text"], count + 3)[0] == count + 3
    assert strictjson.extent([value, 7, "text"], count + 2)[0] > count + 2


def test_the_longest_text_is_a_value_or_a_key() -> None:
    for value, length in ([], 0), (123, 0), ("abc", 3), ([{"a": ["bc"]}], 2), ({"abcd": [{}]}, 4):
        assert strictjson.extent(value, 8)[1] == length


@given(VALUES, st.booleans())
@example([{"a": "1, 2:[{"}, 1], True)
def test_any_value_is_read_at_its_limits_and_refused_below(value: Any, ascii: bool) -> None:
    text = json.dumps(value, ensure_ascii=ascii).encode()
    most = {f"max_{name}": count for name, count in counted(value)._asdict().items()}
    assert strictjson.loads(text, **most) == value
    assert strictjson.plain(strictjson.loads(text, **most, numbers="exact")) == value
    for name, limit in most.items():
        if limit:
            with pytest.raises(MalformedJSON, match=r"deeper|more than"):
                strictjson.loads(text, **{**most, name: limit - 1})


@pytest.mark.parametrize("item", ["[", '"[:,', '["ab",', '""', r'"\\"', "[],", '{"":'])
def test_hostile_text_is_refused_in_a_few_times_its_memory(item: str) -> None:
    text = item.encode() * ((1 << 20) // len(item))
    limits = dict.fromkeys(("max_containers", "max_members", "max_values"), 9)
    assert peak(lambda: strictjson.loads(text, max_depth=4, **limits)) < 4 << 20


def test_dumps_is_compact_ascii() -> None:
    assert strictjson.dumps({"é": [1, 2.0, None]}) == b'{"\\u00e9":[1,2.0,null]}'
    with pytest.raises(ValueError, match="Out of range"):
        strictjson.dumps(math.nan)


@given(
    st.binary(max_size=40) | st.text('[]{}",:\\u0d89ab1e-.NaIfinty ', max_size=40).map(str.encode)
)
def test_any_bytes_are_read_or_refused(data: bytes) -> None:
    try:
        strictjson.plain(strictjson.loads(data, max_depth=4, numbers="exact"))
    except MalformedJSON:
        return
    json.loads(data)
