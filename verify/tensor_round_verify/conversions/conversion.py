"""A conversion as a value: its types, its rules, and the results that it gives for operands."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from tensor_round.contract.dtypes import BY_NAME

from ..faulty_kernels import FORMULAS, TIES, as_tf32, exact, flushed, formula
from ..patterns import aligned
from ..reference import (
    FLOAT_FORMATS,
    INTEGER_WIDTHS,
    Bits,
    Decision,
    bits_type,
    is_nan,
)
from .linear import (
    coded,
    dequantized,
    difference,
    divided,
    multiplied,
    nearest_integers,
    of_integers,
    quotient_type,
)
from .patterns import Operands, Trial
from .reference import (
    INTEGER_RULES,
    UNSIGNED_RULES,
    Extended,
    Integers,
    cast,
    ends,
    is_infinite,
    read,
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

    operator: ClassVar = "cast"
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
            given = flushed(given, FLOAT_FORMATS[source])
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
            found = flushed(found, FLOAT_FORMATS[self.target])
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


#: A function of (operands, scales, their types, the quotients' type or "" for exact ones) that
#: returns the quotients and their type.
Quotient = Callable[[Bits, Bits, tuple[str, str], str], tuple[Bits, str]]


def computed(compute: Callable[[Array, Array], Array], wide: str = "") -> Quotient:
    """The quotients by the processor, of operands and scales in the quotients' type or a wider one.

    Exact ones, which no processor has, are computed in float32.
    """

    def quotient(bits: Bits, scales: Bits, types: tuple[str, str], dtype: str) -> tuple[Bits, str]:
        kind = wide or dtype or "float32"
        with np.errstate(all="ignore"):
            x, by = (
                each.view(BY_NAME[own].numpy).astype(BY_NAME[kind].numpy)
                for each, own in zip((bits, scales), types, strict=True)
            )
            return compute(x, by).view(bits_type(kind)), kind

    return quotient


@dataclass(frozen=True, slots=True)
class _Linear:
    """A linear quantization, or the way back."""

    source: str
    target: str
    per_axis: bool = False
    #: Whether each block along an axis has a scale and a zero point.
    blocked: bool = False
    #: The type of the scales, and that of quotients, where they are not those by default.
    scale: str = ""
    precision: str = ""
    scale_in: str = ""
    first_scale: bool = False
    flushed_scales: bool = False

    @property
    def name(self) -> str:
        """The name in reports: the types, and how scales are laid out."""
        layout = "in blocks" if self.blocked else "per axis" if self.per_axis else "per tensor"
        scales = f", {self.scale} scales" if self.scale else ""
        quotients = f", {self.precision} quotients" if self.precision else ""
        return f"{self.named}, {layout}{scales}{quotients}"

    @property
    def named(self) -> str:
        """The types."""
        return f"{self.source} to {self.target}"

    @property
    def codes(self) -> str:
        """The type that is quantized to, and that of zero points."""
        return self.target

    @property
    def scale_type(self) -> str:
        """The type of the scales: by default that of the floats, beside integers float32."""
        return self.scale or (self.source if self.source in FLOAT_FORMATS else "float32")

    @property
    def mixed(self) -> bool:
        """Whether the scales or the quotients have another type than by default."""
        return bool(self.scale or self.precision)

    def arrays(self, trial: Trial) -> tuple[Array, Array, Array]:
        """Operands, scales and zero points.

        Per axis each channel is a row, and has one of both; in blocks a row has two.
        """
        x = trial.view
        if x is None:
            x = aligned(trial.bits).view(BY_NAME[self.source].numpy)
        scales = trial.scales.copy().view(BY_NAME[self.scale_type].numpy)
        points = trial.zero_points.astype(BY_NAME[self.codes].numpy)
        if not (self.per_axis or self.blocked):
            return x, scales.reshape(()), points.reshape(())
        if trial.view is None:
            x = x.reshape(scales.size // (2 if self.blocked else 1), -1)
            if self.blocked:
                scales, points = scales.reshape(-1, 2), points.reshape(-1, 2)
        return x, scales, points

    def _scales(self, operands: Operands) -> tuple[Bits, str]:
        """The scales and their type, with the deviations that change them."""
        has_peers, real = self.first_scale and operands.peers.size, self.scale_type
        scales = operands.peers if has_peers else operands.scales
        other = self.scale_in
        if self.flushed_scales:
            other = real if FLOAT_FORMATS[real].has_zero else "float32"
        if not other:
            return scales, real
        there = cast(scales, real, other, "ties_to_even", saturate=False)
        return (flushed(there, FLOAT_FORMATS[other]) if self.flushed_scales else there), other

    def _points(self, operands: Operands) -> Bits:
        """The patterns of the zero points."""
        points: Array = operands.zero_points.astype(BY_NAME[self.codes].numpy)
        return points.view(bits_type(self.codes))

    def options(self, trial: Trial) -> dict[str, int]:
        """The axis of the scales, and the size of blocks."""
        if self.blocked and trial.view is None:
            return {"axis": 1, "block_size": trial.bits.size // trial.scales.size}
        blocks = {"block_size": trial.block_size} if self.blocked else {}
        return {"axis": trial.axis, **blocks} if self.per_axis or self.blocked else {}


@dataclass(frozen=True, slots=True)
class Quantization(_Linear):
    """ONNX's QuantizeLinear and its rules. The defaults are right; a deviation changes them."""

    operator: ClassVar = "quantize_linear"
    #: Whether numbers beyond a float type become its largest; integers always saturate.
    saturate: bool = True
    rounding: str = "ties_to_even"
    quotient: Quotient = field(default=divided, repr=False)
    magnitudes: bool = False
    zero_point_inside: bool = False
    zero_point_forgotten: bool = False
    #: How the sum is kept in range, if the quotient is clamped before the zero point is added.
    clamped_first: str = ""
    fused: bool = False
    wraps: bool = False
    through_int32: bool = False
    #: Whether the least integer of a signed type is left out.
    narrow: bool = False

    @property
    def named(self) -> str:
        """The types, and whether a result may be beyond the largest."""
        return f"{self.source} to {self.target}{'' if self.saturate else ', not saturated'}"

    def results(self, operands: Operands) -> Bits:
        """The results for these operands with their scales and zero points."""
        return self.quantized(operands)

    def quantized(self, operands: Operands) -> Bits:
        """The codes."""
        if self.zero_point_forgotten:
            operands = replace(operands, zero_points=np.zeros_like(operands.zero_points))
        points = operands.zero_points
        scales, kind = self._scales(operands)
        own = quotient_type(self.scale_type, self.precision)
        quotients, dtype = self.quotient(operands.bits, scales, (self.source, kind), own)
        if self.fused:
            types = self.source, self.scale_type
            quotients, points = _fused(operands, types), np.zeros_like(points)
        if self.magnitudes:
            quotients = quotients & quotients.dtype.type(FLOAT_FORMATS[dtype].signless)
        if self.zero_point_inside:
            floats = BY_NAME[dtype].numpy
            with np.errstate(all="ignore"):
                sums: Array = quotients.view(floats) + points.astype(floats)
            quotients, points = sums.view(quotients.dtype), np.zeros_like(points)
        decide = DECISIONS.get(self.rounding, self.rounding)
        name = self.rounding.replace("q", "x")  # of the quotient
        if name in FORMULAS:
            quotients, decide = formula(name)(quotients, dtype, "", exact), "ties_to_even"
        values = read(quotients, dtype)
        if self.codes in FLOAT_FORMATS:
            zero_points = self._points(operands)
            return coded(values, zero_points, self.codes, decide, saturate=self.saturate)
        # x86 converts a NaN, such as the quotient by a scale that is lost, to the least integer.
        is_right = self.quotient is divided and not (self.scale_in or self.flushed_scales)
        integers = nearest_integers(values, decide)
        integers = integers if is_right else np.where(values.nan, -1 << 40, integers)
        least, most = ends(self.codes)
        if self.clamped_first:
            integers = np.clip(integers, least, most)
        # x86 converts a number that does not fit into 32 bits to -2^31, whose last bits are 0.
        vast = np.abs(integers) >= 1 << 31
        if self.through_int32:
            return saturated(np.where(vast, -1 << 31, integers) + points, self.codes)
        if self.wraps or self.clamped_first == "wraps":
            return _last_bits(np.where(vast, 0, integers) + points, self.codes)
        return saturated(np.maximum(integers + points, least + self.narrow), self.codes)


