"""Casts and quantizations: their reference, right kernels pass, planted deviations are named."""

from __future__ import annotations

import sys
from fractions import Fraction
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import tensor_round_verify as conformance
from support.cases.array_cases import Array
from support.cases.wrong_kernels import names
from tensor_round.contract.dtypes import BY_NAME
from tensor_round.contract.errors import CannotVerify, InvalidArgument
from tensor_round_verify.conversions.conversion import Quantization
from tensor_round_verify.conversions.deviations import CASTS
from tensor_round_verify.conversions.linear import divided
from tensor_round_verify.conversions.patterns import Operands, cast_operands, trials
from tensor_round_verify.conversions.reference import cast
from tensor_round_verify.reference import ROUNDINGS, is_nan
from tensor_round_verify.report import RULES

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
    for trial in trials(dtype, "int8", dtype, per_axis=False):
        operands = trial.operands()
        x, scale = operands.bits.view(own), operands.scales.view(own)
        with np.errstate(all="ignore"):
            # Of the narrow types, float64 has each quotient with bits to spare.
            wide: Array = x.astype(np.float64) / scale.astype(np.float64)
            want = (x / scale) if dtype == "float32" else wide.astype(own)
        got, kind = divided(operands.bits, operands.scales, (dtype, dtype), dtype)
        assert kind == dtype
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


F32, F16, BF16 = np.dtype(np.float32), np.dtype(np.float16), np.dtype(ml_dtypes.bfloat16)
E4M3, E5M2 = np.dtype(ml_dtypes.float8_e4m3fn), np.dtype(ml_dtypes.float8_e5m2)


def right(x: Array, dtype: Any, saturate: bool) -> Array:
    if saturate:
        most = np.float64(ml_dtypes.finfo(dtype).max)
        x = np.where(np.isnan(x), x, np.clip(x, -most, most).astype(x.dtype))
    return x.astype(dtype)


def of_bits(formula: Any) -> Any:
    """A cast of float32 to bfloat16 by a formula of its bits; NaNs and infinities are right."""

    def kernel(x: Array, dtype: Any) -> Array:
        bits = formula(x.view(np.uint32)) >> np.uint32(16)
        found: Array = bits.astype(np.uint16).view(dtype)
        return np.where(np.isfinite(x), found, x.astype(dtype))

    return kernel


def through(narrow: Any) -> Any:
    return lambda x, dtype, saturate: right(x.astype(narrow), dtype, saturate)


def finite_saturated(x: Array, dtype: Any, saturate: bool) -> Array:
    return np.where(np.isinf(x), x.astype(dtype), right(x, dtype, saturate))


def infinite_saturated(x: Array, dtype: Any, saturate: bool) -> Array:
    return np.where(np.isinf(x), right(x, dtype, True), right(x, dtype, saturate))


def flushed(x: Array, dtype: Any) -> Array:
    return np.where(abs(x) < np.finfo(np.float32).tiny, np.copysign(0, x), x).astype(dtype)


def results_flushed(x: Array, dtype: Any) -> Array:
    found = x.astype(dtype)
    small = abs(found.astype(np.float64)) < ml_dtypes.finfo(dtype).smallest_normal
    return np.where(small, np.copysign(0, x).astype(dtype), found)


def cut_to_float16(x: Array, dtype: Any) -> Array:
    """Toward zero, with infinity from 2^16 on."""
    near = x.astype(dtype)
    less = (near.view(np.uint16) - np.uint16(1)).view(dtype)
    cut = np.where(abs(near.astype(np.float32)) > abs(x), less, near)
    return np.where(np.isnan(x) | (abs(x) >= 65536), near, cut)


def carry_ored(x: Array, dtype: Any) -> Array:
    bits = x.view(np.uint32)
    fraction = bits & np.uint32(0x7FFFFF)
    odd = bits >> np.uint32(16) & np.uint32(1)
    rounded = (fraction + np.uint32(0x7FFF) + odd) >> np.uint32(16)
    found: Array = ((bits >> np.uint32(16) & np.uint32(0xFF80)) | rounded).astype(np.uint16)
    return np.where(np.isfinite(x), found.view(dtype), x.astype(dtype))


def small_flushed(x: Array, dtype: Any) -> Array:
    return np.where(abs(x) < np.finfo(dtype).tiny, np.copysign(0, x), x).astype(dtype)


def as_other_e4m3(kind: Any) -> Any:
    def kernel(x: Array, dtype: Any, saturate: bool) -> Array:
        x = np.clip(x, -240, 240) if saturate else x
        return x.astype(kind).view(dtype)

    return kernel


