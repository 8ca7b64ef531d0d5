"""The reference beside Berkeley SoftFloat: rounding and casts in five directions."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import softfloatpy as sf

from tensor_round_verify import ROUNDINGS, all_patterns, edges, rounded
from tensor_round_verify.conversions.patterns import cast_operands
from tensor_round_verify.conversions.reference import cast
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


def by_softfloat(name: str, bits: Bits, source: str, target: str, rounding: str) -> Bits:
    """The patterns of a function's results, which are big-endian bytes."""
    function: Any = getattr(sf, name)
    sf.set_rounding_mode(MODES[rounding])
    kind, size = TYPES[source][1], WIDTHS[source] // 8
    data = bits.astype(f">u{size}").tobytes()
    found = b"".join(
        function(kind.from_bytes(data[at : at + size])).to_bytes()
        for at in range(0, len(data), size)
    )
    return np.frombuffer(found, f">u{WIDTHS[target] // 8}").astype(bits_type(target))


@pytest.mark.parametrize("rounding", ROUNDINGS)
@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_rounding_is_softfloats(dtype: str, rounding: str) -> None:
    bits = all_patterns(dtype) if dtype == "float16" else edges(dtype)
    name = f"{TYPES[dtype][0]}_round_to_int"
    want = by_softfloat(name, bits, dtype, dtype, rounding)
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
    want = by_softfloat(name, bits, source, target, rounding)
    got = cast(bits, source, target, rounding, saturate=False)
    wrong = differs(got, want, target)
    if target in INTEGERS:  # out of range each processor has its own result
        wrong &= got == cast(bits, source, target, rounding, saturate=False, rule="wrap")
        wrong &= ~is_nan(source, bits)
    assert not wrong.any()
