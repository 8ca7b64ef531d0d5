"""Casts beside ONNX's function for powers of two and of 4 bits, reduce_precision beside XLA."""

from __future__ import annotations

from typing import Any

import jax
import numpy as np
import pytest
from jax import lax
from onnx import numpy_helper

from support.cases.references import reduced
from tensor_round.contract.dtypes import BY_NAME
from tensor_round_verify import verify
from tensor_round_verify.conversions.patterns import cast_operands
from tensor_round_verify.conversions.reference import cast
from tensor_round_verify.patterns import samples
from tensor_round_verify.reference import differs

E8M0 = "float8_e8m0fnu"
MODES = {"up": "toward_positive", "down": "toward_zero", "nearest": "ties_to_even"}
LEAST, NAN = 2.0**-127, 0xFF


@pytest.mark.parametrize("saturate", [True, False])
@pytest.mark.parametrize("mode", MODES)
def test_onnxs_function_for_powers_of_two_but_for_these(mode: str, saturate: bool) -> None:
    """It drops the sign, is never below its least number, and takes that for a subnormal's."""
    bits = cast_operands("float32", E8M0)
    x = np.abs(bits.view(np.float32))
    with np.errstate(all="ignore"):
        got = numpy_helper.to_float8e8m0(bits.view(np.float32), saturate, mode).view(np.uint8)
    magnitudes = bits & np.uint32(0x7FFFFFFF)
    want = cast(magnitudes, "float32", E8M0, MODES[mode], saturate=saturate)
    if saturate:  # the table says the largest
        want[np.isinf(x)] = NAN
    else:  # the table says NaN for the nearest
        want[x < LEAST] = 0
    if mode == "up":
        want[(x > 0) & (x <= LEAST)] = 1
    if mode == "nearest":
        want[(x > LEAST) & (x < 1.5 * LEAST)] = 1
    assert np.array_equal(got, want)


#: Bits of exponent and of the fraction: of types, of fewer and of more than float32's.
FIELDS = [(5, 10), (8, 7), (4, 3), (5, 2), (8, 1), (11, 52), (7, 23), (2, 1), (1, 1), (3, 60)]


@pytest.mark.parametrize(("exponent_bits", "mantissa_bits"), FIELDS)
@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
def test_reduce_precision_is_xlas(dtype: str, exponent_bits: int, mantissa_bits: int) -> None:
    bits = samples(dtype)
    with jax.enable_x64(True):
        x: Any = jax.device_put(bits.view(BY_NAME[dtype].numpy))
        found = np.asarray(lax.reduce_precision(x, exponent_bits, mantissa_bits))
    want = reduced(bits, dtype, exponent_bits, mantissa_bits)
    assert not differs(found.view(bits.dtype), want, dtype).any()


@pytest.mark.parametrize(
    ("runtime", "types", "known"),
    [
        *(
            (runtime, types, ())
            for runtime in ("onnxruntime", "openvino")
            for types in (["int4", "float32"], ["uint4", "int8"], ["int8", "uint4"])
        ),
        ("onnxruntime", ["float32", "int4"], ("half away from zero",)),
        ("openvino", ["float32", "int4"], None),
        ("openvino", ["float32", "float4_e2m1fn"], ()),
    ],
)
def test_casts_of_4_bits(runtime: str, types: list[str], known: tuple[str, ...] | None) -> None:
    """Two elements have a byte in these runtimes."""
    rounding = "toward_zero" if types == ["float32", "int4"] else "ties_to_even"
    asked: Any = {"dtypes": types, "roundings": [rounding]}
    (verdict,) = verify(runtime, operator="cast", **asked).verdicts
    found = verdict.explanation
    names = tuple(deviation.name for deviation in found.deviations)
    assert (names if found.complete else None) == known, str(verdict)
