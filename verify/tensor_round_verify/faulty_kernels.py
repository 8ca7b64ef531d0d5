"""The changes of the deviations of rounding, which turn a right kernel into a wrong one.

A change computes the results of the faulty kernel from the right kernel. Changes of numbers keep
every NaN, and changes of NaNs keep every number.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from tensor_round.contract.dtypes import BY_NAME

from .reference import FLOATS, Bits, Decision, Flags, Format, bits_type, is_nan, rounded

Values = npt.NDArray[np.floating]
#: Rounds a one-dimensional array of patterns: (bits, dtype, rounding) -> bits.
Kernel = Callable[[Bits, str, str], Bits]
#: Computes a faulty kernel's results: (bits, dtype, rounding, kernel) -> bits.
Change = Callable[[Bits, str, str, Kernel], Bits]


def exact(bits: Bits, dtype: str, rounding: str) -> Bits:
    """The right kernel: the integer reference."""
    return rounded(bits, dtype, rounding)


def formula(name: str) -> Change:
    """Compute one of :data:`FORMULAS` in the tensor's own format; keep NaNs."""

    def change(bits: Bits, dtype: str, _: str, __: Kernel) -> Bits:
        with np.errstate(all="ignore"):
            values = FORMULAS[name](bits.view(BY_NAME[dtype].numpy))
        return np.where(is_nan(dtype, bits), bits, values.view(bits.dtype))

    return change


def _first_without_fractions(x: Values) -> Any:
    """The power of two 2^p: a float with p fraction bits has none left in between."""
    return x.dtype.type(2 ** BY_NAME[x.dtype.name].mantissa_bits)


def _added(x: Values, number: Any) -> Any:
    return (x + number) - number


#: Formulas in a float's own format, by the names of their deviations.
FORMULAS: dict[str, Callable[[Values], Any]] = {
    "trunc(x + copysign(0.5, x))": lambda x: np.trunc(x + np.copysign(x.dtype.type(0.5), x)),
    "floor(x + 0.5)": lambda x: np.floor(x + x.dtype.type(0.5)),
    "trunc(x + 0.5)": lambda x: np.trunc(x + x.dtype.type(0.5)),
    # C's 0.5 is a double.
    "trunc(x + 0.5) in a wider type": lambda x: np.trunc(x.astype(np.float64) + 0.5).astype(
        x.dtype
    ),
    "magic number": lambda x: _added(x, x.dtype.type(1.5) * _first_without_fractions(x)),
    "magic number of x's sign": lambda x: _added(x, np.copysign(_first_without_fractions(x), x)),
}


def _ties(decide: Decision) -> Decision:
    """A decision of ties alone; all others go to the nearest."""

    def nearest(integer: Bits, rest: Bits, half: Bits, negative: Flags) -> Flags:
        up: Flags = (rest > half) | ((rest == half) & decide(integer, rest, half, negative))
        return up

    return nearest


#: The rules of ties that no direction of IEEE 754 has.
TIES = {
    "half toward +infinity": _ties(lambda _, __, ___, negative: ~negative),
    "half toward -infinity": _ties(lambda _, __, ___, negative: negative),
    "half toward zero": _ties(lambda _, __, ___, negative: np.zeros_like(negative)),
    "half to odd": _ties(lambda integer, *_: integer & integer.dtype.type(1) == 0),
}


def as_tf32(bits: Bits) -> Bits:
    """Numbers of float32 in TF32's 10 fraction bits: nearest, ties away, as CUDA's cvt.rna."""
    nearest = (bits + bits.dtype.type(1 << 12)) & bits.dtype.type(~0x1FFF & 0xFFFFFFFF)
    return np.where(bits & bits.dtype.type(0x7F800000) == 0x7F800000, bits, nearest)


def direction(rounding: str | Decision) -> Change:
    """Round always in the same direction, even if another one is asked for."""
    return lambda bits, dtype, _, __: rounded(bits, dtype, rounding)


