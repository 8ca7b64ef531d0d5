"""The commonest wrong kernels as they are written in C and NumPy, and the models that name them."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from support.cases.wrong_kernels import Array, nans_kept, right


def trunc_of_sum(x: Array) -> Array:
    """truncf(x + 0.5f)."""
    return nans_kept(x, np.trunc(x + x.dtype.type(0.5)))


def trunc_of_double(x: Array) -> Array:
    """trunc(x + 0.5), of a float."""
    return nans_kept(x, np.trunc(x.astype("f8") + 0.5).astype(x.dtype))


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


def int_of_double_sum(x: Array) -> Array:
    """(float)(int)(x + 0.5)."""
    return x86(x.astype("f8") + 0.5, 32).astype(x.dtype)


def int_of_signed_sum(x: Array) -> Array:
    """(float)(int)(x < 0 ? x - 0.5f : x + 0.5f)."""
    half = x.dtype.type(0.5)
    return x86(np.where(x < 0, x - half, x + half), 32)


def int_of_floor(x: Array) -> Array:
    """(float)(long)floorf(x + 0.5f)."""
    return x86(np.floor(x + x.dtype.type(0.5)), 64)


def lrint(x: Array) -> Array:
    """(float)lrintf(x), where long has 64 bits."""
    return x86(np.rint(x), 64)


def cast(x: Array) -> Array:
    """(float)(int)x."""
    return x86(x, 32)


def arm_lrint(x: Array) -> Array:
    """(float)(int32_t)rintf(x), on ARM."""
    return arm(np.rint(x), 32)


def arm_lrint_64(x: Array) -> Array:
    """(float)(int64_t)rintf(x), on ARM."""
    return arm(np.rint(x), 64)


def numpy_cast(x: Array) -> Array:
    """np.rint(x).astype(np.int32).astype(x.dtype)."""
    return np.rint(x).astype(np.int32).astype(x.dtype)


def halves_first(x: Array) -> Array:
    """rintf(rintf(2x) / 2), of a narrower type in float32."""
    wide = x.astype("f4")
    return nans_kept(x, np.rint(np.rint(2 * wide) / 2).astype(x.dtype))


def halves_first_in_own(x: Array) -> Array:
    """rintf(rintf(2x) / 2)."""
    two = x.dtype.type(2)
    return nans_kept(x, np.rint(np.rint(two * x) / two))


def away_of_halves(x: Array) -> Array:
    """roundf(roundf(2x) / 2), of a narrower type in float32."""
    wide = x.astype("f4")
    return nans_kept(x, right(right(2 * wide, AWAY) / 2, AWAY).astype(x.dtype))


def quieted(kernel: Callable[[Array], Array]) -> Callable[[Array], Array]:
    """What a kernel that adds does to NaNs."""
    return lambda x: np.where(np.isnan(x), x + x.dtype.type(0), kernel(x)).astype(x.dtype)


EVEN, AWAY = "ties_to_even", "ties_to_away"
INT32 = ["through int32", "NaN as -2^31"]
#: (kernel, dtype, rounding, the names of the models that explain it)
IDIOMS: dict[str, tuple[Callable[[Array], Array], str, str, list[str]]] = {
    "trunc-of-sum": (trunc_of_sum, "float32", AWAY, ["trunc(x + 0.5)"]),
    "trunc-of-sum-even": (trunc_of_sum, "float32", EVEN, ["trunc(x + 0.5)"]),
    "trunc-of-sum-16": (trunc_of_sum, "float16", AWAY, ["trunc(x + 0.5)"]),
    "trunc-of-sum-64": (trunc_of_sum, "float64", EVEN, ["trunc(x + 0.5)"]),
    "trunc-of-double": (trunc_of_double, "float32", AWAY, ["trunc(x + 0.5) in a wider type"]),
    "trunc-of-float-bf16": (
        *(trunc_of_double, "bfloat16", EVEN),
        ["trunc(x + 0.5) in a wider type"],
    ),
    "trunc-of-sum-quieted": (
        *(quieted(trunc_of_sum), "float32", AWAY),
        ["trunc(x + 0.5)", "NaN quieted"],
    ),
    "int-of-sum": (int_of_sum, "float32", AWAY, ["trunc(x + 0.5)", *INT32]),
    "int-of-sum-even": (int_of_sum, "float32", EVEN, ["trunc(x + 0.5)", *INT32]),
    "int-of-sum-16": (int_of_sum, "float16", EVEN, ["trunc(x + 0.5)", *INT32]),
    "int-of-double-sum": (
        *(int_of_double_sum, "float32", AWAY),
        ["trunc(x + 0.5) in a wider type", *INT32],
    ),
    "int-of-signed-sum": (
        *(int_of_signed_sum, "float32", AWAY),
        ["trunc(x + copysign(0.5, x))", *INT32],
    ),
    "long-of-floor": (
        *(int_of_floor, "float64", EVEN),
        ["floor(x + 0.5)", "through int64", "NaN as -2^63"],
    ),
    "lrint": (lrint, "float32", EVEN, ["through int64", "NaN as -2^63"]),
    "lrint-away": (lrint, "float32", AWAY, ["half to even", "through int64", "NaN as -2^63"]),
    "numpy-int32": (numpy_cast, "float64", EVEN, INT32),
    "cast": (cast, "float32", AWAY, ["truncation", *INT32]),
    "arm-lrint": (arm_lrint, "float32", EVEN, ["through int32 saturated", "NaN as 0"]),
    "arm-lrint-64": (arm_lrint_64, "float64", EVEN, ["through int64 saturated", "NaN as 0"]),
    "magic": (magic, "float32", EVEN, ["magic number"]),
    "magic-64": (magic, "float64", AWAY, ["magic number"]),
    "magic-quieted": (quieted(magic), "float32", EVEN, ["magic number", "NaN quieted"]),
    "signed-magic": (signed_magic, "float32", EVEN, ["magic number of x's sign"]),
    "halves-first": (halves_first, "float16", EVEN, ["rounded to halves first"]),
    "halves-first-bf16": (
        *(halves_first, "bfloat16", EVEN),
        ["rounded to halves first, 2x overflows"],
    ),
    "halves-first-in-own": (
        *(halves_first_in_own, "float32", EVEN),
        ["rounded to halves first, 2x overflows"],
    ),
    "halves-first-in-own-16": (
        *(halves_first_in_own, "float16", EVEN),
        ["rounded to halves first, 2x overflows"],
    ),
    "away-of-halves": (
        *(away_of_halves, "float16", EVEN),
        ["half away from zero", "rounded to halves first"],
    ),
}
