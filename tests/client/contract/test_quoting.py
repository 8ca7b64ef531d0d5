"""What error messages show of a caller's own values."""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tensor_round.contract.quoting import (
    LINE_CHARACTERS,
    SHOWN_CHARACTERS,
    not_accepted,
    one_line,
    printable,
    shown,
    shown_key,
    suggestion,
)

VALUES: list[tuple[Any, str]] = [
    ("FLOAT32", '"FLOAT32"'),
    ('a "quoted"\nline', '"a \\"quoted\\"\\nline"'),
    ("é", '"\\u00e9"'),
    ("\ud800", '"\\ud800"'),
    ("x" * 38, f'"{"x" * 38}"'),
    ("x" * 39, f'"{"x" * 36}...'),
    (True, "true"),
    (None, "null"),
    (2**128 - 1, "340282366920938463463374607431768211455"),
    (2**128, "an integer of 129 bits"),
    (-(10**5000), "an integer of 16610 bits"),
    (math.nan, "NaN"),
    (-math.inf, "-Infinity"),
    ([1, 2], "an array"),
    ({"a": 1}, "an object"),
    (b"bytes", "a Python bytes"),
]


@pytest.mark.parametrize(("value", "text"), VALUES, ids=[text[:30] for _, text in VALUES])
def test_values_are_shown_as_json(value: Any, text: str) -> None:
    assert shown(value) == text


@given(st.none() | st.booleans() | st.integers() | st.floats() | st.text())
def test_a_shown_value_is_short_printable_ascii(value: Any) -> None:
    text = shown(value)

    assert len(text) <= SHOWN_CHARACTERS
    assert text.isascii()
    assert text.isprintable()


@given(st.text(st.characters()))
def test_a_shown_key_is_short_and_fits_on_a_line(key: str) -> None:
    text = shown_key(key)

    assert len(text) <= SHOWN_CHARACTERS
    assert text.isprintable()
    text.encode("utf-8")


@given(st.text(st.characters()))
def test_any_text_is_one_line(text: str) -> None:
    line = one_line(text)

    assert len(line) <= LINE_CHARACTERS
    assert line.isprintable()


def test_printable_characters_stay_and_others_become_spaces() -> None:
    assert one_line("größe: 7 of 8") == "größe: 7 of 8"
    assert one_line("a\x1b]0;title\x07b\r\nc\x9b2Jd\u202ee\n") == "a ]0;title b c 2Jd e"
    assert one_line("x" * 1000) == "x" * 1000
    assert one_line("x" * 5000) == "x" * 997 + "..."
    assert printable({"a\x1b": ["\x07b", 1, None]}) == {"a": ["b", 1, None]}


def test_an_ordinary_key_is_shown_as_it_is() -> None:
    assert shown_key("GuaranteedBaseOffsetAlignment") == "GuaranteedBaseOffsetAlignment"
    assert shown_key("größe") == "größe"
    assert shown_key("x" * 40) == "x" * 40
    assert shown_key("x" * 41) == "x" * 37 + "..."
    assert shown_key("a\nb") == "a\\nb"


@pytest.mark.parametrize(
    ("value", "names", "meant"),
    [
        ("half_away_from_zero", ("ties_to_even", "ties_to_away"), "ties_to_away"),
        ("ties_to_even", ("HALVES_TO_NEAREST_EVEN", "TOWARD_ZERO"), "HALVES_TO_NEAREST_EVEN"),
        ("CEIL", ("toward_positive", "toward_negative"), "toward_positive"),
        ("float32", ("FLOAT16", "FLOAT", "BFLOAT16"), "FLOAT"),
        ("float128", ("float16", "float32", "float64"), "float64"),
        ("x" * 40, ("y", "x" * 39), "x" * 39),
    ],
)
def test_nearest_name_is_suggested(value: str, names: Any, meant: str) -> None:
    assert suggestion(value, names) == f"; did you mean {meant}?"


@pytest.mark.parametrize(
    ("value", "names"),
    [
        ("float128", ("float16", "float32")),
        ("BFLOAT16", ("FLOAT", "FLOAT16", "DOUBLE")),
        ("qint8", ("int8", "uint8")),
        ("float8_e4m3fnuz", ("float8_e4m3fn", "float8_e5m2")),
    ],
)
def test_no_type_is_suggested_for_another(value: str, names: tuple[str, ...]) -> None:
    """One of a similar name has less precision, or its bits mean something else."""
    assert suggestion(value, names) == ""


@pytest.mark.parametrize(
    "value", ["TOWARD_INFINITY", "torch", "", "onnx" + " " * 37, 7, None, ["onnx"]]
)
def test_nothing_is_suggested_by_guessing(value: Any) -> None:
    """DirectML's TOWARD_INFINITY rounds ties away; elsewhere it may be a directed rounding."""
    assert suggestion(value, ("toward_positive", "toward_negative", "onnx")) == ""


def test_message_states_the_value_then_the_fix_then_the_accepted_ones() -> None:
    names = ("ties_to_even", "toward_positive")
    accepted = "ccepted: ties_to_even, toward_positive"
    assert not_accepted("up", names) == f'got "up"; did you mean toward_positive? A{accepted}'
    assert not_accepted("sideways", names) == f'got "sideways"; a{accepted}'
    assert not_accepted("up", names, "X takes Y") == (
        'got "up"; did you mean toward_positive? X takes Y'
    )
    assert not_accepted("x", (), wrong="unknown field") == "unknown field; accepted: none"
    assert not_accepted("str32", ("int8",), listed=["a"]) == 'got strings ("str32"); accepted: a'