def narrowed(narrow: str, *, clamped: bool) -> Change:
    """Convert to a narrower float type, round in that type, convert back."""
    target = BY_NAME[narrow].numpy

    def change(bits: Bits, dtype: str, rounding: str, kernel: Kernel) -> Bits:
        own = BY_NAME[dtype].numpy
        with np.errstate(all="ignore"):
            values = bits.view(own)
            if clamped:
                pattern = np.array(FLOATS[narrow].largest, bits_type(narrow))
                largest = pattern.view(target).astype(own)
                values = np.clip(values, -largest, largest)
            there = values.astype(target).view(bits_type(narrow))
            back = kernel(there, narrow, rounding).view(target).astype(own)
        return np.where(is_nan(dtype, bits), bits, back.view(bits.dtype))

    return change


def loses_by(dtype: str, narrow: str) -> bool:
    """Whether the first type has numbers that the second one lacks."""
    wide, small = FLOATS[dtype], FLOATS[narrow]
    return wide.fraction_bits > small.fraction_bits or wide.bias > small.bias


def integers_through(width: int, narrow: str) -> Change:
    """Wrap to signed integers of ``width`` bits, round as floats, convert back, sign-extend."""
    signed, own = np.dtype(f"<i{width // 8}"), BY_NAME[narrow].numpy
    least = np.iinfo(signed).min

    def change(bits: Bits, dtype: str, rounding: str, kernel: Kernel) -> Bits:
        wrapped = bits.view(f"<i{bits.dtype.itemsize}").astype(signed)
        there = wrapped.astype(own).view(bits_type(narrow))
        results = kernel(there, narrow, rounding).view(own)
        # x86 converts a float out of range to the least integer.
        fits = np.abs(results) < -float(least)
        back = np.where(fits, np.where(fits, results, 0).astype(signed), least)
        extended: Bits = back.astype(f"<i{bits.dtype.itemsize}").view(bits.dtype)
        return extended

    return change


def flushed(bits: Bits, fmt: Format) -> Bits:
    """Replace subnormals by zeros of the same sign."""
    sign = bits & bits.dtype.type(fmt.sign_bit)
    return np.where((bits ^ sign) < 1 << fmt.fraction_bits, sign, bits)


def zeros_lost(which: Callable[[Bits, int], Flags]) -> Change:
    """Replace the negative zeros among the results that ``which`` selects by +0.0."""

    def change(bits: Bits, dtype: str, rounding: str, kernel: Kernel) -> Bits:
        results = kernel(bits, dtype, rounding)
        negative_zero = FLOATS[dtype].sign_bit
        lost = (results == negative_zero) & which(bits, negative_zero)
        return np.where(lost, bits.dtype.type(0), results)

    return change


def nans_become(become: Callable[[Bits, str], Bits]) -> Change:
    """Change the results for NaN operands."""

    def change(bits: Bits, dtype: str, rounding: str, kernel: Kernel) -> Bits:
        results = kernel(bits, dtype, rounding)
        return np.where(is_nan(dtype, bits), become(results, dtype), results)

    return change


def quieted(bits: Bits, dtype: str) -> Bits:
    """NaNs with the quiet bit set."""
    return bits | bits.dtype.type(1 << (FLOATS[dtype].fraction_bits - 1))


def cut_to(narrow: str) -> Callable[[Bits, str], Bits]:
    """Quiet NaNs, with the payload cut to the leading bits that a narrower type has."""

    def become(bits: Bits, dtype: str) -> Bits:
        dropped = FLOATS[dtype].fraction_bits - FLOATS[narrow].fraction_bits
        return quieted(bits, dtype) & ~bits.dtype.type((1 << dropped) - 1)

    return become


def payload_lost(bits: Bits, dtype: str) -> Bits:
    """Quiet NaNs of the same sign without payload."""
    fmt = FLOATS[dtype]
    return (bits & bits.dtype.type(fmt.sign_bit)) | bits.dtype.type(fmt.nan or 0)


def sign_lost(bits: Bits, dtype: str) -> Bits:
    """NaNs with the sign bit clear."""
    return bits & bits.dtype.type(FLOATS[dtype].sign_bit - 1)


def canonical(*, negative: bool, ones: bool) -> Change:
    """One pattern for every NaN: all ones, or the quiet bit alone."""

    def become(bits: Bits, dtype: str) -> Bits:
        fmt = FLOATS[dtype]
        magnitude = fmt.signless if ones else fmt.nan or 0
        return np.full_like(bits, magnitude | (fmt.sign_bit if negative else 0))

    return nans_become(become)


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
