"""Casts verified: right kernels pass, and each planted deviation is named."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import tensor_round_verify as conformance
from support.cases.array_cases import Array
from support.verifying import names
from tensor_round.contract.errors import CannotVerify, InvalidArgument
from tensor_round_verify.conversions.deviations import CASTS

F16, BF16 = np.dtype(np.float16), np.dtype(ml_dtypes.bfloat16)
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


EVEN, AWAY = "ties_to_even", "ties_to_away"
#: By deviation: a kernel written for itself, operand and result, the direction asked for.
PLANTED: dict[str, tuple[Any, str, Any, str]] = {
    "half away from zero": (of_bits(lambda b: b + np.uint32(0x8000)), "float32", BF16, EVEN),
    "truncation": (of_bits(lambda b: b), "float32", BF16, EVEN),
    "half to even": (lambda x, dtype, rounding: x.astype(dtype), "float32", F16, AWAY),
    "floor": (
        of_bits(lambda b: b + np.where(b >> 31, np.uint32(0xFFFF), np.uint32(0))),
        *("float32", BF16, EVEN),
    ),
    "ceil": (
        of_bits(lambda b: b + np.where(b >> 31, np.uint32(0), np.uint32(0xFFFF))),
        *("float32", BF16, EVEN),
    ),
    "half added to odd patterns alone": (
        of_bits(lambda b: b + ((b & np.uint32(0x10000)) >> 1)),
        *("float32", BF16, EVEN),
    ),
    "through float32": (through(np.float32), "float64", F16, EVEN),
    "through float16": (through(F16), "float32", E5M2, EVEN),
    "through bfloat16": (through(BF16), "float32", E4M3, EVEN),
    "saturates": (lambda x, dtype, saturate: right(x, dtype, True), "float32", E5M2, EVEN),
    "does not saturate": (lambda x, dtype, saturate: x.astype(dtype), "float32", E4M3, EVEN),
    "infinities do not saturate": (finite_saturated, "float32", E5M2, EVEN),
    "infinities saturate": (infinite_saturated, "float32", E4M3, EVEN),
    "flush subnormals": (flushed, "float32", BF16, EVEN),
    "flush subnormal results": (results_flushed, "float32", F16, EVEN),
    "zero's sign lost": (lambda x, dtype: x.astype(dtype) + dtype.type(0), "float32", F16, EVEN),
}


def test_every_deviation_is_planted() -> None:
    assert PLANTED.keys() == {deviation.name for deviation in CASTS}


@pytest.mark.parametrize("deviation", PLANTED)
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_a_wrong_cast_is_named(deviation: str) -> None:
    kernel, source, target, rounding = PLANTED[deviation]
    asked: Any = {"dtypes": [source, target.name], "roundings": [rounding]}
    report = conformance.verify(kernel, operator="cast", **asked)
    assert not report.right
    assert names(report) - {()} == {(deviation,)}


@pytest.mark.parametrize("target", [F16, BF16, E4M3, E5M2], ids=lambda dtype: dtype.name)
def test_a_right_cast_passes(target: Any) -> None:
    asked: Any = {"dtypes": ["float32", target.name], "roundings": [EVEN]}
    report = conformance.verify(right, operator="cast", **asked)
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

    asked: Any = {"dtypes": ["float64", "bfloat16"], "roundings": [EVEN]}
    expected = ("through float32", "half added to odd patterns alone")
    with np.errstate(all="ignore"):
        assert names(conformance.verify(kernel, operator="cast", **asked)) == {expected}


def test_two_deviations_at_once() -> None:
    def kernel(x: Array, dtype: Any, saturate: bool) -> Array:
        return right(x.astype(BF16), dtype, True) + dtype.type(0)

    asked: Any = {"dtypes": ["float32", "float8_e5m2"], "roundings": [EVEN]}
    report = conformance.verify(kernel, operator="cast", **asked)
    assert ("through bfloat16", "saturates", "zero's sign lost") in names(report)


def test_unexplained_verdict_says_so() -> None:
    def kernel(x: Array, dtype: Any) -> Array:
        return np.where(x == 3.5, dtype.type(1), x.astype(dtype))

    asked: Any = {"dtypes": ["float32", "float16"], "roundings": [EVEN]}
    (verdict,) = conformance.verify(kernel, operator="cast", **asked).verdicts
    assert verdict.wrong == 1
    assert "no named model explains it" in str(verdict)
    assert str(verdict.classes[0].first[0]) == (
        "x 3.5 (0x40600000): got 1.0 (0x3c00), want 3.5 (0x4300)"
    )


#: A program that casts by the reference, or truncates.
PROGRAM = """
import sys
import numpy as np
from tensor_round_verify.conversions.reference import cast
from tensor_round_verify.reference import bits_type
source, target, rounding, saturate = sys.argv[1:]
bits = np.frombuffer(sys.stdin.buffer.read(), bits_type(source))
found = cast(bits, source, target, ROUNDING, saturate=saturate == "true")
sys.stdout.buffer.write(found.tobytes())
"""


@pytest.mark.parametrize("rounding", ["rounding", "'toward_zero'"], ids=["right", "truncating"])
def test_a_program(tmp_path: Path, rounding: str) -> None:
    (tmp_path / "kernel.py").write_text(PROGRAM.replace("ROUNDING", rounding))
    words = "{source} {target} {rounding} {saturate}"
    runtime = f"cmd:{sys.executable} {tmp_path / 'kernel.py'} {words}"
    asked: Any = {"dtypes": ["float32", "float8_e4m3fn"], "roundings": ["ties_to_away"]}
    report = conformance.verify(runtime, operator="cast", **asked)
    assert names(report) == ({()} if rounding == "rounding" else {("truncation",)})


@pytest.mark.parametrize(
    ("runtime", "options", "why"),
    [
        ("service:http://127.0.0.1:1", {}, "it has no cast here"),
        ("numpy", {"dtypes": ["int8"]}, "cast is verified of float32, float64, float16"),
        ("numpy", {"roundings": ["toward_zero"]}, "cannot be asked to round toward_zero"),
        ("numpy", {"operator": "quantize_linear"}, "it has no quantize_linear here"),
        ("cmd:true", {"dtypes": ["float8_e5m2"]}, "does not name {target}"),
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
    asked: Any = {"dtypes": ["float64", "bfloat16"], "roundings": [EVEN]}
    report = conformance.verify("numpy", operator="cast", **asked)
    # ml_dtypes converts float64 by way of float32.
    assert names(report) == {("through float32",)}
    assert report.as_data()["operator"] == "cast"
    assert not conformance.complaints(report, conformance.Baseline.of(report))
    assert b"float64 to bfloat16" in conformance.junit_xml(report, {})
