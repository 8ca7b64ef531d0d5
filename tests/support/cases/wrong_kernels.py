"""Kernels as people write them: wrong in one known way each, and one that is right."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from tensor_round.conformance import rounded
from tensor_round.dtypes import from_numpy

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
