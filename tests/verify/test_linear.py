"""Linear quantization and dequantization: right kernels pass, planted deviations are named."""

from __future__ import annotations

from itertools import product
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import tensor_round_verify as conformance
from support.cases.array_cases import Array
from support.cases.wrong_kernels import names
from tensor_round.contract.operators.dialect import Version
from tensor_round.contract.operators.onnx_types import DTYPES
from tensor_round.contract.operators.onnx_versions import FLOATS
from tensor_round.contract.operators.registry import OPERATORS
from tensor_round_verify.checks.conversions import ConversionOperator, conversions
from tensor_round_verify.conversions.conversion import Dequantization, Quantization
from tensor_round_verify.conversions.deviations import DEQUANTIZATIONS, QUANTIZATIONS

BF16 = np.dtype(ml_dtypes.bfloat16)


def quantizer(
    *,
    divide: Any = lambda x, scale: x / scale,
    round_: Any = np.rint,
    inside: bool = False,
    saturate: Any = None,
    scales: Any = lambda scale: scale,
) -> Any:
    """A quantization of parts, the others right."""

    def kernel(x: Array, scale: Array, zero_point: Array, axis: int = 0) -> Array:
        if scale.ndim:
            sizes = [1] * x.ndim
            sizes[axis] = scale.size
            scale, zero_point = scale.reshape(sizes), zero_point.reshape(sizes)
        ends = ml_dtypes.iinfo(zero_point.dtype)
        q = divide(x, scales(scale))
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


def to_floats(*, always: bool | None = None) -> Any:
    """A quantization to floats, which may saturate always or never; it has one zero point."""

    def kernel(
        x: Array, scale: Array, zero_point: Array, axis: int = 0, saturate: bool = True
    ) -> Array:
        if zero_point.any():
            raise NotImplementedError("zero points of floats")
        if scale.ndim:
            sizes = [1] * x.ndim
            sizes[axis] = scale.size
            scale = scale.reshape(sizes)
        q = (x / scale).astype(np.float32)
        if saturate if always is None else always:
            most = np.float32(ml_dtypes.finfo(zero_point.dtype).max)
            q = np.where(np.isnan(q), q, np.clip(q, -most, most))
        found: Array = q.astype(zero_point.dtype)
        return found

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


def clamped(*, again: bool) -> Any:
    def kernel(x: Array, scale: Array, zero_point: Array) -> Array:
        ends = np.iinfo(zero_point.dtype)
        total = np.clip(np.rint(x / scale), ends.min, ends.max).astype(np.int64) + zero_point
        return (np.clip(total, ends.min, ends.max) if again else total).astype(zero_point.dtype)

    return kernel


def narrow(x: Array, scale: Array, zero_point: Array) -> Array:
    return np.maximum(quantizer()(x, scale, zero_point), zero_point.dtype.type(-127))


def ties(become: Any) -> Any:
    """The nearest integer, of a tie what is made of the two."""

    def round_(q: Array) -> Array:
        wide = q.astype(np.float64)
        below = np.floor(wide)
        return np.where(wide - below == 0.5, become(below), np.rint(wide))

    return round_


def half_up(q: Array) -> Array:
    found: Array = np.floor(q.astype(np.float64) + 0.5)
    return found


def flushed(scale: Array) -> Array:
    """Scales in float32, subnormal ones as zeros."""
    wide = scale.astype(np.float32)
    return np.where(abs(wide) < np.finfo(np.float32).tiny, np.float32(0), wide)


def without_precision(x: Array, scale: Array, zero_point: Array, precision: Any = None) -> Array:
    found: Array = quantizer(divide=lambda x, s: x.astype(s.dtype) / s)(x, scale, zero_point)
    return found