def _fused(operands: Operands, types: tuple[str, str]) -> Bits:
    """The sum x * (1 / scale) + zero point, rounded once: float64 holds the exact product."""
    x, scales = (
        bits.view(BY_NAME[dtype].numpy)
        for bits, dtype in zip((operands.bits, operands.scales), types, strict=True)
    )
    with np.errstate(all="ignore"):
        reciprocals = (scales.dtype.type(1) / scales).astype(np.float64)
        sums = x.astype(np.float64) * reciprocals + operands.zero_points
        narrowed: Array = sums.astype(scales.dtype)
    return narrowed.view(operands.scales.dtype)


def _last_bits(integers: Integers, target: str) -> Bits:
    return (integers & ((1 << INTEGER_WIDTHS[target]) - 1)).astype(bits_type(target))


@dataclass(frozen=True, slots=True)
class FakeQuantization(Quantization):
    """A quantization to the type ``through``, and the way back; the result has the source's type.

    The defaults are right; a deviation changes them.
    """

    operator: ClassVar = "fake_quantize"
    through: str = "int8"

    @property
    def named(self) -> str:
        """The types, with the one on the way."""
        return f"{self.source} through {self.through}"

    @property
    def codes(self) -> str:
        """The type on the way."""
        return self.through

    def results(self, operands: Operands) -> Bits:
        """The numbers that the codes stand for."""
        scales, kind = self._scales(operands)
        codes = self.quantized(operands)
        types = self.through, kind, self.target
        return dequantized(codes, scales, self._points(operands), types)


