"""The changes of kernels that reach an integer by a detour: a sum, an integer type, halves.

Like those of :mod:`changes`, they keep every NaN or every number.
"""

from __future__ import annotations

import numpy as np

from tensor_round.contract.dtypes import BY_NAME

from .changes import Change, Kernel, Values, nans_become
from .reference import FLOATS, Bits, is_nan


def trunc_of_sum(x: Values) -> Values:
    """Add a half, whatever the sign, and truncate."""
    results: Values = np.trunc(x + x.dtype.type(0.5))
    return results


def trunc_of_wide_sum(x: Values) -> Values:
    """The same with the exact sum: C's ``0.5`` is a double."""
    results: Values = np.trunc(x.astype(np.float64) + 0.5).astype(x.dtype)
    return results


def magic(x: Values) -> Values:
    """Add and subtract 1.5 * 2^p: a float with p fraction bits has none left in between."""
    number = x.dtype.type(1.5 * _first_without_fractions(x))
    results: Values = (x + number) - number
    return results


def signed_magic(x: Values) -> Values:
    """Add and subtract 2^p with the sign of x."""
    number = np.copysign(x.dtype.type(_first_without_fractions(x)), x)
    results: Values = (x + number) - number
    return results


def _first_without_fractions(x: Values) -> float:
    return float(2 ** BY_NAME[x.dtype.name].mantissa_bits)


def halves_first(*, overflows: bool) -> Change:
    """Round to halves, then to integers; with ``overflows`` 2x is infinite for large x."""

    def change(bits: Bits, dtype: str, rounding: str, kernel: Kernel) -> Bits:
        own = BY_NAME[dtype].numpy
        with np.errstate(all="ignore"):
            twice = bits.view(own) + bits.view(own)
            halves = kernel(twice.view(bits.dtype), dtype, rounding).view(own) / own.type(2)
            results = kernel(halves.view(bits.dtype), dtype, rounding)
            lost = is_nan(dtype, bits) | (np.isfinite(bits.view(own)) & ~np.isfinite(twice))
        kept = is_nan(dtype, bits) if overflows else lost
        return np.where(kept, kernel(bits, dtype, rounding), results)

    return change


def through_integers(width: int, *, saturates: bool) -> Change:
    """Convert results to signed integers and back.

    What does not fit becomes the least integer, as on x86, or with ``saturates`` the nearest.
    """
    limit = 2.0 ** (width - 1)

    def change(bits: Bits, dtype: str, rounding: str, kernel: Kernel) -> Bits:
        own = BY_NAME[dtype].numpy
        with np.errstate(all="ignore"):
            whole = np.trunc(kernel(bits, dtype, rounding).view(own).astype(np.float64))
            if saturates:
                integers = np.clip(whole, -limit, limit - 1)
            else:
                integers = np.where((whole >= -limit) & (whole < limit), whole, -limit)
            # The sum is +0.0 for either zero: integers have one.
            back = (integers + 0.0).astype(own)
        return np.where(is_nan(dtype, bits), bits, back.view(bits.dtype))

    return change


def nans_as(value: float) -> Change:
    """Replace every NaN by a number, which a conversion to integers made of it."""

    def become(bits: Bits, dtype: str) -> Bits:
        with np.errstate(all="ignore"):
            number = np.array(value).astype(BY_NAME[dtype].numpy)
        return np.full_like(bits, number.view(bits.dtype))

    return nans_become(become)


def exceeds_int32(dtype: str, _: str) -> bool:
    """Whether the type has finite numbers beyond int32."""
    return dtype in FLOATS and FLOATS[dtype].bias > 31
