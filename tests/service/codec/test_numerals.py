"""Decimals to bit patterns, held against exact fractions."""

from __future__ import annotations

import time
from bisect import bisect_right
from collections.abc import Iterator
from decimal import Context, Decimal
from fractions import Fraction
from functools import cache

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tensor_round.contract.dtypes import BY_NAME
from tensor_round_service.codec import jsontensor
from tensor_round_verify.reference import FLOATS

#: Enough digits for every float64 and every midpoint of narrower formats to be exact.
EXACT = Context(prec=1100)
NARROW = [name for name, fmt in FLOATS.items() if fmt.width <= 16]

# The pattern of the first magnitude that is not finite; of a format of numbers alone, the last one.
OVERFLOW = {
    **{name: (1 << (fmt.width - 1)) - (1 << fmt.fraction_bits) for name, fmt in FLOATS.items()},
    **{"float8_e4m3fn": 0x7F, "float4_e2m1fn": 7},
    **dict.fromkeys(("float8_e4m3fnuz", "float8_e5m2fnuz"), 0x80),
}


def value_of(magnitude: int, name: str) -> Fraction:
    """What a pattern without a sign stands for; the overflow pattern as if it were finite."""
    fmt = FLOATS[name]
    field, fraction = divmod(magnitude, 1 << fmt.fraction_bits)
    significand = fraction + ((1 << fmt.fraction_bits) if field else 0)
    return significand * Fraction(2) ** (max(field, 1) - fmt.bias - fmt.fraction_bits)


def nearest(exact: Fraction, name: str) -> int:
    """The pattern nearest to a value, ties to even, by search among the patterns alone."""
    magnitudes = range(OVERFLOW[name] + 1)
    below = bisect_right(magnitudes, abs(exact), key=lambda m: value_of(m, name)) - 1
    if below < OVERFLOW[name]:
        middle = (value_of(below, name) + value_of(below + 1, name)) / 2
        below += abs(exact) > middle or (abs(exact) == middle and below % 2 == 1)
    return below


def text_of(exact: Fraction) -> Decimal:
    return EXACT.divide(Decimal(exact.numerator), Decimal(exact.denominator))


def patterns(texts: list[str], name: str) -> list[int]:
    found: list[int] = jsontensor.patterns([t.encode() for t in texts], BY_NAME[name]).tolist()
    return found


def signed(magnitude: int, name: str) -> int:
    return 0 if magnitude == 0 and name.endswith("fnuz") else magnitude | FLOATS[name].sign_bit


@cache
def midpoint(below: int, name: str) -> Decimal:
    return text_of((value_of(below, name) + value_of(below + 1, name)) / 2)


def _around(middle: Decimal) -> Iterator[tuple[str, int]]:
    """Texts just below (-1), at (0) and just above (1) a midpoint, all nearest to one float64."""
    yield str(EXACT.multiply(middle, Decimal("0." + "9" * 40))), -1
    yield str(middle), 0
    yield f"{middle:f}" if "." in f"{middle:f}" else f"{middle:f}.000", 0
    yield str(EXACT.multiply(middle, Decimal("1." + "0" * 39 + "1"))), 1


@pytest.mark.parametrize("name", NARROW)
def test_every_midpoint_is_decided_by_the_decimal_itself(name: str) -> None:
    texts, expected = [], []
    for below in range(OVERFLOW[name]):
        tie = below + below % 2
        for text, side in _around(midpoint(below, name)):
            magnitude = (below, tie, below + 1)[side + 1]
            texts += [text, "-" + text]
            expected += [magnitude, signed(magnitude, name)]
    assert patterns(texts, name) == expected


@pytest.mark.parametrize("name", NARROW)
def test_the_float64_next_to_a_midpoint_is_on_its_side(name: str) -> None:
    texts, expected = [], []
    for below in range(OVERFLOW[name]):
        middle = float(midpoint(below, name))
        texts += [repr(np.nextafter(middle, 0).item()), repr(np.nextafter(middle, 1e300).item())]
        expected += [below, below + 1]
    assert patterns(texts, name) == expected


DECIMALS = st.builds(
    lambda digits, point, exponent: f"{digits[:point] or 0}.{digits[point:]}5e{exponent}",
    st.integers(1, 10**25).map(str),
    st.integers(0, 25),
    st.integers(-70, 45),
)


