"""The reference beside Berkeley SoftFloat: rounding and casts in five directions, quantization."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import softfloatpy as sf

from support.cases.references import quantized
from tensor_round.contract.dtypes import BY_NAME
from tensor_round_verify import ROUNDINGS, all_patterns, edges, rounded
from tensor_round_verify.conversions.linear import dequantized, divided, quotient_type
from tensor_round_verify.conversions.patterns import cast_operands, code_trials, trials
from tensor_round_verify.conversions.reference import cast, ends
from tensor_round_verify.reference import WIDTHS, Bits, bits_type, differs, is_nan

MODES = {
    "ties_to_even": sf.RoundingMode.NEAR_EVEN,
    "ties_to_away": sf.RoundingMode.NEAR_MAX_MAG,
    "toward_zero": sf.RoundingMode.MIN_MAG,
    "toward_positive": sf.RoundingMode.MAX,
    "toward_negative": sf.RoundingMode.MIN,
}
TYPES = {
    "float16": ("f16", sf.Float16),
    "bfloat16": ("bf16", sf.BFloat16),
    "float32": ("f32", sf.Float32),
    "float64": ("f64", sf.Float64),
    "int32": ("i32", sf.Int32),
    "int64": ("i64", sf.Int64),
    "uint32": ("ui32", sf.UInt32),
    "uint64": ("ui64", sf.UInt64),
}
#: Operands of a cast: each is a call in Python.
SOME = 50_000


def by_softfloat(name: str, target: str, rounding: str, *operands: tuple[Bits, str]) -> Bits:
    """The patterns of a function's results, which are big-endian bytes, as its operands are."""
    function: Any = getattr(sf, name)
    sf.set_rounding_mode(MODES[rounding])
    found = b"".join(
        function(*row).to_bytes() for row in zip(*(read(*each) for each in operands), strict=True)
    )
    return np.frombuffer(found, f">u{WIDTHS[target] // 8}").astype(bits_type(target))


def read(bits: Bits, dtype: str) -> Iterator[Any]:
    kind, size = TYPES[dtype][1], WIDTHS[dtype] // 8
    data = bits.astype(f">u{size}").tobytes()
    return (kind.from_bytes(data[at : at + size]) for at in range(0, len(data), size))


@pytest.mark.parametrize("rounding", ROUNDINGS)
@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_rounding_is_softfloats(dtype: str, rounding: str) -> None:
    bits = all_patterns(dtype) if dtype == "float16" else edges(dtype)
    name = f"{TYPES[dtype][0]}_round_to_int"
    want = by_softfloat(name, dtype, rounding, (bits, dtype))
    assert bits.size >= 10_000
    assert not differs(rounded(bits, dtype, rounding), want, dtype).any()


CASTS = [("float32", "float16"), ("float32", "bfloat16"), ("float64", "float16")]
CASTS += [("float64", "float32"), ("float16", "float32"), ("bfloat16", "float32")]
INTEGERS = ("int32", "int64", "uint32", "uint64")
CASTS += [(source, target) for source in INTEGERS for target in ("float16", "float32", "float64")]
CASTS += [(source, target) for source in ("float32", "float64") for target in INTEGERS]


