"""The reference of conversions, beside exact fractions and beside the processor."""

from __future__ import annotations

from fractions import Fraction

import ml_dtypes
import numpy as np
import pytest

from support.cases.array_cases import Array
from tensor_round.contract.dtypes import BY_NAME
from tensor_round_verify.conversions.conversion import Quantization
from tensor_round_verify.conversions.patterns import Operands, cast_operands, trials
from tensor_round_verify.conversions.reference import cast, divided
from tensor_round_verify.reference import ROUNDINGS, is_nan

NARROW = ("float8_e4m3fn", "float8_e5m2")
LARGEST = {"float8_e4m3fn": Fraction(448), "float8_e5m2": Fraction(57344)}


def numbers(dtype: str) -> list[Fraction]:
    """Every number that is not negative, ascending, and what would be next after the largest."""
    values = np.arange(0x7F, dtype=np.uint8).view(BY_NAME[dtype].numpy).astype(np.float64)
    finite = [Fraction(value) for value in values[np.isfinite(values)].tolist()]
    return [*finite, 2 * finite[-1] - finite[-2]]


def nearest(x: Fraction, found: list[Fraction], rounding: str, negative: bool) -> int:
    """The place of the magnitude that x becomes; the place after the last is overflow."""
    below = max(i for i, number in enumerate(found) if number <= x)
    if found[below] == x or below == len(found) - 1:
        return below
    up = {"toward_zero": False, "toward_positive": not negative, "toward_negative": negative}
    if rounding in up:
        return below + up[rounding]
    half = (found[below] + found[below + 1]) / 2
    if x == half:
        return below + (rounding == "ties_to_away" or below % 2)
    return below + (x > half)


@pytest.mark.parametrize("rounding", ROUNDINGS)
@pytest.mark.parametrize("target", NARROW)
def test_every_tie_and_number_is_as_fractions_have_it(target: str, rounding: str) -> None:
    found, top = numbers(target), LARGEST[target]
    operands = cast_operands("float32", target)
    # As patterns: below twice the largest, of both signs.
    below = np.float32(2 * top).view(np.uint32)
    picked = operands[(operands & np.uint32(0x7FFFFFFF)) < below][::29]
    results = cast(picked, "float32", target, rounding, saturate=False)
    for operand, result in zip(picked, results.tolist(), strict=True):
        x = float(operand.view(np.float32))
        negative = bool(operand >> 31)
        place = nearest(abs(Fraction(x)), found, rounding, negative)
        if place == len(found) - 1:
            stops = {"toward_zero": True, "toward_positive": negative}
            stopped = stops.get(rounding, rounding == "toward_negative" and not negative)
            place = len(found) - 2 if stopped else (0x7F if target == NARROW[0] else 0x7C)
        assert result == place | negative << 7, x


@pytest.mark.parametrize("target", ["float16", "bfloat16", *NARROW])
def test_to_nearest_even_is_as_the_processor_and_ml_dtypes_have_it(target: str) -> None:
    bits = cast_operands("float32", target)
    want = cast(bits, "float32", target, "ties_to_even", saturate=False)
    with np.errstate(all="ignore"):
        got = bits.view(np.float32).astype(BY_NAME[target].numpy).view(want.dtype)
    both = is_nan(target, want) & is_nan(target, got)
    assert np.array_equal(got[~both], want[~both])
    assert np.array_equal(is_nan("float32", bits) | (both & ~is_nan("float32", bits)), both)


#: Of ONNX's Cast-25: x, saturated or not, E4M3FN, E5M2.
TABLE = [
    (np.inf, True, 448.0, 57344.0),
    (-np.inf, True, -448.0, -57344.0),
    (1e9, True, 448.0, 57344.0),
    (-1e9, True, -448.0, -57344.0),
    (np.inf, False, np.nan, np.inf),
    (-np.inf, False, np.nan, -np.inf),
    (1e9, False, np.nan, np.inf),
    (464.0, False, 448.0, 448.0),
    (465.0, False, np.nan, 448.0),
    (465.0, True, 448.0, 448.0),
    (np.nan, True, np.nan, np.nan),
    (-0.0, True, -0.0, -0.0),
]


@pytest.mark.parametrize(("x", "saturate", "e4m3", "e5m2"), TABLE)
def test_onnxs_table(x: float, saturate: bool, e4m3: float, e5m2: float) -> None:
    bits = np.array([x], np.float32).view(np.uint32)
    for target, want in zip(NARROW, (e4m3, e5m2), strict=True):
        found = cast(bits, "float32", target, "ties_to_even", saturate=saturate)
        assert repr(float(found.view(BY_NAME[target].numpy)[0])) == repr(want)


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
def test_quotients_are_the_processors(dtype: str) -> None:
    own = BY_NAME[dtype].numpy
    for trial in trials(dtype, "int8", per_axis=False):
        operands = trial.operands()
        x, scale = operands.bits.view(own), operands.scales.view(own)
        with np.errstate(all="ignore"):
            # Of the narrow types, float64 has each quotient with bits to spare.
            wide: Array = x.astype(np.float64) / scale.astype(np.float64)
            want = (x / scale) if dtype == "float32" else wide.astype(own)
        got = divided(operands.bits, operands.scales, dtype)
        skip = np.isnan(wide)
        assert np.array_equal(got[~skip], want.view(got.dtype)[~skip])


def test_a_quantization_by_hand() -> None:
    x = np.array([-2.5, -0.5, 0.5, 1.5, 126.5, 200.0, -np.inf], np.float32)
    scales = np.ones(7, np.float32).view(np.uint32)
    for point, want in ((0, [-2, 0, 0, 2, 126, 127, -128]), (1, [-1, 1, 1, 3, 127, 127, -128])):
        points = np.full(7, point)
        operands = Operands(x.view(np.uint32), scales, points)
        got = Quantization("float32", "int8").results(operands)
        assert got.view(np.int8).tolist() == want


def test_the_operands_have_every_tie_with_its_neighbours() -> None:
    bits = set(cast_operands("float32", "bfloat16").tolist())
    for pattern in range(0, 0x7F7F, 251):
        tie = (pattern << 16) + 0x8000
        assert {tie - 1, tie, tie + 1, tie | 1 << 31} <= bits
    assert ml_dtypes.finfo("bfloat16").max == np.uint16(0x7F7F).view(ml_dtypes.bfloat16)
