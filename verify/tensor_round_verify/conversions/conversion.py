"""A conversion as a value: its types, its rules, and the results that it gives for operands."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from tensor_round.contract.dtypes import BY_NAME

from ..faulty_kernels import FORMULAS, TIES, as_tf32, exact, formula
from ..patterns import aligned
from ..reference import (
    FLOAT_FORMATS,
    INTEGER_WIDTHS,
    Bits,
    Decision,
    Format,
    bits_type,
    is_nan,
    rounded,
)
from .patterns import Operands, Trial
from .reference import (
    INTEGER_RULES,
    UNSIGNED_RULES,
    Integers,
    as_bits,
    cast,
    dequantized,
    divided,
    ends,
    integers_of,
    is_infinite,
    saturated,
)

Array = npt.NDArray[Any]


#: Decisions that IEEE 754 does not have. ``truncated`` makes numbers beyond the largest infinite.
DECISIONS: dict[str, Decision] = {
    **TIES,
    "truncated": lambda _, __, ___, negative: np.zeros_like(negative),
}


@dataclass(frozen=True, slots=True)
class Cast:
    """A cast and its rules. The defaults are right; a deviation changes them."""

    source: str
    target: str
    rounding: str
    saturate: bool
    #: The rule for what specifications leave open; by default any one of :attr:`rules` is right.
    rule: str = ""
    #: A type that operands pass through; TF32, or the high word of a float64.
    via: str = ""
    half_for_odd: bool = False
    carry_ored: bool = False
    infinities_saturate: bool | None = None
    flushed: str = ""
    zero_signed: bool = True
    #: What becomes of NaNs: their bits "cut", or "carried" as those of numbers; of integers an end.
    nans: str = ""
    #: A type, and the type whose patterns are read or written in its place.
    mistaken: tuple[str, str] = ("", "")

    @property
    def name(self) -> str:
        """The name in reports: the types, and whether the cast saturates."""
        return f"{self.source} to {self.target}{', saturated' if self.saturate else ''}"

    @property
    def usual(self) -> str:
        """The direction of casts that have one."""
        to_integer = self.source in FLOAT_FORMATS and self.target in INTEGER_WIDTHS
        return "toward_zero" if to_integer else "ties_to_even"

    @property
    def usually_saturates(self) -> bool:
        """Whether casts saturate that are not asked to: those to 8-bit floats do in ONNX."""
        return self.target.startswith("float8")

    @property
    def rules(self) -> tuple[str, ...]:
        """The rules that are known for what specifications leave open; none if they leave nothing.

        That are NaNs and numbers beyond integers, and negative numbers without a sign.
        """
        if self.source in FLOAT_FORMATS and self.target in INTEGER_WIDTHS:
            return INTEGER_RULES
        to, own = FLOAT_FORMATS.get(self.target), FLOAT_FORMATS.get(self.source)
        has_sign = own.has_zero if own else self.source[0] == "i"
        return UNSIGNED_RULES if to and not to.has_zero and has_sign else ()

    def results(self, operands: Operands) -> Bits:
        """The results for these operands."""
        bits = operands.bits
        given, source = self._given(bits)
        if self.flushed == "operands":
            given = _flush(given, FLOAT_FORMATS[source])
        if self.half_for_odd:
            given = given + ((given & np.uint32(0x10000)) >> np.uint32(1))
            found = (given >> np.uint32(16)).astype(np.uint16)
        else:
            found = self._cast(given, source)
        if self.infinities_saturate is not None:
            saturate = self.infinities_saturate
            other = cast(bits, self.source, self.target, "ties_to_even", saturate=saturate)
            found = np.where(is_infinite(self.source, bits), other, found)
        if self.flushed == "results":
            found = _flush(found, FLOAT_FORMATS[self.target])
        if self.flushed == "before":
            fmt = FLOAT_FORMATS[self.target]
            toward = cast(bits, self.source, self.target, "toward_zero", saturate=True)
            is_small = (toward & toward.dtype.type(fmt.signless)) < 1 << fmt.fraction_bits
            found = np.where(is_small, toward & toward.dtype.type(fmt.sign_bit), found)
        if not self.zero_signed:
            is_zero = found == FLOAT_FORMATS[self.target].sign_bit
            found = np.where(is_zero, found.dtype.type(0), found)
        if self.nans:
            found = np.where(is_nan(self.source, bits), self._nans(bits), found)
        return found

    def _given(self, bits: Bits) -> tuple[Bits, str]:
        """The operands as the cast gets them, and their type."""
        if self.via == "TF32":
            return as_tf32(bits), self.source
        if self.via == "high word":
            return bits & ~np.uint64(0xFFFFFFFF), self.source
        source = self._taken(self.source)
        if self.via in INTEGER_WIDTHS:
            decide = DECISIONS.get(self.rounding, self.rounding)
            return cast(bits, source, self.via, decide, saturate=False, rule="x86"), self.via
        if self.via:
            return cast(bits, source, self.via, "ties_to_even", saturate=False), self.via
        return bits, source

    def _taken(self, dtype: str) -> str:
        return self.mistaken[1] if dtype == self.mistaken[0] else dtype

    def _cast(self, bits: Bits, source: str) -> Bits:
        decide, target = DECISIONS.get(self.rounding, self.rounding), self._taken(self.target)
        found = cast(bits, source, target, decide, saturate=self.saturate, rule=self.rule)
        if self.carry_ored:
            cut = cast(bits, source, target, DECISIONS["truncated"], saturate=self.saturate)
            last = found.dtype.type(1 << FLOAT_FORMATS[target].fraction_bits)
            # The significand's carry falls on a bit of the exponent that is set already.
            carried = (found != cut) & (found & (last - last.dtype.type(1)) == 0) & (cut & last > 0)
            found = np.where(carried, cut & ~(last - last.dtype.type(1)), found)
        return found

    def _nans(self, bits: Bits) -> Bits:
        if self.target in INTEGER_WIDTHS:
            least, most = ends(self.target)
            known = {"zero": 0, "least": least, "greatest": most}
            pattern = known[self.nans] % (1 << INTEGER_WIDTHS[self.target])
            return np.full(bits.shape, pattern, bits_type(self.target))
        own, fmt = FLOAT_FORMATS[self.source], FLOAT_FORMATS[self.target]
        shift = bits.dtype.type(own.fraction_bits - fmt.fraction_bits)
        if self.nans == "carried":
            half = (bits.dtype.type(1) << shift) // bits.dtype.type(2) - bits.dtype.type(1)
            bits = bits + half + (bits >> shift & bits.dtype.type(1))
        payload = (bits >> shift) & bits.dtype.type((1 << fmt.fraction_bits) - 1)
        if self.nans == "carried":
            found = bits >> shift
        else:
            negative = (bits >= own.sign_bit) * bits.dtype.type(fmt.sign_bit)
            found = negative | bits.dtype.type(fmt.infinity) | payload
        narrow: Bits = found.astype(bits_type(self.target))
        return narrow


def _flush(bits: Bits, fmt: Format) -> Bits:
    sign = bits & bits.dtype.type(fmt.sign_bit)
    return np.where((bits ^ sign) < 1 << fmt.fraction_bits, sign, bits)


#: A function of (operands, scales, type) that returns the quotients and their type.
Quotient = Callable[[Bits, Bits, str], tuple[Bits, str]]


def _divided(bits: Bits, scales: Bits, dtype: str) -> tuple[Bits, str]:
    return divided(bits, scales, dtype), dtype


def computed(compute: Callable[[Array, Array], Array], wide: str = "") -> Quotient:
    """The quotients by the processor, of operands and scales in their own type or a wider one."""

    def quotient(bits: Bits, scales: Bits, dtype: str) -> tuple[Bits, str]:
        own, kind = BY_NAME[dtype].numpy, wide or dtype
        with np.errstate(all="ignore"):
            x, by = (each.view(own).astype(BY_NAME[kind].numpy) for each in (bits, scales))
            return compute(x, by).view(bits_type(kind)), kind

    return quotient


@dataclass(frozen=True, slots=True)
class _Linear:
    """A linear quantization, or the way back; its scales have the type of its floats."""

    source: str
    target: str
    per_axis: bool = False
    #: Whether each block along an axis has a scale and a zero point.
    blocked: bool = False
    scale_in: str = ""
    first_scale: bool = False

    @property
    def name(self) -> str:
        """The name in reports: the types, and how scales are laid out."""
        layout = "in blocks" if self.blocked else "per axis" if self.per_axis else "per tensor"
        return f"{self.source} to {self.target}, {layout}"

    @property
    def _types(self) -> tuple[str, str]:
        """The float and the integer type."""
        some = self.source, self.target
        return some if self.source in FLOAT_FORMATS else some[::-1]

    def arrays(self, trial: Trial) -> tuple[Array, Array, Array]:
        """Operands, scales and zero points.

        Per axis each channel is a row, and has one of both; in blocks a row has two.
        """
        real, integer = self._types
        x = trial.view
        if x is None:
            x = aligned(trial.bits).view(BY_NAME[self.source].numpy)
        scales = trial.scales.copy().view(BY_NAME[real].numpy)
        points = trial.zero_points.astype(BY_NAME[integer].numpy)
        if not (self.per_axis or self.blocked):
            return x, scales.reshape(()), points.reshape(())
        if trial.view is None:
            x = x.reshape(scales.size // (2 if self.blocked else 1), -1)
        if self.blocked:
            scales, points = scales.reshape(-1, 2), points.reshape(-1, 2)
        return x, scales, points

    def _scales(self, operands: Operands, real: str) -> Bits:
        """The scales, with the deviations that change them."""
        has_peers = self.first_scale and operands.peers.size
        scales = operands.peers if has_peers else operands.scales
        if self.scale_in:
            there = cast(scales, real, self.scale_in, "ties_to_even", saturate=False)
            scales = cast(there, self.scale_in, real, "ties_to_even", saturate=False)
        return scales

    def options(self, trial: Trial) -> dict[str, int]:
        """The axis of the scales, and the size of blocks."""
        if self.blocked:
            return {"axis": 1, "block_size": trial.bits.size // trial.scales.size}
        return {"axis": trial.axis} if self.per_axis else {}


@dataclass(frozen=True, slots=True)
class Quantization(_Linear):
    """A linear quantization and its rules. The defaults are right; a deviation changes them."""

    rounding: str = "ties_to_even"
    quotient: Quotient = field(default=_divided, repr=False)
    magnitudes: bool = False
    zero_point_inside: bool = False
    #: How the sum is kept in range, if the quotient is clamped before the zero point is added.
    clamped_first: str = ""
    fused: bool = False
    wraps: bool = False
    through_int32: bool = False
    #: Whether the least integer of a signed type is left out.
    narrow: bool = False

    def results(self, operands: Operands) -> Bits:
        """The results for these operands with their scales and zero points."""
        points, scales = operands.zero_points, self._scales(operands, self.source)
        quotients, dtype = self.quotient(operands.bits, scales, self.source)
        if self.fused:
            quotients, points = _fused(operands, self.source), np.zeros_like(points)
        if self.magnitudes:
            quotients = quotients & quotients.dtype.type(FLOAT_FORMATS[dtype].signless)
        if self.zero_point_inside:
            own = BY_NAME[dtype].numpy
            with np.errstate(all="ignore"):
                sums: Array = quotients.view(own) + points.astype(own)
            quotients, points = sums.view(quotients.dtype), np.zeros_like(points)
        integers = integers_of(_rounded(quotients, dtype, self.rounding), dtype)
        # x86 converts a NaN, the quotient by a scale that is lost, to the least integer.
        integers = np.where(is_nan(dtype, quotients), -1 << 40, integers)
        least, most = ends(self.target)
        if self.clamped_first:
            integers = np.clip(integers, least, most)
        # x86 converts a number that does not fit into 32 bits to -2^31, whose last bits are 0.
        vast = np.abs(integers) >= 1 << 31
        if self.through_int32:
            return saturated(np.where(vast, -1 << 31, integers) + points, self.target)
        if self.wraps or self.clamped_first == "wraps":
            return _last_bits(np.where(vast, 0, integers) + points, self.target)
        return saturated(np.maximum(integers + points, least + self.narrow), self.target)


def _fused(operands: Operands, source: str) -> Bits:
    """The sum x * (1 / scale) + zero point, rounded once: float64 holds the exact product."""
    own = BY_NAME[source].numpy
    with np.errstate(all="ignore"):
        reciprocals = (own.type(1) / operands.scales.view(own)).astype(np.float64)
        sums = operands.bits.view(own).astype(np.float64) * reciprocals + operands.zero_points
        narrowed: Array = sums.astype(own)
    return narrowed.view(operands.bits.dtype)


def _rounded(bits: Bits, dtype: str, rounding: str) -> Bits:
    name = rounding.replace("q", "x")  # of the quotient
    if name in FORMULAS:
        return formula(name)(bits, dtype, "", exact)
    return rounded(bits, dtype, DECISIONS.get(rounding, rounding))


def _last_bits(integers: Integers, target: str) -> Bits:
    return (integers & ((1 << INTEGER_WIDTHS[target]) - 1)).astype(bits_type(target))


@dataclass(frozen=True, slots=True)
class Dequantization(_Linear):
    """ONNX's DequantizeLinear: integers less their zero points, times scales of ``target``.

    The defaults are right; a deviation changes them.
    """

    rounding: str = "ties_to_even"
    wraps: bool = False
    #: The zero point: "forgotten", or "scaled" and subtracted from the product.
    zero_point: str = ""
    product_in: str = ""
    flushed: bool = False

    def integers(self, operands: Operands) -> Integers:
        """The operands less their zero points."""
        values = operands.bits.view(BY_NAME[self.source].numpy).astype(np.int64)
        if self.zero_point:
            return values
        found: Integers = values - operands.zero_points
        return found.astype(BY_NAME[self.source].numpy).astype(np.int64) if self.wraps else found

    def results(self, operands: Operands) -> Bits:
        """The products, each rounded once."""
        fmt, scales = FLOAT_FORMATS[self.target], self._scales(operands, self.target)
        found = dequantized(self.integers(operands), scales, self.target)
        own = BY_NAME[self.target].numpy
        with np.errstate(all="ignore"):
            if self.scale_in:  # it may be lost
                products = self.integers(operands) * scales.view(own).astype(np.float64)
                found = as_bits(products, self.target)
            if self.zero_point == "scaled":
                less = dequantized(operands.zero_points, scales, self.target).view(own)
                difference: Array = found.view(own) - less
                found = difference.view(found.dtype)
        if self.product_in:
            there = cast(found, self.target, self.product_in, "ties_to_even", saturate=False)
            found = cast(there, self.product_in, self.target, "ties_to_even", saturate=False)
        return _flush(found, fmt) if self.flushed else found


How = Cast | Quantization | Dequantization