@given(DECIMALS, st.sampled_from(sorted(FLOATS)))
@example("1.0004882812500002", "float16")
@example("9007199254740993", "float32")
@example("9007199254740993", "float64")
@example("16777217.000000000000000000001", "float32")
def test_any_decimal_goes_to_the_nearest_pattern(text: str, name: str) -> None:
    magnitude = nearest(Fraction(text), name)
    assert patterns([text, "-" + text], name) == [magnitude, signed(magnitude, name)]


@given(
    st.integers(0, OVERFLOW["float32"] - 1),
    st.integers(-3, 3),
    st.sampled_from(["1e-12", "1e-16", "1e-17", "1e-20", "1e-60", "1e-300"]),
)
def test_decimals_about_a_midpoint_of_float32(below: int, steps: int, size: str) -> None:
    middle = midpoint(below, "float32")
    text = str(EXACT.add(middle, EXACT.multiply(middle, EXACT.multiply(Decimal(size), steps))))
    assert patterns([text], "float32") == [nearest(Fraction(text), "float32")]


NAN = {
    "float16": 0x7E00,
    "bfloat16": 0x7FC0,
    "float32": 0x7FC00000,
    "float64": 0x7FF8000000000000,
    "float8_e4m3fn": 0x7F,
    "float8_e5m2": 0x7E,
    "float8_e4m3fnuz": 0x80,
    "float8_e5m2fnuz": 0x80,
    "float4_e2m1fn": 7,  # it has no NaN: the largest number
}


@pytest.mark.parametrize("name", sorted(FLOATS))
def test_nan_is_quiet_and_positive(name: str) -> None:
    assert patterns(["NaN"], name) == [NAN[name]]


@pytest.mark.parametrize("name", sorted(FLOATS))
@pytest.mark.parametrize("text", ["0", "0.0", "0e5", "0.000e-999999999", "1e-999999999"])
def test_zeros_keep_their_sign(name: str, text: str) -> None:
    """But for 8-bit types whose -0 is a NaN."""
    assert patterns([text, "-" + text], name) == [0, signed(0, name)]


def test_powers_of_two_are_read_as_they_are_converted() -> None:
    """Ties go to the larger one; what is positive and small to the least; all else is a NaN."""
    numbers = {"1": 127, "1.5": 128, "1.4999999999999999999": 127, "3e38": 0xFF, "1.7e38": 0xFE}
    tiny = dict.fromkeys(("5.9e-39", "1e-40", "1e-999"), 0)
    nans = dict.fromkeys(("0", "-0", "-1", "1e999", "NaN", "Infinity", "-Infinity", "-1e-999"), 255)
    texts = {**numbers, **tiny, **nans}
    assert patterns([*texts], "float8_e8m0fnu") == [*texts.values()]


@pytest.mark.parametrize("name", sorted(FLOATS))
def test_numbers_beyond_every_format_overflow(name: str) -> None:
    texts = ["1e999999999", "9" * 5000, "1e309", "Infinity"]
    assert patterns(texts, name) == [OVERFLOW[name]] * 4
    assert patterns(["-" + t for t in texts], name) == [signed(OVERFLOW[name], name)] * 4


def test_more_decimals_than_one_block() -> None:
    count = 200_001
    texts = ["1.0004882812500002", "2049", "-0"] * (count // 3)
    assert patterns(texts, "float16") == [0x3C01, 0x6800, 0x8000] * (count // 3)
    assert jsontensor.patterns([], BY_NAME["float16"]).tolist() == []


LONG: dict[str, bytes] = {
    "ones": b"1" * (1 << 24),
    "fraction": b"0." + b"3" * (1 << 24),
    "a tie and then nothing": b"2049." + b"0" * (1 << 24),
    "a tie and then something": b"2049." + b"0" * (1 << 24) + b"1",
    "zeros and an exponent": b"0." + b"0" * (1 << 24) + b"2049e" + str((1 << 24) + 4).encode(),
    "large exponent": b"1e999999999999999999999",
    "small exponent": b"1e-999999999999999999999",
}


@pytest.mark.parametrize("name", LONG)
def test_one_long_decimal_is_answered_soon(name: str) -> None:
    began = time.process_time()
    jsontensor.patterns([LONG[name]], BY_NAME["float16"])
    assert time.process_time() - began < 5
