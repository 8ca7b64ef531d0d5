"""The reference itself, held against exact rational numbers.

The examples of the specifications are in ``tests/e2e/rounding/test_every_way.py``.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from functools import cache

import numpy as np
import pytest

from tensor_round_verify.patterns import edges, random_patterns
from tensor_round_verify.reference import BLOCK, FLOATS, ROUNDINGS, Bits, all_patterns, rounded

pytestmark = pytest.mark.slow

HALF = Fraction(1, 2)
#: The patterns that are no numbers, of the formats that have them elsewhere than IEEE 754.
NANS = {
    "float8_e4m3fn": {0x7F, 0xFF},
    "float8_e4m3fnuz": {0x80},
    "float8_e5m2fnuz": {0x80},
    "float4_e2m1fn": set[int](),
}


@cache
def value(pattern: int, dtype: str) -> Fraction | None:
    """The number a pattern stands for; None for infinities and NaNs."""
    fmt = FLOATS[dtype]
    field, fraction = divmod(pattern % fmt.sign_bit, 2**fmt.fraction_bits)
    if pattern in NANS[dtype] if dtype in NANS else field == 2 * fmt.bias + 1:
        return None
    scaled = Fraction(fraction, 2**fmt.fraction_bits)
    magnitude = (
        scaled * Fraction(2) ** (1 - fmt.bias)
        if field == 0
        else (1 + scaled) * Fraction(2) ** (field - fmt.bias)
    )
    return -magnitude if pattern >= fmt.sign_bit else magnitude


#: The rounded number, by Python's exact operations on fractions.
INTEGRAL: dict[str, Callable[[Fraction], int]] = {
    "ties_to_even": round,
    "ties_to_away": lambda x: math.floor(x + HALF) if x >= 0 else math.ceil(x - HALF),
    "toward_zero": math.trunc,
    "toward_positive": math.ceil,
    "toward_negative": math.floor,
}


def faults(patterns: Bits, dtype: str, rounding: str) -> list[str]:
    """Where the reference's answer is not the operand's sign with the exact integer's magnitude."""
    wrong = []
    sign_bit = FLOATS[dtype].sign_bit
    answers = rounded(patterns, dtype, rounding)
    for pattern, answer in zip(patterns.tolist(), answers.tolist(), strict=True):
        x = value(pattern, dtype)
        if x is None:
            right = answer == pattern
        else:
            integer = INTEGRAL[rounding](x)
            sign = 0 if integer == 0 and dtype.endswith("fnuz") else pattern & sign_bit
            right = value(answer, dtype) == integer and answer & sign_bit == sign
        if not right:
            wrong.append(f"{pattern:#x} ({x}) -> {answer:#x}")
    return wrong


@pytest.mark.parametrize("rounding", ROUNDINGS)
@pytest.mark.parametrize("dtype", FLOATS)
def test_results_are_the_exact_integer_with_the_operands_sign(dtype: str, rounding: str) -> None:
    if dtype in ("float32", "float64"):
        patterns = np.concatenate([edges(dtype), random_patterns(dtype, 4000, seed=1)])
    else:
        patterns = all_patterns(dtype)
    assert faults(patterns, dtype, rounding) == []


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
def test_edges_hold_every_kind_of_value(dtype: str) -> None:
    fmt = FLOATS[dtype]
    p, one = fmt.fraction_bits, fmt.bias << fmt.fraction_bits
    infinity = fmt.sign_bit - (1 << p)
    kinds = {
        "zero": 0,
        "least subnormal": 1,
        "least normal": 1 << p,
        "just below 1/2": one - (1 << p) - 1,
        "1/2": one - (1 << p),
        "1 1/2": one + (1 << (p - 1)),
        "the last half": (fmt.bias + p << p) - 1,
        "the first odd integer without a half": (fmt.bias + p << p) + 1,
        "largest finite": infinity - 1,
        "infinity": infinity,
        "signalling NaN": infinity + 1,
        "quiet NaN": infinity + (1 << (p - 1)),
    }
    found = set(edges(dtype).tolist())
    missing = [kind for kind, m in kinds.items() if not {m, m | fmt.sign_bit} <= found]
    assert missing == []


@pytest.mark.parametrize("rounding", ROUNDINGS)
@pytest.mark.parametrize("dtype", FLOATS)
def test_patterns_of_one_binade_are_rounded_as_among_others(dtype: str, rounding: str) -> None:
    """One exponent then stands for all of them, in place of one for each."""
    fmt = FLOATS[dtype]
    binade = 1 << fmt.fraction_bits
    drawn = random_patterns(dtype, 4096, seed=7)
    right = rounded(drawn, dtype, rounding)
    exponents = drawn // binade
    for exponent in np.unique(exponents):
        inside = exponents == exponent
        np.testing.assert_array_equal(rounded(drawn[inside], dtype, rounding), right[inside])


def test_a_long_run_is_rounded_block_by_block_as_a_whole() -> None:
    drawn = random_patterns("float16", 3 * BLOCK + 5, seed=9)
    table = rounded(all_patterns("float16"), "float16", "ties_to_away")
    np.testing.assert_array_equal(rounded(drawn, "float16", "ties_to_away"), table[drawn])