def as_e5m2fnuz(x: Array, dtype: Any, saturate: bool) -> Array:
    return right(x, ml_dtypes.float8_e5m2fnuz, saturate).view(dtype)


def nans_of_bits(formula: Any) -> Any:
    """A cast to bfloat16 whose NaNs are made by a formula of their bits."""

    def kernel(x: Array, dtype: Any) -> Array:
        bits = (formula(x.view(np.uint32)) >> np.uint32(16)).astype(np.uint16)
        return np.where(np.isnan(x), bits.view(dtype), x.astype(dtype))

    return kernel


ODD = np.uint32(1)
EVEN, AWAY = "ties_to_even", "ties_to_away"
#: Operand and result, and the direction asked for.
TO_F16, TO_BF16, TO_E4M3, TO_E5M2 = (("float32", to, EVEN) for to in (F16, BF16, E4M3, E5M2))
#: By deviation: a kernel written for itself, and of what.
PLANTED: dict[str, tuple[Any, tuple[str, Any, str]]] = {
    "half away from zero": (of_bits(lambda b: b + np.uint32(0x8000)), TO_BF16),
    "truncation": (of_bits(lambda b: b), TO_BF16),
    "half to even": (lambda x, dtype, rounding: x.astype(dtype), ("float32", F16, AWAY)),
    "floor": (of_bits(lambda b: b + np.where(b >> 31, np.uint32(0xFFFF), np.uint32(0))), TO_BF16),
    "ceil": (of_bits(lambda b: b + np.where(b >> 31, np.uint32(0), np.uint32(0xFFFF))), TO_BF16),
    "half toward +infinity": (
        of_bits(lambda b: b + np.where(b >> 31, np.uint32(0x7FFF), np.uint32(0x8000))),
        TO_BF16,
    ),
    "half toward -infinity": (
        of_bits(lambda b: b + np.where(b >> 31, np.uint32(0x8000), np.uint32(0x7FFF))),
        TO_BF16,
    ),
    "half toward zero": (of_bits(lambda b: b + np.uint32(0x7FFF)), TO_BF16),
    "half to odd": (
        of_bits(lambda b: b + np.uint32(0x7FFF) + (~(b >> np.uint32(16)) & ODD)),
        TO_BF16,
    ),
    "truncation, beyond the largest infinity": (cut_to_float16, TO_F16),
    "through TF32": (
        lambda x, dtype: np.where(
            np.isfinite(x),
            ((x.view(np.uint32) + np.uint32(0x1000)) & np.uint32(0xFFFFE000)).view("f4"),
            x,
        ).astype(dtype),
        TO_BF16,
    ),
    "by the high word": (
        lambda x, dtype: (x.view("u8") >> 32 << 32).view("f8").astype(dtype),
        ("float64", F16, EVEN),
    ),
    "carry ORed into the exponent": (carry_ored, TO_BF16),
    "flush before rounding": (small_flushed, TO_F16),
    "E4M3FN as E4M3FNUZ": (as_other_e4m3(ml_dtypes.float8_e4m3fnuz), TO_E4M3),
    "E4M3FN as IEEE's E4M3": (as_other_e4m3(ml_dtypes.float8_e4m3), TO_E4M3),
    "E5M2 as E5M2FNUZ": (as_e5m2fnuz, TO_E5M2),
    "NaN as infinity": (nans_of_bits(lambda b: b), TO_BF16),
    "NaN rounded as a number": (
        nans_of_bits(lambda b: b + np.uint32(0x7FFF) + (b >> np.uint32(16) & ODD)),
        TO_BF16,
    ),
    "half added to odd patterns alone": (
        of_bits(lambda b: b + ((b & np.uint32(0x10000)) >> 1)),
        TO_BF16,
    ),
    "through float32": (through(np.float32), ("float64", F16, EVEN)),
    "through float64": (lambda x, dtype: x.astype("f8").astype(dtype), ("int64", F32, EVEN)),
    "through float16": (through(F16), TO_E5M2),
    "through bfloat16": (through(BF16), TO_E4M3),
    "saturates": (lambda x, dtype, saturate: right(x, dtype, True), TO_E5M2),
    "does not saturate": (lambda x, dtype, saturate: x.astype(dtype), TO_E4M3),
    "infinities do not saturate": (finite_saturated, TO_E5M2),
    "infinities saturate": (infinite_saturated, TO_E4M3),
    "flush subnormals": (flushed, TO_BF16),
    "flush subnormal results": (results_flushed, TO_F16),
    "zero's sign lost": (lambda x, dtype: x.astype(dtype) + dtype.type(0), TO_F16),
}