def narrowed(q: Array, kind: Any) -> Array:
    """Numbers of float64 in another type; ml_dtypes rounds them to float32 first, here to odd."""
    near = q.astype(np.float32)
    if kind != BF16:
        return q.astype(kind)
    is_even = (near.view(np.uint32) & 1 == 0) & (near != q) & np.isfinite(near)
    toward = np.where(q > near, np.inf, -np.inf).astype(np.float32)
    found: Array = np.where(is_even, np.nextafter(near, toward), near).astype(BF16)
    return found


def mixed(x: Array, scale: Array, zero_point: Array, axis: int = 0, precision: Any = None) -> Array:
    """A right quantization by scales of every type: float64 has quotients with bits to spare."""
    has_quotients = scale.dtype.name not in ("int32", "float8_e8m0fnu")
    kind = precision or (scale.dtype if has_quotients else np.float64)

    def divide(x: Array, s: Array) -> Array:
        return narrowed(x.astype(np.float64) / s.astype(np.float64), kind)

    found: Array = quantizer(divide=divide)(x, scale, zero_point, axis)
    return found


def in_float32(x: Array, scale: Array) -> Array:
    return x.astype(np.float32) / scale.astype(np.float32)


TO_INT8, TO_UINT8 = ("float32", "int8"), ("float32", "uint8")
#: Of deviations that other scales show, their type.
NAMED_SCALES = {
    "precision ignored": "float32",
    "operands rounded first": "float16",
    "subnormal scales flushed": "float8_e8m0fnu",
    "product in float32": "float32",
}
QUANTIZED: dict[str, tuple[Any, tuple[str, str]]] = {
    "half away from zero": (quantizer(round_=half_away), TO_INT8),
    "half to even": (None, ("", "")),
    "truncation": (quantizer(round_=np.trunc), TO_UINT8),
    "floor": (quantizer(round_=np.floor), ("float16", "int8")),
    "ceil": (quantizer(round_=np.ceil), ("bfloat16", "uint8")),
    "half toward +infinity": (quantizer(round_=half_up), TO_INT8),
    "precision ignored": (without_precision, ("float16", "int8")),
    "operands rounded first": (quantizer(divide=lambda x, s: x.astype(s.dtype) / s), TO_INT8),
    "subnormal scales flushed": (quantizer(divide=in_float32, scales=flushed), TO_INT8),
    "reciprocal": (quantizer(divide=lambda x, s: x * (x.dtype.type(1) / s)), TO_INT8),
    "double rounding through float16": (
        quantizer(divide=lambda x, s: (x / s).astype(np.float16)),
        TO_INT8,
    ),
    "double rounding through bfloat16": (
        quantizer(divide=lambda x, s: (x / s).astype(BF16)),
        TO_UINT8,
    ),
    "quotient in float32": (quantizer(divide=in_float32), ("float16", "int8")),
    "quotient in float64": (
        quantizer(divide=lambda x, s: x.astype(np.float64) / s.astype(np.float64)),
        TO_INT8,
    ),
    "reciprocal, fused with the zero point": (fused, TO_INT8),
    "zero point inside": (quantizer(inside=True), TO_INT8),
    "half toward -infinity": (quantizer(round_=ties(lambda n: n)), TO_INT8),
    "half toward zero": (quantizer(round_=ties(lambda n: np.where(n < 0, n + 1, n))), TO_INT8),
    "half to odd": (quantizer(round_=ties(lambda n: np.where(n % 2 == 0, n + 1, n))), TO_INT8),
    "floor(q + 0.5)": (
        quantizer(round_=lambda q: np.floor(q + q.dtype.type(0.5))),
        ("float32", "int16"),
    ),
    "trunc(q + copysign(0.5, q))": (
        quantizer(round_=lambda q: np.trunc(q + np.copysign(q.dtype.type(0.5), q))),
        ("float32", "int16"),
    ),
    "trunc(q + 0.5)": (quantizer(round_=lambda q: np.trunc(q + q.dtype.type(0.5))), TO_INT8),
    "scale in float16": (quantizer(scales=lambda s: s.astype(np.float16).astype(s.dtype)), TO_INT8),
    "scale in bfloat16": (quantizer(scales=lambda s: s.astype(BF16).astype(s.dtype)), TO_INT8),
    "first channel's scale for all": (
        quantizer(scales=lambda s: np.full_like(s, s.reshape(-1)[0])),
        TO_INT8,
    ),
    "magnitude of negatives": (quantizer(round_=lambda q: np.rint(abs(q))), TO_UINT8),
    "clamped before the zero point": (clamped(again=False), TO_INT8),
    "clamped before the zero point and after it": (clamped(again=True), TO_UINT8),
    "narrow range": (narrow, TO_INT8),
    "through int32": (
        quantizer(saturate=lambda whole: np.where(abs(whole) < 1 << 31, whole, -(1 << 31))),
        TO_INT8,
    ),
    "no saturation": (wrapping, TO_UINT8),
    "zero point forgotten": (lambda x, s, z: quantizer()(x, s, z * 0), TO_UINT8),
    "does not saturate": (to_floats(always=False), ("float32", "float8_e5m2")),
    "saturates": (to_floats(always=True), ("float16", "float8_e4m3fnuz")),
}


