"""The class of every pattern of 8 and 16 bits, by exact fractions; of wide types by example."""

from __future__ import annotations

from fractions import Fraction
from itertools import product

import numpy as np
import pytest

from tensor_round_verify import (
    FLOATS,
    INTEGER_WIDTHS,
    ROUNDINGS,
    PatternClass,
    all_patterns,
    classify,
    rounded,
    samples,
)

HALF = Fraction(1, 2)
HALVES = ("float16", "bfloat16")


def special(pattern: int, dtype: str) -> PatternClass | None:
    """The class of what is no number."""
    fmt = FLOATS[dtype]
    magnitude = pattern % fmt.sign_bit
    field, fraction = divmod(magnitude, 2**fmt.fraction_bits)
    if not fmt.has_infinity:
        nan = magnitude == 0x7F if dtype == "float8_e4m3fn" else pattern == 0x80
        return PatternClass.QUIET_NAN if nan and fmt.width == 8 else None
    if field != 2 * fmt.bias + 1:
        return None
    if fraction == 0:
        return PatternClass.INFINITY
    quiet = 2 ** (fmt.fraction_bits - 1)
    if fraction < quiet:
        return PatternClass.SIGNALLING_NAN
    return PatternClass.QUIET_NAN if fraction == quiet else PatternClass.QUIET_NAN_WITH_PAYLOAD


def magnitude_of(pattern: int, dtype: str) -> Fraction:
    fmt = FLOATS[dtype]
    field, fraction = divmod(pattern % fmt.sign_bit, 2**fmt.fraction_bits)
    significand = Fraction(fraction, 2**fmt.fraction_bits) + (field > 0)
    return significand * Fraction(2) ** (max(field, 1) - fmt.bias)


def class_of(pattern: int, dtype: str, rounding: str) -> PatternClass:
    """By the definitions of the classes alone, the first that fits."""
    fmt = FLOATS[dtype]
    if (found := special(pattern, dtype)) is not None:
        return found
    x, negative = magnitude_of(pattern, dtype), pattern >= fmt.sign_bit
    if x == 0:
        return PatternClass.NEGATIVE_ZERO if negative else PatternClass.POSITIVE_ZERO
    if x < Fraction(2) ** (1 - fmt.bias):
        return PatternClass.SUBNORMAL
    if x % 1 == HALF:
        return PatternClass.EXACT_TIE
    if x % 1 != 0:
        if magnitude_of(pattern + 1, dtype) % 1 == HALF:
            return PatternClass.NEXT_BELOW_A_TIE
        to_zero = {
            "ties_to_even": x < HALF,
            "ties_to_away": x < HALF,
            "toward_zero": x < 1,
            "toward_positive": x < 1,
            "toward_negative": False,
        }
        if negative and to_zero[rounding]:
            return PatternClass.NEGATIVE_THAT_ROUNDS_TO_ZERO
        return PatternClass.OTHER_FRACTION
    p = fmt.fraction_bits
    if x % 2 == 1 and 2**p <= x < 2 ** (p + 1):
        return PatternClass.LAST_ODD_INTEGER
    return PatternClass.OTHER_INTEGER


@pytest.mark.parametrize(
    ("dtype", "rounding", "step"),
    [
        *product([name for name, fmt in FLOATS.items() if fmt.width <= 8], ROUNDINGS, [1]),
        # The direction decides about one class alone, and Python's fractions take their time.
        ("float16", "ties_to_even", 5),
        ("float16", "toward_negative", 7),
        ("bfloat16", "toward_positive", 5),
        *(pytest.param(*each, 1, marks=pytest.mark.sweep) for each in product(HALVES, ROUNDINGS)),
    ],
)
def test_every_pattern_has_the_class_of_its_definition(
    dtype: str, rounding: str, step: int
) -> None:
    bits = all_patterns(dtype)[::step]
    codes = classify(bits, dtype, rounded(bits, dtype, rounding))
    expected = [class_of(pattern, dtype, rounding) for pattern in bits.tolist()]
    np.testing.assert_array_equal(codes, expected)


@pytest.mark.parametrize("rounding", ROUNDINGS)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_wide_patterns_too_mixed_or_of_one_binade(dtype: str, rounding: str) -> None:
    bits = samples(dtype, random_count=1000)[::5]
    expected = [class_of(pattern, dtype, rounding) for pattern in bits.tolist()]
    want = rounded(bits, dtype, rounding)
    np.testing.assert_array_equal(classify(bits, dtype, want), expected)
    one_by_one = [
        classify(bits[i : i + 1], dtype, want[i : i + 1])[0] for i in range(0, bits.size, 7)
    ]
    np.testing.assert_array_equal(one_by_one, expected[::7])


@pytest.mark.parametrize("dtype", INTEGER_WIDTHS)
def test_integers_are_integers(dtype: str) -> None:
    bits = samples(dtype, random_count=100)
    assert set(classify(bits, dtype, bits).tolist()) == {PatternClass.OTHER_INTEGER}


def test_no_patterns_have_no_classes() -> None:
    none = np.array([], "<u4")
    assert classify(none, "float32", none).size == 0


def test_classes_are_named_for_json_and_for_sentences() -> None:
    assert PatternClass.EXACT_TIE.label == "exact_tie"
    assert PatternClass.LAST_ODD_INTEGER.plural("float32") == "odd integers from 2^23 to 2^24"
    assert PatternClass.OTHER_INTEGER.plural("int8") == "integers"
    assert PatternClass.OTHER_INTEGER.plural("float32") == "other integers"
    assert PatternClass.EXACT_TIE.plural("int8") == "exact ties"
    names = {kind.plural("float16") for kind in PatternClass}
    assert len(names) == len(PatternClass)
