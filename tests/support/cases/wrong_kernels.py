"""Wrong kernels, written as people write them, and the names of the models that explain them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import numpy.typing as npt

from tensor_round.contract.dtypes import from_numpy
from tensor_round_verify import Report, rounded

Array = npt.NDArray[Any]
Kernel = Callable[[Array], Array]
EVEN, AWAY = "ties_to_even", "ties_to_away"


def unsigned(x: Array) -> Array:
    return x.view(f"<u{x.dtype.itemsize}")


def right(x: Array, rounding: str) -> Array:
    dtype = from_numpy(x.dtype)
    assert dtype is not None
    return rounded(unsigned(x), dtype.name, rounding).view(x.dtype)


def names(report: Report) -> set[tuple[str, ...]]:
    """What explains each verdict; all faults are explained."""
    assert all(verdict.explanation.complete for verdict in report.verdicts), str(report)
    return {tuple(one.name for one in v.explanation.deviations) for v in report.verdicts}


def nans_kept(x: Array, y: Array) -> Array:
    """What a careful kernel does about NaNs."""
    return np.where(np.isnan(x), unsigned(x), unsigned(y)).view(x.dtype)


def careful(kernel: Kernel) -> Kernel:
    """A kernel that leaves NaNs as they are."""
    return lambda x: nans_kept(x, kernel(x).astype(x.dtype))


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


def ties(become: Callable[[Array], Array]) -> Kernel:
    """The nearest integer, of a tie what is made of the one below it."""

    def kernel(x: Array) -> Array:
        below = np.floor(x)
        is_tie = np.fmod(np.abs(x), x.dtype.type(1)) == x.dtype.type(0.5)
        return nans_kept(x, np.where(is_tie, np.copysign(become(below), x), np.rint(x)))

    return kernel


def tf32(x: Array) -> Array:
    bits = (unsigned(x) + np.uint32(0x1000)) & np.uint32(0xFFFFE000)
    return nans_kept(x, np.where(np.isinf(x), x, np.rint(bits.view(x.dtype))))


def ceil_flushed(x: Array) -> Array:
    normal = np.abs(x) >= np.finfo(x.dtype).tiny
    return nans_kept(x, np.ceil(np.where(normal, x, np.copysign(x.dtype.type(0), x))))


def tflite(x: Array) -> Array:
    """By floor and difference: -0.3 comes out as -1 + 1; -0.0 is its own floor."""
    floor = np.floor(x)
    rest = x - floor
    even = np.fmod(floor, x.dtype.type(2)) == 0
    half = x.dtype.type(0.5)
    down = (rest < half) | ((rest == half) & even)
    return nans_kept(x, np.where(down, floor, floor + x.dtype.type(1)))


def nans_as(change: Kernel) -> Kernel:
    def kernel(x: Array) -> Array:
        bits = unsigned(right(x, "ties_to_even"))
        return np.where(np.isnan(x), change(bits), bits).astype(bits.dtype).view(x.dtype)

    return kernel


def trunc_of_sum(x: Array) -> Array:
    """truncf(x + 0.5f)."""
    return nans_kept(x, np.trunc(x + x.dtype.type(0.5)))


def magic(x: Array) -> Array:
    """By x + 12582912.0f - 12582912.0f."""
    number = x.dtype.type(1.5 * 2.0 ** np.finfo(x.dtype).nmant)
    return nans_kept(x, (x + number) - number)


def signed_magic(x: Array) -> Array:
    """By x + copysignf(8388608.0f, x) - copysignf(8388608.0f, x)."""
    number = np.copysign(x.dtype.type(2.0 ** np.finfo(x.dtype).nmant), x)
    return nans_kept(x, (x + number) - number)


def x86(y: Array, width: int) -> Array:
    """(long)y or (int)y by cvttss2si: one pattern for all that does not fit."""
    limit = 2.0 ** (width - 1)
    wide = np.trunc(y.astype("f8"))
    fits = (wide >= -limit) & (wide < limit)
    integers = np.where(fits, np.where(fits, wide, 0).astype(f"i{width // 8}"), np.int64(-limit))
    return integers.astype(y.dtype)


def arm(y: Array, width: int) -> Array:
    """(int)y by fcvtzs: saturated, NaN as 0."""
    limit = 2.0 ** (width - 1)
    wide = np.nan_to_num(np.trunc(y.astype("f8")), posinf=limit, neginf=-limit)
    most = np.iinfo(f"i{width // 8}")
    fits = np.where(wide >= limit, 0, np.maximum(wide, -limit)).astype(f"i{width // 8}")
    return np.where(wide >= limit, most.max, fits).astype(y.dtype)


def int_of_sum(x: Array) -> Array:
    """(float)(int)(x + 0.5f)."""
    return x86(x + x.dtype.type(0.5), 32)


def int_of_signed_sum(x: Array) -> Array:
    """(float)(int)(x < 0 ? x - 0.5f : x + 0.5f)."""
    half = x.dtype.type(0.5)
    return x86(np.where(x < 0, x - half, x + half), 32)


def quieted(kernel: Kernel) -> Kernel:
    """What a kernel that adds does to NaNs."""
    return lambda x: np.where(np.isnan(x), x + x.dtype.type(0), kernel(x)).astype(x.dtype)


def canonical(pattern: int) -> Kernel:
    """A kernel for which all NaNs are one."""
    return nans_as(lambda bits: np.full_like(bits, pattern))


def in_float(wide: Any, integer: Any) -> Kernel:
    """Integers by way of a float type, out of range as x86 has it."""

    def kernel(x: Array) -> Array:
        whole = np.rint(x.astype(wide))
        fits = np.abs(whole) < -float(np.iinfo(integer).min)
        return np.where(fits, np.where(fits, whole, 0).astype(integer), np.iinfo(integer).min)

    return kernel


def clamped(x: Array) -> Array:
    largest = float(np.finfo(np.float32).max)
    return np.rint(np.clip(x, -largest, largest).astype(np.float32))


def through(narrow: Any) -> Kernel:
    return careful(lambda x: np.rint(x.astype(narrow)))


COPYSIGN, TRUNC = "trunc(x + copysign(0.5, x))", "trunc(x + 0.5)"
WIDER = f"{TRUNC} in a wider type"
HALVES, OVERFLOW = "rounded to halves first", "rounded to halves first, 2x overflows"
INT32, INT64 = ("through int32", "NaN as -2^31"), ("through int64", "NaN as -2^63")
trunc_of_double = careful(lambda x: np.trunc(x.astype("f8") + 0.5))
halves_first = careful(lambda x: np.rint(np.rint(2 * x.astype("f4")) / 2))
halves_first_in_own = careful(lambda x: np.rint(np.rint(x.dtype.type(2) * x) / x.dtype.type(2)))

#: Kernel, dtype, rounding, and the names of the models that explain it.
PLANTED: list[tuple[Kernel, str, str, list[str]]] = [
    (kernel, dtype, rounding, names)
    for kernel, dtype, rounding, *names in (
        (half_added, "float32", AWAY, COPYSIGN),
        (half_added, "float8_e4m3fn", AWAY, COPYSIGN),
        (floor_of_half_added, "float32", EVEN, "floor(x + 0.5)"),
        (floor_of_half_added, "float64", AWAY, "floor(x + 0.5)"),
        (ggml_vulkan, "float32", AWAY, COPYSIGN, "zero's sign lost by -0.0 alone"),
        (math_round, "float64", EVEN, "half toward +infinity"),
        (lambda x: right(x, AWAY), "float32", EVEN, "half away from zero"),
        (ties(lambda n: n), "float32", EVEN, "half toward -infinity"),
        (ties(lambda n: np.where(n < 0, n + 1, n)), "float16", EVEN, "half toward zero"),
        (ties(lambda n: np.where(n % 2 == 0, n + 1, n)), "float64", AWAY, "half to odd"),
        (tf32, "float32", EVEN, "through TF32"),
        (np.rint, "float8_e4m3fn", AWAY, "half to even"),
        (lambda x: x.copy(), "float16", EVEN, "no rounding"),
        (careful(np.trunc), "float16", EVEN, "truncation"),
        (lambda x: right(x, "toward_negative"), "float32", "toward_zero", "floor"),
        (lambda x: right(x, "toward_positive"), "float32", "toward_zero", "ceil"),
        (through(np.float32), "float64", EVEN, "through float32"),
        (careful(clamped), "float64", EVEN, "through float32 clamped"),
        (through(np.float16), "float32", EVEN, "through float16"),
        (through(np.float16), "float64", EVEN, "through float16"),
        (through(ml_dtypes.bfloat16), "float32", EVEN, "through bfloat16"),
        (ceil_flushed, "float32", "toward_positive", "flush subnormals"),
        (careful(lambda x: np.rint(x) + x.dtype.type(0)), "float32", EVEN, "zero's sign lost"),
        (tflite, "float32", EVEN, "zero's sign lost by all but -0.0"),
        (nans_as(lambda b: b | 0x200), "float16", EVEN, "NaN quieted"),
        (canonical(0x7FFF), "float16", EVEN, "NaN canonical (all ones but the sign)"),
        (canonical(0xFFC00000), "float32", EVEN, "NaN canonical (negative, quiet, no payload)"),
        (canonical(0x7FC00000), "float32", EVEN, "NaN canonical (quiet, no payload)"),
        (canonical(0xFFFF), "bfloat16", EVEN, "NaN canonical (all ones)"),
        (nans_as(lambda b: (b & 0x8000) | 0x7E00), "float16", EVEN, "payload lost"),
        (nans_as(lambda b: b & 0x7FFF), "float16", EVEN, "NaN's sign lost"),
        (
            nans_as(lambda b: (b | 0x200) & 0x7FFF),
            "float16",
            EVEN,
            "NaN quieted",
            "NaN's sign lost",
        ),
        (nans_as(lambda b: (b | 1 << 51) >> 29 << 29), "float64", EVEN, "payload cut to float32's"),
        (in_float(np.float64, np.int64), "int64", EVEN, "integers through float64"),
        (in_float(np.float32, np.int32), "int32", EVEN, "integers through float32"),
        # The commonest as they are written in C and NumPy.
        (trunc_of_sum, "float32", AWAY, TRUNC),
        (trunc_of_sum, "float64", EVEN, TRUNC),
        (trunc_of_double, "float32", AWAY, WIDER),
        (trunc_of_double, "bfloat16", EVEN, WIDER),
        (quieted(trunc_of_sum), "float32", AWAY, TRUNC, "NaN quieted"),
        (int_of_sum, "float32", AWAY, TRUNC, *INT32),
        (int_of_sum, "float16", EVEN, TRUNC, *INT32),
        # (float)(int)(x + 0.5)
        (lambda x: x86(x.astype("f8") + 0.5, 32).astype(x.dtype), "float32", AWAY, WIDER, *INT32),
        (int_of_signed_sum, "float32", AWAY, COPYSIGN, *INT32),
        # (float)(long)floorf(x + 0.5f)
        (
            lambda x: x86(np.floor(x + x.dtype.type(0.5)), 64),
            "float64",
            EVEN,
            "floor(x + 0.5)",
            *INT64,
        ),
        # (float)lrintf(x), where long has 64 bits
        (lambda x: x86(np.rint(x), 64), "float32", EVEN, *INT64),
        (lambda x: x86(np.rint(x), 64), "float32", AWAY, "half to even", *INT64),
        (lambda x: np.rint(x).astype(np.int32).astype(x.dtype), "float64", EVEN, *INT32),
        # (float)(int)x
        (lambda x: x86(x, 32), "float32", AWAY, "truncation", *INT32),
        # (float)(int32_t)rintf(x) and (float)(int64_t)rintf(x), on ARM
        (lambda x: arm(np.rint(x), 32), "float32", EVEN, "through int32 saturated", "NaN as 0"),
        (lambda x: arm(np.rint(x), 64), "float64", EVEN, "through int64 saturated", "NaN as 0"),
        (magic, "float32", EVEN, "magic number"),
        (quieted(magic), "float32", EVEN, "magic number", "NaN quieted"),
        (signed_magic, "float32", EVEN, "magic number of x's sign"),
        # rintf(rintf(2x) / 2), of a narrower type in float32
        (halves_first, "float16", EVEN, HALVES),
        (halves_first, "bfloat16", EVEN, OVERFLOW),
        (halves_first_in_own, "float32", EVEN, OVERFLOW),
        # roundf(roundf(2x) / 2), of a narrower type in float32
        (
            careful(lambda x: right(right(2 * x.astype("f4"), AWAY) / 2, AWAY)),
            "float16",
            EVEN,
            "half away from zero",
            HALVES,
        ),
    )
]
#: What each row is called.
PLANTED_IDS = [f"{' and '.join(names)}-{dtype}-{rounding}" for _, dtype, rounding, names in PLANTED]