def cast_by(
    runtime: Any, source: Any, target: Any, rounding: Any = EVEN, rule: Any = None
) -> conformance.Report:
    asked: Any = {"dtypes": [source, target], "roundings": [rounding], "rule": rule}
    return conformance.verify(runtime, operator="cast", **asked)


@pytest.mark.parametrize("deviation", PLANTED)
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_a_wrong_cast_is_named(deviation: str) -> None:
    kernel, (source, target, rounding) = PLANTED[deviation]
    report = cast_by(kernel, source, target.name, rounding)
    assert not report.right
    assert names(report) - {()} == {(deviation,)}


def integral(become: Any, nan: int = 0, round_: Any = np.trunc) -> Any:
    """A cast to integers that makes of numbers, as floats, what ``become`` says."""

    def kernel(x: Array, dtype: Any) -> Array:
        whole = round_(x.astype(np.float64))
        made = become(np.where(np.isnan(whole), 0, whole), np.iinfo(dtype)).astype(np.int64)
        found = np.where(np.isnan(whole), nan, made)
        return found.astype(f"u{dtype.itemsize}").view(dtype)

    return kernel


def saturated(n: Array, ends: Any) -> Array:
    return np.clip(n, ends.min, ends.max)


def low_bits(n: Array, _: Any) -> Array:
    return np.fmod(np.where(np.isinf(n), 0, n), 2.0**32)


def indefinite(n: Array, _: Any) -> Array:
    return np.where((n >= -(2.0**31)) & (n < 2.0**31), n, -(2.0**31))


def by_arm(n: Array, _: Any) -> Array:
    return np.clip(n, -(2.0**31), 2.0**31 - 1)


LEAST, GREATEST = 1 << 15, (1 << 15) - 1
#: The rule that is asked for, by deviation, and a kernel for float32 to int16.
TO_INTEGERS: dict[str, tuple[Any, str]] = {
    "saturates": (integral(saturated), "wrap"),
    "wraps": (integral(low_bits), "saturate"),
    "x86's indefinite integer": (integral(indefinite), "arm"),
    "ARM's conversion": (integral(by_arm), "x86"),
    "NaN as 0": (integral(indefinite), "x86"),
    "NaN as the least integer": (integral(saturated, LEAST), "saturate"),
    "NaN as the greatest integer": (integral(saturated, GREATEST), "saturate"),
    "by way of int32": (integral(indefinite), "saturate"),
    "half to even": (integral(saturated, round_=np.rint), "saturate"),
    "floor": (integral(low_bits, round_=np.floor), "wrap"),
}


@pytest.mark.parametrize("deviation", TO_INTEGERS)
def test_a_wrong_cast_to_integers_is_named(deviation: str) -> None:
    kernel, rule = TO_INTEGERS[deviation]
    target = {"NaN as 0": "int32", "by way of int32": "int64"}.get(deviation, "int16")
    report = cast_by(kernel, "float32", target, "toward_zero", rule)
    (found,) = names(report)
    assert not report.right
    assert deviation in found


@pytest.mark.parametrize(
    ("become", "rule"),
    [(saturated, "saturate"), (low_bits, "wrap"), (indefinite, "x86"), (by_arm, "arm")],
)
def test_any_rule_is_right_that_is_not_asked_for_and_is_reported(become: Any, rule: str) -> None:
    report = cast_by(integral(become), "float32", "int16", "toward_zero")
    assert report.right, str(report)
    assert [verdict.rule for verdict in report.verdicts] == [rule]
    assert f"float32 to int16: {RULES[rule]}" in str(report)
    assert report.as_data()["verdicts"][0]["rule"] == rule
    assert cast_by(integral(become), "float32", "int16", "toward_zero", rule).right


def test_integers_keep_their_low_bits() -> None:
    def kernel(x: Array, dtype: Any) -> Array:
        ends = np.iinfo(dtype)
        return x.clip(ends.min, ends.max).astype(dtype)

    assert cast_by(lambda x, dtype: x.astype(dtype), "int64", "int16").right
    assert names(cast_by(kernel, "int64", "int16")) == {("saturates",)}


@pytest.mark.parametrize("target", [F16, BF16, E4M3, E5M2], ids=lambda dtype: dtype.name)
def test_a_right_cast_passes(target: Any) -> None:
    report = cast_by(right, "float32", target.name)
    assert report.right, str(report)
    assert [verdict.name for verdict in report.verdicts] == [
        f"float32 to {target.name} ties_to_even",
        *([f"float32 to {target.name}, saturated ties_to_even"] if target.itemsize == 1 else []),
    ]