def dequantizer(
    *,
    scales: Any = lambda scale: scale,
    subtract: Any = lambda x, point: x.astype(np.int64) - point.astype(np.int64),
    multiply: Any = lambda n, scale: (n * scale.astype(np.float64)).astype(scale.dtype),
) -> Any:
    """A dequantization of parts, the others right."""

    def kernel(
        x: Array, scale: Array, zero_point: Array, axis: int = 0, output_dtype: Any = None
    ) -> Array:
        if scale.ndim:
            sizes = [1] * x.ndim
            sizes[axis] = scale.size
            scale, zero_point = scale.reshape(sizes), zero_point.reshape(sizes)
        found: Array = multiply(subtract(x, zero_point), scales(scale))
        return found if output_dtype is None else found.astype(output_dtype)

    return kernel


def three_roundings(x: Array, scale: Array, zero_point: Array) -> Array:
    product: Array = x.astype(scale.dtype) * scale - zero_point.astype(scale.dtype) * scale
    return product


def subnormals_flushed(n: Array, scale: Array) -> Array:
    found = (n * scale.astype(np.float64)).astype(scale.dtype)
    return np.where(abs(found) < np.finfo(scale.dtype).tiny, np.copysign(0, found), found)


def product_in(kind: Any) -> Any:
    return lambda n, scale: (n * scale.astype(np.float64)).astype("f4").astype(kind).astype("f4")


DEQUANTIZED: dict[str, tuple[Any, str]] = {
    "scale in float16": (
        dequantizer(scales=lambda s: s.astype(np.float16).astype(s.dtype)),
        "int8",
    ),
    "scale in bfloat16": (dequantizer(scales=lambda s: s.astype(BF16).astype(s.dtype)), "uint8"),
    "first channel's scale for all": (
        dequantizer(scales=lambda s: np.full_like(s, s.reshape(-1)[0])),
        "int8",
    ),
    "subnormal scales flushed": (dequantizer(scales=flushed), "int8"),
    "difference wraps": (dequantizer(subtract=lambda x, point: x - point), "int8"),
    "zero point scaled": (three_roundings, "uint8"),
    "zero point forgotten": (
        dequantizer(subtract=lambda x, point: x.astype(np.int64)),
        "uint8",
    ),
    "product in float16": (dequantizer(multiply=product_in(np.float16)), "int8"),
    "product in bfloat16": (dequantizer(multiply=product_in(BF16)), "int16"),
    "product in float32": (
        dequantizer(multiply=lambda n, s: (n * s.astype(np.float64)).astype(np.float32)),
        "int16",
    ),
    "flush subnormal results": (dequantizer(multiply=subnormals_flushed), "int8"),
}