@dataclass(frozen=True, slots=True)
class Dequantization(_Linear):
    """ONNX's DequantizeLinear: codes less their zero points, times scales of ``target``.

    The defaults are right; a deviation changes them.
    """

    operator: ClassVar = "dequantize_linear"
    rounding: str = "ties_to_even"
    wraps: bool = False
    #: The zero point: "forgotten", or "scaled" and subtracted from the product.
    zero_point: str = ""
    product_in: str = ""
    flushed: bool = False

    @property
    def codes(self) -> str:
        """The type of the operands, and that of zero points."""
        return self.source

    @property
    def scale_type(self) -> str:
        """The type of the scales: by default that of the results."""
        return self.scale or self.target

    def differences(self, operands: Operands) -> Extended:
        """The operands less their zero points."""
        points = None if self.zero_point else self._points(operands)
        found = difference(operands.bits, points, self.source)
        if not self.wraps:
            return found
        wrapped = nearest_integers(found).astype(BY_NAME[self.source].numpy)
        return of_integers(wrapped.astype(np.int64))

    def results(self, operands: Operands) -> Bits:
        """The products, each rounded once."""
        fmt, (scales, kind) = FLOAT_FORMATS[self.target], self._scales(operands)
        wider = self.product_in if self.product_in == "float32" else ""
        types = kind, wider or self.target
        found = multiplied(self.differences(operands), scales, types)
        if wider:
            return cast(found, wider, self.target, "ties_to_even", saturate=False)
        own = BY_NAME[self.target].numpy
        with np.errstate(all="ignore"):
            if self.zero_point == "scaled":
                points = difference(self._points(operands), None, self.source)
                less = multiplied(points, scales, types).view(own)
                less_of: Array = found.view(own) - less
                found = less_of.view(found.dtype)
        if self.product_in:
            there = cast(found, self.target, self.product_in, "ties_to_even", saturate=False)
            found = cast(there, self.product_in, self.target, "ties_to_even", saturate=False)
        return flushed(found, fmt) if self.flushed else found


Linear = Quantization | Dequantization
How = Cast | Linear
