"""Wrong kernels, written as people write them, and the names of the models that explain them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import numpy.typing as npt

from tensor_round.contract.dtypes import from_numpy
from tensor_round_verify import rounded

Array = npt.NDArray[Any]


def unsigned(x: Array) -> Array:
    return x.view(f"<u{x.dtype.itemsize}")


def right(x: Array, rounding: str) -> Array:
    dtype = from_numpy(x.dtype)
    assert dtype is not None
    return rounded(unsigned(x), dtype.name, rounding).view(x.dtype)


def nans_kept(x: Array, y: Array) -> Array:
    """What a careful kernel does about NaNs."""
    return np.where(np.isnan(x), unsigned(x), unsigned(y)).view(x.dtype)


def half_added(x: Array) -> Array:
    return nans_kept(x, np.trunc(x + np.copysign(x.dtype.type(0.5), x)))


def floor_of_half_added(x: Array) -> Array:
    return nans_kept(x, np.floor(x + x.dtype.type(0.5)))


def ggml_vulkan(x: Array) -> Array:
    half = x.dtype.type(0.5)
    return nans_kept(x, np.where(x >= 0, np.floor(x + half), np.ceil(x - half)))


def math_round(x: Array) -> Array:
    """JavaScript's: the greater integer of a tie, and -0 for -0.5 to -0."""
    floor = np.floor(x)
    up = np.where(x - floor >= x.dtype.type(0.5), floor + x.dtype.type(1), floor)
    whole = np.abs(x) >= 2.0 ** np.finfo(x.dtype).nmant
    return nans_kept(x, np.where(whole, x, np.copysign(up, x)))


def c_round(x: Array) -> Array:
    return right(x, "ties_to_away")


def truncated(x: Array) -> Array:
    return nans_kept(x, np.trunc(x))


def through(narrow: Any) -> Callable[[Array], Array]:
    def kernel(x: Array) -> Array:
        return nans_kept(x, np.rint(x.astype(narrow)).astype(x.dtype))

    return kernel


def through_float32_clamped(x: Array) -> Array:
    largest = float(np.finfo(np.float32).max)
    narrow = np.clip(x, -largest, largest).astype(np.float32)
    return nans_kept(x, np.rint(narrow).astype(x.dtype))


def ceil_flushed(x: Array) -> Array:
    normal = np.abs(x) >= np.finfo(x.dtype).tiny
    return nans_kept(x, np.ceil(np.where(normal, x, np.copysign(x.dtype.type(0), x))))


def sign_of_zero_lost(x: Array) -> Array:
    return nans_kept(x, np.rint(x) + x.dtype.type(0))


def tflite(x: Array) -> Array:
    """By floor and difference: -0.3 comes out as -1 + 1; -0.0 is its own floor."""
    floor = np.floor(x)
    rest = x - floor
    even = np.fmod(floor, x.dtype.type(2)) == 0
    half = x.dtype.type(0.5)
    down = (rest < half) | ((rest == half) & even)
    return nans_kept(x, np.where(down, floor, floor + x.dtype.type(1)))


def nans_as(change: Callable[[Array], Array]) -> Callable[[Array], Array]:
    def kernel(x: Array) -> Array:
        bits = unsigned(right(x, "ties_to_even"))
        return np.where(np.isnan(x), change(bits), bits).astype(bits.dtype).view(x.dtype)

    return kernel


def int64_in_float64(x: Array) -> Array:
    whole = np.rint(x.astype(np.float64))
    fits = np.abs(whole) < 2.0**63
    return np.where(fits, np.where(fits, whole, 0).astype(np.int64), np.iinfo(np.int64).min)


def int32_in_float32(x: Array) -> Array:
    whole = np.rint(x.astype(np.float32))
    fits = np.abs(whole) < 2.0**31
    return np.where(fits, np.where(fits, whole, 0).astype(np.int32), np.iinfo(np.int32).min)