@pytest.mark.parametrize("rounding", ROUNDINGS)
@pytest.mark.parametrize(("source", "target"), CASTS, ids=map("-to-".join, CASTS))
def test_casts_are_softfloats(source: str, target: str, rounding: str) -> None:
    if WIDTHS[source] == 16:
        bits = all_patterns(source)
    elif (source, target) == ("float64", "float32"):
        # It has too many numbers: those of rounding, and ties beside them.
        numbers = edges(target).view(np.float32)
        exact = numbers[np.isfinite(numbers)].astype(np.float64).view(np.uint64)
        bits = np.unique([exact, *(exact + np.uint64((1 << 28) + step) for step in (-1, 0, 1))])
    else:
        bits = cast_operands(source, target)
    bits = bits[:: max(1, bits.size // SOME)]
    name = f"{TYPES[source][0]}_to_{TYPES[target][0]}"
    want = by_softfloat(name, target, rounding, (bits, source))
    got = cast(bits, source, target, rounding, saturate=False)
    wrong = differs(got, want, target)
    if target in INTEGERS:  # out of range each processor has its own result
        wrong &= got == cast(bits, source, target, rounding, saturate=False, rule="wrap")
        wrong &= ~is_nan(source, bits)
    assert not wrong.any()


#: Types of operands, of scales, and the precision, where it is not the scale's.
QUOTIENTS = (
    ("float32", "float32", ""),
    ("float16", "float16", ""),
    ("bfloat16", "bfloat16", ""),
    ("int32", "float32", ""),
    ("float32", "float16", ""),
    ("bfloat16", "float16", "float32"),
    ("float16", "int32", ""),
    ("int32", "int32", "float16"),
)
#: Types of codes, of scales, and of results.
PRODUCTS = (
    ("int8", "float32", "float32"),
    ("uint16", "float32", "float32"),
    ("int8", "float16", "float16"),
    ("uint8", "bfloat16", "bfloat16"),
    ("int16", "float32", "float16"),
    ("uint16", "float16", "float32"),
)


def wide(bits: Bits, dtype: str) -> tuple[Bits, str]:
    """The same numbers in float64."""
    if dtype == "bfloat16":  # which has no function to float64
        bits, dtype = (
            by_softfloat("bf16_to_f32", "float32", "ties_to_even", (bits, dtype)),
            "float32",
        )
    name = f"{TYPES[dtype][0]}_to_f64"
    return by_softfloat(name, "float64", "ties_to_even", (bits, dtype)), "float64"


def narrow(bits: Bits, target: str) -> Bits:
    """Numbers of float64 in another type."""
    kind = "float32" if target == "bfloat16" else target
    found = by_softfloat(f"f64_to_{TYPES[kind][0]}", kind, "ties_to_even", (bits, "float64"))
    if kind == target:
        return found
    return by_softfloat("f32_to_bf16", target, "ties_to_even", (found, kind))


def quotients(bits: Bits, scales: Bits, source: str, scale: str, kind: str) -> Bits:
    """SoftFloat's quotients, to which it rounds once if all types are one.

    Else they are rounded to float64 first. A second rounding to at most 24 bits changes nothing: of
    two integers of at most 31 bits, no quotient but a tie is within 2^-53 of one (S. A. Figueroa).
    That bfloat16's pass through float32 changes nothing either: 24 is no less than 2 * 8 + 2.
    """
    if source == scale == kind != "bfloat16":
        operands = (bits, source), (scales, scale)
        return by_softfloat(f"{TYPES[kind][0]}_div", kind, "ties_to_even", *operands)
    operands = wide(bits, source), wide(scales, scale)
    exact = by_softfloat("f64_div", "float64", "ties_to_even", *operands)
    return narrow(exact, kind) if kind else exact


@pytest.mark.parametrize("types", QUOTIENTS, ids=" ".join)
def test_quotients_and_codes_are_softfloats(types: tuple[str, str, str]) -> None:
    source, scale, precision = types
    found = [trial.operands() for trial in trials(source, "int16", scale, per_axis=False)]
    hard = [np.concatenate([getattr(one, name) for one in found]) for name in ("bits", "scales")]
    some = [each[:: max(1, each.size // SOME)] for each in hard]
    rng = np.random.default_rng(47)
    bits, scales = (
        np.append(near, rng.integers(0, 1 << WIDTHS[dtype], SOME).astype(bits_type(dtype)))
        for near, dtype in zip(some, (source, scale), strict=True)
    )
    kind = quotient_type(scale, precision)
    want = quotients(bits, scales, source, scale, kind)
    got, _ = divided(bits, scales, (source, scale), kind)
    if kind:  # else they are rounded to odd, which SoftFloat does not here
        assert not differs(got, want, kind).any()
    values = (want, "float64") if not kind else wide(want, kind)
    numbers = values[0].view(np.float64)
    usual = np.abs(numbers) < 2.0**40  # no NaN either
    integers = by_softfloat("f64_to_i64", "int64", "ties_to_even", (values[0][usual], "float64"))
    points = rng.integers(*ends("int16"), usual.sum())
    expected = np.clip(integers.view(np.int64) + points, *ends("int16")).astype(np.int16)
    zeros = points.astype(np.int16).view(np.uint16)
    codes = quantized(
        bits[usual], scales[usual], zeros, (source, scale, "int16"), precision=precision
    )
    assert usual.sum() >= SOME
    assert np.array_equal(codes.view(np.int16), expected)


@pytest.mark.parametrize("types", PRODUCTS, ids=" ".join)
def test_products_are_softfloats(types: tuple[str, str, str]) -> None:
    """float64 has each product of a difference of 17 bits and a scale of 24."""
    source, scale, target = types
    found = [trial.operands() for trial in code_trials(source, scale, per_axis=False)]
    rng, (least, most) = np.random.default_rng(47), ends(source)
    bits, scales = (np.concatenate([getattr(one, n) for one in found]) for n in ("bits", "scales"))
    step = max(1, bits.size // SOME)
    drawn = (each.astype(bits_type(source)) for each in rng.integers(least, most, (2, SOME)))
    points = np.concatenate([one.zero_points for one in found])[::step].astype(bits_type(source))
    bits, points = (np.append(*each) for each in zip((bits[::step], points), drawn, strict=True))
    patterns = rng.integers(0, 1 << WIDTHS[scale], SOME).astype(bits_type(scale))
    scales = np.append(scales[::step], patterns)
    own = BY_NAME[source].numpy
    differences = bits.view(own).astype(np.int32) - points.view(own).astype(np.int32)
    operands = wide(differences.view(np.uint32), "int32"), wide(scales, scale)
    products = by_softfloat("f64_mul", "float64", "ties_to_even", *operands)
    got = dequantized(bits, scales, points, types)
    assert not differs(got, narrow(products, target), target).any()
