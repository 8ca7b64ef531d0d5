"""Quantizations verified: right kernels pass, and each planted deviation is named."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

import tensor_round_verify as conformance
from support.cases.array_cases import Array
from support.verifying import names
from tensor_round_verify.conversions.deviations import QUANTIZATIONS

BF16 = np.dtype(ml_dtypes.bfloat16)


def quantizer(
    *,
    divide: Any = lambda x, scale: x / scale,
    round_: Any = np.rint,
    inside: bool = False,
    saturate: Any = None,
) -> Any:
    """A quantization of parts, the others right."""

    def kernel(x: Array, scale: Array, zero_point: Array, axis: int = 0) -> Array:
        if scale.ndim:
            scale, zero_point = scale[:, None], zero_point[:, None]
        ends = np.iinfo(zero_point.dtype)
        q = divide(x, scale)
        if inside:
            return np.clip(round_(q + zero_point.astype(q.dtype)), ends.min, ends.max).astype(
                zero_point.dtype
            )
        # Vast numbers, and infinities, as integers that the sum cannot wrap.
        whole = np.clip(round_(q).astype(np.float64), -(2.0**40), 2.0**40).astype(np.int64)
        if saturate is not None:
            whole = saturate(whole)
        total = whole + zero_point.astype(np.int64)
        return np.clip(total, ends.min, ends.max).astype(zero_point.dtype)

    return kernel


def half_away(q: Array) -> Array:
    wide = q.astype(np.float64)
    found: Array = np.copysign(np.floor(abs(wide) + 0.5), wide)
    return found


def wrapping(x: Array, scale: Array, zero_point: Array) -> Array:
    q = np.rint(x / scale).astype(np.float64)
    whole = np.where(abs(q) < 2.0**31, q, 0).astype(np.int64) + zero_point.astype(np.int64)
    # A zero point beside what is no integer of 32 bits stays.
    return whole.astype(zero_point.dtype)


def fused(x: Array, scale: Array, zero_point: Array) -> Array:
    """The product in integers, so that the sum alone is rounded, and to float32 once."""
    ends = np.iinfo(zero_point.dtype)
    mantissa, exponent = np.frexp(x.astype(np.float64))
    other, by = np.frexp(np.float64(np.float32(1) / scale))
    product = (mantissa * 2**24).astype(np.int64) * int(other * 2**24)
    total = np.ldexp(product.astype(np.float64), exponent + by - 48) + float(zero_point)
    rounded = np.rint(np.where(np.isinf(x), x, total).astype(np.float32))
    return np.clip(rounded, ends.min, ends.max).astype(zero_point.dtype)


def half_up(q: Array) -> Array:
    found: Array = np.floor(q.astype(np.float64) + 0.5)
    return found


QUANTIZED: dict[str, tuple[Any, str, str]] = {
    "half away from zero": (quantizer(round_=half_away), "float32", "int8"),
    "half to even": (None, "", ""),
    "truncation": (quantizer(round_=np.trunc), "float32", "uint8"),
    "floor": (quantizer(round_=np.floor), "float16", "int8"),
    "ceil": (quantizer(round_=np.ceil), "bfloat16", "uint8"),
    "half toward +infinity": (quantizer(round_=half_up), "float32", "int8"),
    "reciprocal": (quantizer(divide=lambda x, s: x * (x.dtype.type(1) / s)), "float32", "int8"),
    "double rounding through float16": (
        quantizer(divide=lambda x, s: (x / s).astype(np.float16)),
        *("float32", "int8"),
    ),
    "double rounding through bfloat16": (
        quantizer(divide=lambda x, s: (x / s).astype(BF16)),
        *("float32", "uint8"),
    ),
    "quotient in float32": (
        quantizer(divide=lambda x, s: x.astype(np.float32) / s.astype(np.float32)),
        *("float16", "int8"),
    ),
    "quotient in float64": (
        quantizer(divide=lambda x, s: x.astype(np.float64) / s.astype(np.float64)),
        *("float32", "int8"),
    ),
    "reciprocal, fused with the zero point": (fused, "float32", "int8"),
    "zero point inside": (quantizer(inside=True), "float32", "int8"),
    "through int32": (
        quantizer(saturate=lambda whole: np.where(abs(whole) < 1 << 31, whole, -(1 << 31))),
        *("float32", "int8"),
    ),
    "no saturation": (wrapping, "float32", "uint8"),
}


def test_every_deviation_is_planted() -> None:
    assert QUANTIZED.keys() == {deviation.name for deviation in QUANTIZATIONS}


@pytest.mark.parametrize("deviation", [name for name in QUANTIZED if name != "half to even"])
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_a_wrong_quantization_is_named(deviation: str) -> None:
    kernel, source, target = QUANTIZED[deviation]
    asked: Any = {"dtypes": [source, target]}
    report = conformance.verify(kernel, operator="quantize_linear", **asked)
    assert not report.right
    assert names(report) - {()} == {(deviation,)}


@pytest.mark.parametrize("source", ["float32", "float16", "bfloat16"])
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_a_right_quantization_passes(source: str) -> None:
    report = conformance.verify(quantizer(), operator="quantize_linear", dtypes=[source])
    assert report.right, str(report)
    assert len(report.verdicts) == 8
    assert not report.lacking