@pytest.mark.parametrize("deviation", DEQUANTIZED)
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_a_wrong_dequantization_is_named(deviation: str) -> None:
    kernel, source = DEQUANTIZED[deviation]
    target = "float16" if deviation == "product in float32" else "float32"
    asked: Any = {"dtypes": [source, target], "scale": NAMED_SCALES.get(deviation)}
    report = conformance.verify(kernel, operator="dequantize_linear", **asked)
    assert not report.right
    assert names(report) - {()} == {(deviation,)}


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("source", ["int8", "uint4", "int32"])
def test_a_right_dequantization_passes(source: Any) -> None:
    asked: Any = {"dtypes": [source, "float32"]}
    report = conformance.verify(dequantizer(), operator="dequantize_linear", **asked)
    assert report.right, str(report)
    assert len(report.verdicts) == 2


def test_every_deviation_is_planted() -> None:
    assert DEQUANTIZED.keys() == {deviation.name for deviation in DEQUANTIZATIONS}
    assert QUANTIZED.keys() == {deviation.name for deviation in QUANTIZATIONS}


@pytest.mark.parametrize("deviation", [name for name in QUANTIZED if name != "half to even"])
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_a_wrong_quantization_is_named(deviation: str) -> None:
    kernel, (source, target) = QUANTIZED[deviation]
    asked: Any = {"dtypes": [source, target], "scale": NAMED_SCALES.get(deviation)}
    report = conformance.verify(kernel, operator="quantize_linear", **asked)
    assert not report.right
    assert names(report) - {()} == {(deviation,)}


#: The types of operands and scales by which a quotient in float32 is wrong.
NARROWED = {
    "instead of the precision": ("float16", "float16"),
    "of integers of 32 bits": ("int32", "float32"),
    "by integers of 32 bits": ("float32", "int32"),
    "of integers by powers of two": ("int32", "float8_e8m0fnu"),
}


@pytest.mark.parametrize(("source", "scale"), NARROWED.values(), ids=NARROWED)
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_a_quotient_in_float32_is_named_beside_other_types(source: str, scale: str) -> None:
    def kernel(x: Array, scale: Array, zero_point: Array, precision: Any = None) -> Array:
        found: Array = quantizer(divide=in_float32)(x, scale, zero_point)
        return found

    asked: Any = {"dtypes": [source, "int8"], "scale": scale}
    report = conformance.verify(kernel, operator="quantize_linear", **asked)
    assert names(report) - {()} == {("quotient in float32",)}, str(report)
    wrong = [verdict.dtype.rpartition(", ")[2] for verdict in report.verdicts if verdict.wrong]
    assert source != scale or "bfloat16 quotients" in wrong


@pytest.mark.parametrize(
    ("source", "scale"),
    [("float32", "float16"), ("int32", "int32"), ("bfloat16", "float8_e8m0fnu")],
)
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_a_right_quantization_by_other_scales_passes(source: str, scale: str) -> None:
    asked: Any = {"dtypes": [source, "int8"], "scale": scale}
    report = conformance.verify(mixed, operator="quantize_linear", **asked)
    assert report.right, str(report)
    assert len(report.verdicts) == 2 + len(set(PRECISIONS) - {scale})


PRECISIONS = [DTYPES[name] for name in ("FLOAT", *FLOATS)]
#: Codes of DirectML, WebNN and StableHLO alone, which no runtime that is verified has.
OF_NO_RUNTIME = {"int32", "uint32"}


def combinations(key: str, version: Version) -> set[tuple[str, ...]]:
    """The types of operands, scales and results that a version of an operator takes."""
    names = OPERATORS[key].dtypes
    is_back = OPERATORS[key].kind == "dequantize"
    # StableHLO's scales have the type of the numbers.
    scales = version.scales or (version.results if is_back else version.dtypes)
    parts = (version.dtypes, scales, version.results)
    return set(product(*([names[one] for one in part] for part in parts)))


