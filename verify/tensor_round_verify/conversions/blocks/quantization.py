"""Quantization into blocks, and back, as values: their rules, and the results that they give.

The defaults are right; a deviation changes them. All arithmetic is in float64, and exact but where
a deviation rounds: a product of scales and a middle between two elements has at most 32 bits.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from tensor_round.contract.dtypes import BY_NAME

from ...reference import Bits
from ..patterns import Operands
from ..reference import as_bits
from .formats import (
    E4M3,
    E8M0_TOP,
    FORMATS,
    BlockFormat,
    Codes,
    Doubles,
    Numbers,
    Wide,
    mx_scales,
    nearest,
)

Array = npt.NDArray[Any]
#: The codes of scales, [rows, blocks], and of elements, [rows, elements].
Blocks = tuple[Codes, Codes]

#: The other split of 4 bits, which no format has.
E1M2 = Numbers(2, 1, 7)
#: How amax / 6 is rounded to E4M3 by the rules of scales.
_NV_RULES = {"even": "ties_to_even", "floor": "toward_zero", "ceil": "toward_positive"}


def _narrowed(values: Doubles, kind: str) -> Doubles:
    """Values rounded to a type, if there is one."""
    return values.astype(BY_NAME[kind].numpy).astype(np.float64) if kind else values


def _as_normal(scales: Doubles) -> Doubles:
    """The scales of E4M3, the subnormal ones as if they had the implicit bit."""
    found, one = scales.copy(), 1 << E4M3.fraction_bits
    found[:one] = (1 + np.arange(one) / one) * 2.0**-E4M3.bias
    return found


@dataclass(frozen=True, slots=True)
class _Blocks:
    """A conversion to or from a block format, whose scales are relative to ``tensor_scale``."""

    source: str
    target: str
    rounding: str = "ties_to_even"
    tensor_scale: float = 1.0

    @property
    def format(self) -> BlockFormat:
        """The block format."""
        return FORMATS[self.target if self.target in FORMATS else self.source]

    @property
    def name(self) -> str:
        """The name in reports: the types, and whether there is a scale of the tensor."""
        more = "" if self.tensor_scale == 1 else ", with a tensor scale"
        return f"{self.source} to {self.target}{more}"


@dataclass(frozen=True, slots=True)
class BlockQuantization(_Blocks):
    """A quantization into blocks: of each operand, and of the amax of each block.

    Operands have amax in ``scales``, and the code of the stored scale in ``zero_points``: -1 where
    that scale itself is the result. ``rounding`` is the rule of scales. With ``tensor_scale`` the
    scales of NVFP4 are relative to a float32 of the tensor.
    """

    operator: ClassVar = "block_quantize"
    element_rounding: str = "ties_to_even"
    amax_in: str = ""
    operands_in: str = ""
    #: By what the magnitude of amax is replaced: "largest", the largest with its sign.
    amax_of: str = ""
    least_amax: float = 0.0
    scale_shift: int = 0
    scale_wraps: bool = False
    #: Whether amax is multiplied by 1 / largest in float32.
    by_reciprocal: bool = False
    #: The tensor's scale: "inverted", or "of scales" alone, so that elements are not divided by it.
    tensor: str = ""
    scale_in_float32: bool = False
    #: "normal" if lesser scales are raised to the least normal number, of E8M0 to 2^-126.
    least_stored: str = ""
    least_divisor: str = ""
    #: By what elements are divided: the scale of another rule, or one that is not rounded.
    divisor: str = ""
    quotient: str = "exact"
    saturated: bool = True
    subnormals: str = "kept"
    zeros: str = "kept"
    numbers: Numbers | None = None

    def results(self, operands: Operands) -> Bits:
        """The codes for these operands."""
        given = operands.peers if self.amax_of and operands.peers.size else operands.scales
        amax, stored = self._read(given), operands.zero_points
        scales = self.scales(amax, self.rounding)
        if self.least_stored:
            scales = np.maximum(scales, self.format.normal_scale)
        elements = self._elements(self._read(operands.bits), self._divisors(amax, stored))
        return np.where(stored < 0, scales, elements).astype(np.uint8)

    def values(self, bits: Bits) -> Doubles:
        """The numbers of operands' patterns."""
        return bits.view(BY_NAME[self.source].numpy).astype(np.float64)

    def _read(self, bits: Bits) -> Doubles:
        return _narrowed(self.values(bits), self.operands_in)

    def scales(self, amax: Doubles, rule: str) -> Wide:
        """The codes of the scales of blocks with these largest magnitudes; 0 for that of zeros."""
        fmt = self.format
        some = np.maximum(_narrowed(np.where(amax > 0, amax, 1.0), self.amax_in), self.least_amax)
        largest, tensor_scale = fmt.numbers.largest, self.tensor_scale
        if self.by_reciprocal:
            product = some.astype(np.float32) * (np.float32(1) / np.float32(largest))
            some = product.astype(np.float64) * largest
        if self.tensor == "inverted":
            tensor_scale = 1 / tensor_scale
        if not fmt.is_nv:
            numbers = self.numbers or fmt.numbers
            by_log2, shift = self.scale_in_float32, self.scale_shift
            found = mx_scales(rule, some, numbers, by_log2=by_log2, shift=shift)
            if not self.scale_wraps:
                found = np.clip(found, 0, E8M0_TOP)
        else:
            unit = tensor_scale * largest
            if self.scale_in_float32:
                steps = some.astype(np.float32) / np.float32(largest)
                some, unit = (steps / np.float32(tensor_scale)).astype(np.float64), 1.0
            how = _NV_RULES.get(rule, rule)
            found = nearest(some, np.full(some.shape, unit), fmt.scales, how)
        # A negative code wraps to the last ones.
        return np.where(amax > 0, found & 255, 0)

    def _divisors(self, amax: Doubles, stored: Wide) -> Doubles:
        if self.divisor == "unrounded":
            found: Doubles = amax / self.format.numbers.largest
            return found
        codes = self.scales(amax, self.divisor) if self.divisor else np.maximum(stored, 0)
        if self.least_divisor == "normal":
            codes = np.maximum(codes, self.format.normal_scale)
        tensor_scale = {"inverted": 1 / self.tensor_scale, "of scales": 1.0}.get(
            self.tensor, self.tensor_scale
        )
        scales = self.format.scales
        if self.least_divisor == "as normal":
            scales = _as_normal(scales)
        divisors = scales[np.minimum(codes, scales.size - 1)] * tensor_scale
        return np.where(codes == 0, 1.0, divisors) if self.least_divisor == "one" else divisors

    def _elements(self, values: Doubles, unit: Doubles) -> Codes:
        fmt, numbers = self.format, self.numbers or self.format.numbers
        # Codes beyond the largest keep their last bits; those of FP8 are its NaNs and infinity.
        table = numbers.values(range(numbers.top + 1 if self.saturated else 4 * numbers.top))
        x, unit = np.abs(values), np.where(unit > 0, unit, 1.0)
        if self.quotient != "exact":
            x, unit = self._quotients(x, unit), np.ones(x.shape)
        subnormal = x < numbers.smallest_normal * unit
        if self.subnormals == "halved":
            x = np.where(subnormal, x / 2, x)
        found = nearest(x, unit, table, self.element_rounding)
        if self.subnormals == "flushed":
            found = np.where(found < 1 << numbers.fraction_bits, 0, found)
        if self.subnormals == "truncated":
            found = np.where(subnormal, nearest(x, unit, table, "toward_zero"), found)
        found &= (1 << (fmt.bits - 1)) - 1
        negative = np.signbit(values)
        if self.zeros != "kept":
            is_zero = values == 0 if self.zeros == "negative" else found == 0
            negative = np.where(is_zero, self.zeros == "negative", negative)
        return fmt.signed(found, negative)

    def _quotients(self, x: Doubles, unit: Doubles) -> Doubles:
        """The quotients as they are rounded before they are rounded to elements."""
        if self.quotient in ("float16", "bfloat16"):
            return _narrowed(x / unit, self.quotient)
        one, narrow, by = np.float32(1), x.astype(np.float32), unit.astype(np.float32)
        if self.quotient == "float32":
            return (narrow / by).astype(np.float64)
        reciprocal = one / by
        if self.quotient == "reciprocal by parts":
            tensor = np.float32(self.tensor_scale)
            reciprocal = (one / tensor) / (unit / self.tensor_scale).astype(np.float32)
        return (narrow * reciprocal).astype(np.float64)