def test_a_formula_of_float32s_bits_behind_a_narrowing() -> None:
    odd = PLANTED["half added to odd patterns alone"][0]

    def kernel(x: Array, dtype: Any) -> Array:
        found: Array = odd(x.astype(np.float32), dtype)
        return found

    expected = ("through float32", "half added to odd patterns alone")
    with np.errstate(all="ignore"):
        assert names(cast_by(kernel, "float64", "bfloat16")) == {expected}


def test_flushed_subnormals_of_a_narrower_type_are_named() -> None:
    """Subnormals of float32 are normal numbers of float64."""
    with np.errstate(all="ignore"):
        report = cast_by(lambda x, to: flushed(x.astype(np.float32), to), "float64", "bfloat16")
    assert names(report) == {("through float32", "flush subnormals")}


def test_two_deviations_at_once() -> None:
    def kernel(x: Array, dtype: Any, saturate: bool) -> Array:
        return right(x.astype(BF16), dtype, True) + dtype.type(0)

    expected = ("through bfloat16", "saturates", "zero's sign lost")
    assert expected in names(cast_by(kernel, "float32", "float8_e5m2"))


def test_unexplained_verdict_says_so() -> None:
    def kernel(x: Array, dtype: Any) -> Array:
        return np.where(x == 3.5, dtype.type(1), x.astype(dtype))

    (verdict,) = cast_by(kernel, "float32", "float16").verdicts
    assert verdict.wrong == 1
    assert "no named deviation explains it" in str(verdict)
    assert str(verdict.classes[0].first[0]) == (
        "x 3.5 (0x40600000): got 1.0 (0x3c00), want 3.5 (0x4300)"
    )


#: A program that casts float16 to float8_e5m2, the upper byte of it: ties away from zero, or, with
#: 0 in place of HALF, truncated.
PROGRAM = """
import sys
import numpy as np
bits = np.frombuffer(sys.stdin.buffer.read(), np.uint16)
magnitude = bits & 0x7FFF
found = (magnitude + HALF) >> 8
if sys.argv[4] == "true":
    found = np.minimum(found, 0x7B)
found = np.where(magnitude > 0x7C00, 0x7E, found) | bits >> 8 & 0x80
sys.stdout.buffer.write(found.astype(np.uint8).tobytes())
"""


@pytest.mark.parametrize(("half", "name"), [("128", ()), ("0", ("truncation",))])
def test_a_program(tmp_path: Path, half: str, name: tuple[str, ...]) -> None:
    (tmp_path / "kernel.py").write_text(PROGRAM.replace("HALF", half))
    words = "{source} {target} {rounding} {saturate}"
    runtime = f"cmd:{sys.executable} {tmp_path / 'kernel.py'} {words}"
    assert names(cast_by(runtime, "float16", "float8_e5m2", AWAY)) == {name}


@pytest.mark.parametrize(
    ("runtime", "options", "why"),
    [
        (
            "service:http://127.0.0.1:1",
            {"operator": "block_quantize"},
            "it has no block_quantize",
        ),
        ("numpy", {"dtypes": ["mxint8"]}, "cast supports only float16, bfloat16, float32"),
        (
            "numpy",
            {"dtypes": ["float32", "float16"], "roundings": ["toward_zero"]},
            "cannot be asked to round toward_zero",
        ),
        ("numpy", {"operator": "quantize_linear"}, "it has no quantize_linear here"),
        ("cmd:true", {"dtypes": ["float32", "float8_e5m2"]}, "does not name {target}"),
    ],
)
def test_unverifiable_cast_gives_the_reason(runtime: str, options: Any, why: str) -> None:
    with pytest.raises(CannotVerify) as caught:
        conformance.verify(runtime, **{"operator": "cast", **options})
    assert why in caught.value.detail


def test_an_operator_that_there_is_not() -> None:
    wrong: Any = "ceil"
    with pytest.raises(InvalidArgument, match="accepted: round, cast, quantize_linear"):
        conformance.verify("numpy", operator=wrong)


def test_a_report_is_its_own_baseline() -> None:
    report = cast_by("numpy", "float64", "bfloat16")
    # ml_dtypes converts float64 by way of float32.
    assert names(report) == {("through float32",)}
    assert report.as_data()["operator"] == "cast"
    assert not conformance.complaints(report, conformance.Baseline.of(report))
    assert b"float64 to bfloat16" in conformance.junit_xml(report, {})


def test_every_deviation_is_planted() -> None:
    assert PLANTED.keys() | TO_INTEGERS.keys() == {deviation.name for deviation in CASTS}