def asked(operator: ConversionOperator, *dtypes: str) -> list[Quantization | Dequantization]:
    """The conversions by which an operator is verified, all of which are linear."""
    found = conversions(operator, dtypes, [], mixes_types=True)
    linear = [how for how in found if isinstance(how, Quantization | Dequantization)]
    assert len(linear) == len(found)
    return linear


@pytest.mark.parametrize("operator", ["quantize_linear", "dequantize_linear"])
def test_every_combination_that_is_served_is_verified(operator: ConversionOperator) -> None:
    """As the dialects' tables say; a precision that is the scale's type changes nothing."""
    kind = operator.removesuffix("_linear")
    rows = {key: row for key, row in OPERATORS.items() if row.kind == kind}
    onnx = next(key for key in rows if key.startswith("onnx:"))
    of_onnx = combinations(onnx, rows[onnx].versions[-1])
    precisions = ["", *(PRECISIONS if kind == "quantize" else ())]
    for source, scale, target in of_onnx:
        wanted = {(scale, "" if one == scale else one) for one in precisions}
        found = {(how.scale_type, how.precision) for how in asked(operator, source, target)}
        assert wanted <= found, (source, scale, target)
    served = {
        triple
        for key, row in rows.items()
        for version in row.versions
        for triple in combinations(key, version)
    }
    codes = 2 if kind == "quantize" else 0
    assert {triple[codes] for triple in served - of_onnx} <= OF_NO_RUNTIME
    assert {(how.source, how.scale_type, how.target) for how in asked(operator)} == of_onnx


@pytest.mark.parametrize("target", ["int8", "uint16", "int4"])
@pytest.mark.parametrize("source", ["float32", "float16", "bfloat16"])
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_a_right_quantization_passes(source: str, target: str) -> None:
    asked: Any = {"dtypes": [source, target]}
    report = conformance.verify(quantizer(), operator="quantize_linear", **asked)
    assert report.right, str(report)
    assert len(report.verdicts) == 2
    assert {row.why for row in report.lacking} == {"it has no parameter block_size"}


@pytest.mark.parametrize("target", ["float8_e4m3fn", "float8_e5m2fnuz", "float4_e2m1fn"])
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_a_right_quantization_to_floats_passes_without_zero_points(target: str) -> None:
    asked: Any = {"dtypes": ["float32", target]}
    report = conformance.verify(to_floats(), operator="quantize_linear", **asked)
    assert report.right, str(report)
    for verdict in report.verdicts:
        assert verdict.refused == ("zero points 3: NotImplementedError: zero points of floats",)


def by_steps(x: Array, scale: Array, zero_point: Array) -> Array:
    """A fake quantization of both steps."""
    found: Array = dequantizer()(quantizer()(x, scale, zero_point), scale, zero_point)
    return found


def by_reciprocal(x: Array, scale: Array, zero_point: Any, quant_min: int, quant_max: int) -> Array:
    """PyTorch's formula."""
    q = np.rint(x * (np.float32(1) / scale) + np.float32(zero_point))
    steps = np.clip(q, quant_min, quant_max).astype(np.int64) - int(zero_point)
    found: Array = steps.astype(np.float32) * scale
    return found


@pytest.mark.parametrize(
    ("kernel", "through", "expected"),
    [
        (by_steps, "int8", ()),
        (by_steps, "uint4", ()),
        (by_reciprocal, "int4", ("zero point inside", "reciprocal")),
    ],
)
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_a_fake_quantization_is_judged_by_its_numbers(
    kernel: Any, through: Any, expected: tuple[str, ...]
) -> None:
    asked: Any = {"dtypes": ["float32", through]}
    report = conformance.verify(kernel, operator="fake_quantize", **asked)
    (verdict,) = report.verdicts
    assert verdict.dtype == f"float32 through {through}, per tensor"
    assert tuple(one.name for one in verdict.explanation.deviations) == expected, str(report)