@dataclass(frozen=True, slots=True)
class BlockDequantization(_Blocks):
    """The numbers of blocks: ``source`` is their format, ``target`` the type of the results.

    Operands have the codes of elements in ``bits``, and those of their scales in ``scales``.
    """

    operator: ClassVar = "block_dequantize"
    least: str = ""
    #: By what the scales of E8M0 are multiplied.
    factor: float = 1.0
    nan: float = np.nan
    nan_is_next: bool = False
    tensor: str = ""
    scale_in_result: bool = False
    product_in: str = ""
    subnormals: float = 1.0
    zeros: str = "kept"
    numbers: Numbers | None = None

    def results(self, operands: Operands) -> Bits:
        """The patterns of the numbers."""
        fmt = self.format
        values = fmt.decoded(operands.bits, self.numbers, nan_is_next=self.nan_is_next)
        subnormal = np.abs(values) < (self.numbers or fmt.numbers).smallest_normal
        values = np.where(subnormal, values * self.subnormals, values)
        if self.zeros == "positive":
            values += 0.0
        scales = _as_normal(fmt.scales) if self.least == "as normal" else fmt.scales
        units = np.append(scales * self.factor, self.nan)
        if self.least in ("normal", "zero"):
            units[0] = units[1] if self.least == "normal" else 0.0
        units *= 1 / self.tensor_scale if self.tensor == "inverted" else self.tensor_scale
        if self.scale_in_result:
            units = _narrowed(units, self.target)
        found = _narrowed(values * units[operands.scales], self.product_in)
        return as_bits(found, self.target)


BlockHow = BlockQuantization | BlockDequantization