#: (kernel, dtype, rounding, the names of the models that explain it)
PLANTED: dict[str, tuple[Callable[[Array], Array], str, str, list[str]]] = {
    "trunc-of-half-added": (half_added, "float32", "ties_to_away", ["trunc(x + copysign(0.5, x))"]),
    "trunc-of-half-added-16": (
        *(half_added, "float16", "ties_to_away"),
        ["trunc(x + copysign(0.5, x))"],
    ),
    "trunc-of-half-added-bf16": (
        *(half_added, "bfloat16", "ties_to_away"),
        ["trunc(x + copysign(0.5, x))"],
    ),
    "trunc-of-half-added-e4m3": (
        *(half_added, "float8_e4m3fn", "ties_to_away"),
        ["trunc(x + copysign(0.5, x))"],
    ),
    "floor-of-half-added": (floor_of_half_added, "float32", "ties_to_even", ["floor(x + 0.5)"]),
    "floor-of-half-added-64": (floor_of_half_added, "float64", "ties_to_away", ["floor(x + 0.5)"]),
    "ggml-vulkan": (
        *(ggml_vulkan, "float32", "ties_to_away"),
        ["trunc(x + copysign(0.5, x))", "zero's sign lost by -0.0 alone"],
    ),
    "math-round": (math_round, "float64", "ties_to_even", ["half toward +infinity"]),
    "math-round-16": (math_round, "float16", "ties_to_away", ["half toward +infinity"]),
    "c-round": (c_round, "float32", "ties_to_even", ["half away from zero"]),
    "rint-for-away": (np.rint, "float8_e4m3fn", "ties_to_away", ["half to even"]),
    "not-rounded": (lambda x: x.copy(), "float16", "ties_to_even", ["no rounding"]),
    "truncation": (truncated, "float16", "ties_to_even", ["truncation"]),
    "floor-for-trunc": (
        lambda x: right(x, "toward_negative"),
        *("float32", "toward_zero"),
        ["floor"],
    ),
    "ceil-for-trunc": (
        lambda x: right(x, "toward_positive"),
        *("float32", "toward_zero"),
        ["ceil"],
    ),
    "through-float32": (through(np.float32), "float64", "ties_to_even", ["through float32"]),
    "through-float32-clamped": (
        *(through_float32_clamped, "float64", "ties_to_even"),
        ["through float32 clamped"],
    ),
    "through-float16": (through(np.float16), "float32", "ties_to_even", ["through float16"]),
    "through-float16-64": (through(np.float16), "float64", "ties_to_even", ["through float16"]),
    "through-bfloat16": (
        *(through(ml_dtypes.bfloat16), "float32", "ties_to_even"),
        ["through bfloat16"],
    ),
    "flushed": (ceil_flushed, "float32", "toward_positive", ["flush subnormals"]),
    "zeros": (sign_of_zero_lost, "float32", "ties_to_even", ["zero's sign lost"]),
    "tflite": (tflite, "float32", "ties_to_even", ["zero's sign lost by all but -0.0"]),
    "nan-quieted": (nans_as(lambda b: b | 0x200), "float16", "ties_to_even", ["NaN quieted"]),
    "nan-canonical": (
        *(nans_as(lambda b: np.full_like(b, 0x7FFF)), "float16", "ties_to_even"),
        ["NaN canonical (all ones but the sign)"],
    ),
    "nan-canonical-x86": (
        *(nans_as(lambda b: np.full_like(b, 0xFFC00000)), "float32", "ties_to_even"),
        ["NaN canonical (negative, quiet, no payload)"],
    ),
    "nan-canonical-riscv": (
        *(nans_as(lambda b: np.full_like(b, 0x7FC00000)), "float32", "ties_to_even"),
        ["NaN canonical (quiet, no payload)"],
    ),
    "nan-canonical-torch": (
        *(nans_as(lambda b: np.full_like(b, 0xFFFF)), "bfloat16", "ties_to_even"),
        ["NaN canonical (all ones)"],
    ),
    "payload-lost": (
        *(nans_as(lambda b: (b & 0x8000) | 0x7E00), "float16", "ties_to_even"),
        ["payload lost"],
    ),
    "nan-sign-lost": (
        nans_as(lambda b: b & 0x7FFF),
        "float16",
        "ties_to_even",
        ["NaN's sign lost"],
    ),
    "nan-quieted-and-sign-lost": (
        *(nans_as(lambda b: (b | 0x200) & 0x7FFF), "float16", "ties_to_even"),
        ["NaN quieted", "NaN's sign lost"],
    ),
    "payload-cut": (
        *(nans_as(lambda b: (b | 1 << 51) >> 29 << 29), "float64", "ties_to_even"),
        ["payload cut to float32's"],
    ),
    "int64-in-float64": (int64_in_float64, "int64", "ties_to_even", ["integers through float64"]),
    "int32-in-float32": (int32_in_float32, "int32", "ties_to_even", ["integers through float32"]),
}
