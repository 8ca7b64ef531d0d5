"""A conversion as a value: its types, its rules, and the results that it gives for operands."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from tensor_round.contract.dtypes import BY_NAME

from ..faulty_kernels import exact, half_up
from ..reference import FLOATS, INTEGER_WIDTHS, Bits, bits_type, rounded
from .patterns import Operands, Trial
from .reference import Integers, cast, dequantized, divided, infinity, integers_of, saturated

Array = npt.NDArray[Any]


@dataclass(frozen=True, slots=True)
class Cast:
    """A cast and its rules. The defaults are right; a deviation changes them."""

    source: str
    target: str
    rounding: str
    saturate: bool
    via: str = ""
    half_for_odd: bool = False
    infinities_saturate: bool | None = None
    flushed: str = ""
    zero_signed: bool = True

    @property
    def name(self) -> str:
        """The name in reports: the types, and whether the cast saturates."""
        return f"{self.source} to {self.target}{', saturated' if self.saturate else ''}"

    def results(self, operands: Operands) -> Bits:
        """The results for these operands."""
        bits = operands.bits
        own, fmt = FLOATS[self.source], FLOATS[self.target]
        given, source = bits, self.via or self.source
        if self.via:
            given = cast(bits, self.source, source, "ties_to_even", saturate=False)
        if self.flushed == "operands":
            given = _flush(given, FLOATS[source].sign_bit, FLOATS[source].fraction_bits)
        if self.half_for_odd:
            given = given + ((given & np.uint32(0x10000)) >> np.uint32(1))
            found = (given >> np.uint32(16)).astype(np.uint16)
        else:
            found = cast(given, source, self.target, self.rounding, saturate=self.saturate)
        if self.infinities_saturate is not None:
            saturate = self.infinities_saturate
            other = cast(bits, self.source, self.target, self.rounding, saturate=saturate)
            magnitude = bits & bits.dtype.type(own.sign_bit - 1)
            found = np.where(magnitude == infinity(own), other, found)
        if self.flushed == "results":
            found = _flush(found, fmt.sign_bit, fmt.fraction_bits)
        if not self.zero_signed:
            found = np.where(found == fmt.sign_bit, found.dtype.type(0), found)
        return found


def _flush(bits: Bits, sign_bit: int, fraction_bits: int) -> Bits:
    sign = bits & bits.dtype.type(sign_bit)
    return np.where((bits ^ sign) < 1 << fraction_bits, sign, bits)


#: A function of (operands, scales, type) that returns the quotients and their type.
Quotient = Callable[[Bits, Bits, str], tuple[Bits, str]]


def _divided(bits: Bits, scales: Bits, dtype: str) -> tuple[Bits, str]:
    return divided(bits, scales, dtype), dtype


@dataclass(frozen=True, slots=True)
class Quantization:
    """A linear quantization and its rules. The defaults are right; a deviation changes them."""

    source: str
    target: str
    per_axis: bool = False
    rounding: str = "ties_to_even"
    quotient: Quotient = field(default=_divided, repr=False)
    zero_point_inside: bool = False
    fused: bool = False
    wraps: bool = False
    through_int32: bool = False

    @property
    def name(self) -> str:
        """The name in reports: the types, and whether scales are per axis or per tensor."""
        return f"{self.source} to {self.target}, {'per axis' if self.per_axis else 'per tensor'}"

    def arrays(self, trial: Trial) -> tuple[Array, Array, Array]:
        """Operands, scale and zero point; per axis each channel is a row, and has one of both."""
        own = BY_NAME[self.source].numpy
        x, scales = trial.bits.copy().view(own), trial.scales.copy().view(own)
        points = trial.zero_points.astype(BY_NAME[self.target].numpy)
        if self.per_axis:
            return x.reshape(scales.size, -1), scales, points
        return x, scales.reshape(()), points.reshape(())

    def results(self, operands: Operands) -> Bits:
        """The results for these operands with their scales and zero points."""
        points = operands.zero_points
        quotients, dtype = self.quotient(operands.bits, operands.scales, self.source)
        if self.fused:
            quotients, points = _fused(operands, self.source), np.zeros_like(points)
        if self.zero_point_inside:
            own = BY_NAME[dtype].numpy
            with np.errstate(all="ignore"):
                sums: Array = quotients.view(own) + points.astype(own)
            quotients, points = sums.view(quotients.dtype), np.zeros_like(points)
        integers = integers_of(_rounded(quotients, dtype, self.rounding), dtype)
        # x86 converts a number that does not fit into 32 bits to -2^31, whose last bits are 0.
        vast = np.abs(integers) >= 1 << 31
        if self.through_int32:
            return saturated(np.where(vast, -1 << 31, integers) + points, self.target)
        if self.wraps:
            return _last_bits(np.where(vast, 0, integers) + points, self.target)
        return saturated(integers + points, self.target)


def _fused(operands: Operands, source: str) -> Bits:
    """The sum x * (1 / scale) + zero point, rounded once: float64 holds the exact product."""
    own = BY_NAME[source].numpy
    with np.errstate(all="ignore"):
        reciprocals = (own.type(1) / operands.scales.view(own)).astype(np.float64)
        sums = operands.bits.view(own).astype(np.float64) * reciprocals + operands.zero_points
        narrowed: Array = sums.astype(own)
    return narrowed.view(operands.bits.dtype)


def _rounded(bits: Bits, dtype: str, rounding: str) -> Bits:
    if rounding == "half_up":
        return half_up(bits, dtype, rounding, exact)
    return rounded(bits, dtype, rounding)


def _last_bits(integers: Integers, target: str) -> Bits:
    return (integers & ((1 << INTEGER_WIDTHS[target]) - 1)).astype(bits_type(target))


@dataclass(frozen=True, slots=True)
class Dequantization:
    """ONNX's DequantizeLinear: integers less their zero points, times scales of ``target``."""

    source: str
    target: str
    rounding: str = "ties_to_even"

    @property
    def name(self) -> str:
        """The name in reports: the types."""
        return f"{self.source} to {self.target}"

    def integers(self, operands: Operands) -> Integers:
        """The operands less their zero points."""
        values = operands.bits.view(BY_NAME[self.source].numpy)
        return values.astype(np.int64) - operands.zero_points

    def results(self, operands: Operands) -> Bits:
        """The products, each rounded once."""
        return dequantized(self.integers(operands), operands.scales, self.target)


How = Cast | Quantization | Dequantization
