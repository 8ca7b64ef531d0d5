"""The block formats: the values of their elements and of their scales, by code.

All arithmetic on values is float64, and exact: a scale has 4 significant bits at most, a scale of
a tensor 24, an element 8. So no result is rounded, and the operations' order does not matter.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

from tensor_round.contract.differences.document import Value

Doubles = npt.NDArray[np.float64]
Codes = npt.NDArray[np.uint8]
#: Codes while they are computed: wide enough for those beyond a format's last.
Wide = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Numbers:
    """A table of numbers >= 0: sign-less floats, or with ``fraction_bits`` alone integers."""

    fraction_bits: int
    bias: int
    #: The code of the largest.
    top: int

    def values(self, codes: Wide | range) -> Doubles:
        """The numbers that codes stand for; codes above ``top`` go on in the same way."""
        code = np.asarray(codes, np.int64)
        field, fraction = code >> self.fraction_bits, code & ((1 << self.fraction_bits) - 1)
        significand = fraction + (np.minimum(field, 1) << self.fraction_bits)
        exponent = np.maximum(field, 1) - self.bias - self.fraction_bits
        found: Doubles = np.ldexp(significand.astype(np.float64), exponent.astype(np.int32))
        return found

    @property
    def table(self) -> Doubles:
        """Every number, by its code."""
        return self.values(range(self.top + 1))

    @property
    def largest(self) -> float:
        """The largest number."""
        return float(self.table[-1])

    @property
    def precision(self) -> int:
        """The significant bits of a normal number, of an integer those of the largest."""
        return min(self.fraction_bits, 6) + 1

    @property
    def smallest_normal(self) -> float:
        """The least number that is not subnormal."""
        return float(self.values(range(1 << self.fraction_bits, (1 << self.fraction_bits) + 1))[0])


#: Scales of the MX formats: 2^-127 to 2^127. Code 255 is NaN.
E8M0_BIAS, E8M0_TOP = 127, 254
#: Scales of NVFP4, and elements of MXFP8. Code 0x7f is NaN.
E4M3 = Numbers(3, 7, 0x7E)
E2M1 = Numbers(1, 1, 7)


@dataclass(frozen=True, slots=True)
class BlockFormat:
    """A block format: ``size`` elements of ``bits`` bits share a scale, E8M0 or E4M3."""

    name: str
    bits: int
    numbers: Numbers
    size: int = 32

    @property
    def scales(self) -> Doubles:
        """Every finite scale, by its code."""
        if self.is_nv:
            return E4M3.table
        return np.ldexp(1.0, np.arange(E8M0_TOP + 1) - E8M0_BIAS)

    @property
    def is_nv(self) -> bool:
        """Whether scales are E4M3."""
        return self.size == 16

    @property
    def normal_scale(self) -> int:
        """The code of the least scale that is 2^-126, or a normal number of E4M3."""
        return 1 << E4M3.fraction_bits if self.is_nv else 1

    @property
    def rules(self) -> tuple[str, ...]:
        """The rules of scales that may be asked for, the specification's first."""
        return ("even",) if self.is_nv else RULES

    @property
    def is_integer(self) -> bool:
        """Whether a negative element is a two's complement, and zero has no sign."""
        return self.name == "mxint8"

    def signed(self, magnitudes: Wide, negative: npt.NDArray[np.bool_]) -> Codes:
        """The elements' codes, from codes without a sign."""
        if self.is_integer:
            return np.where(negative, -magnitudes, magnitudes).astype(np.uint8)
        sign = 1 << (self.bits - 1)
        return np.where(negative, magnitudes | sign, magnitudes).astype(np.uint8)

    def scale_value(self, code: int) -> Value:
        """The scale of a code, as its value and its bits."""
        number = self.scales[code] if code < self.scales.size else np.nan
        fraction, exponent = np.frexp(number)
        text = f"2^{exponent - 1}" if fraction == 0.5 else f"{number:.9g}"
        return Value(text, f"0x{code:02x}")

    def element_value(self, code: int) -> Value:
        """The element of a code, as its value and its bits."""
        return Value(f"{self.decoded(np.array([code], np.uint8))[0]:.9g}", f"0x{code:02x}")

    def decoded(
        self, codes: Codes, numbers: Numbers | None = None, *, nan_is_next: bool = False
    ) -> Doubles:
        """The numbers that elements' codes stand for, infinities and NaNs too.

        ``nan_is_next`` is a deviation: a NaN stands for the number that would be next.
        """
        if self.is_integer:
            return codes.view(np.int8).astype(np.float64) / 64
        sign, table = 1 << (self.bits - 1), (numbers or self.numbers).table
        # E5M2 has infinity and NaNs; E4M3 has one NaN.
        beyond = [np.nan] * (sign - table.size)
        if len(beyond) > 1:
            beyond[0] = np.inf
        if nan_is_next:
            beyond = list(self.numbers.values(range(table.size, sign)))
        values: Doubles = np.append(table, beyond)[codes & (sign - 1)]
        return np.where(codes & sign > 0, -values, values)


#: The rules of MX scales, by what is rounded up to a power of two: nothing (OCP MX v1.0, 6.3),
#: amax, amax by the largest element, or amax after rounding to the element's fraction bits.
RULES = ("floor", "ceil", "rceil", "even")
FormatName = Literal[
    "mxfp8_e4m3", "mxfp8_e5m2", "mxfp6_e2m3", "mxfp6_e3m2", "mxfp4_e2m1", "mxint8", "nvfp4"
]
FORMATS = {
    row.name: row
    for row in (
        BlockFormat("mxfp8_e4m3", 8, E4M3),
        BlockFormat("mxfp8_e5m2", 8, Numbers(2, 15, 0x7B)),
        BlockFormat("mxfp6_e2m3", 6, Numbers(3, 1, 0x1F)),
        BlockFormat("mxfp6_e3m2", 6, Numbers(2, 3, 0x1F)),
        BlockFormat("mxfp4_e2m1", 4, E2M1),
        BlockFormat("mxint8", 8, Numbers(7, 0, 0x7F)),
        BlockFormat("nvfp4", 4, E2M1, 16),
    )
}


def nearest(x: Doubles, unit: Doubles, table: Doubles, rounding: str) -> Wide:
    """The codes of ``x / unit`` in a table, by comparisons with products, which are exact.

    ``x`` is >= 0 and ``unit`` > 0. Numbers beyond the table become its last.
    """
    low = np.maximum(np.searchsorted(table, x / unit, "right") - 1, 0)
    # The quotient may have been rounded up to a number of the table.
    low -= (low > 0) & (table[low] * unit > x)
    high = np.minimum(low + 1, table.size - 1)
    middle = (table[low] + table[high]) / 2 * unit
    if rounding == "toward_zero":
        return low
    if rounding == "toward_positive":
        return np.where(x > table[low] * unit, high, low)
    ties_up = {"ties_to_even": low % 2 == 1, "ties_to_away": True, "ties_to_zero": False}
    up = (x > middle) | ((x == middle) & ties_up[rounding])
    found: Wide = np.where(up, high, low)
    return found


def mx_scales(
    rule: str, amax: Doubles, numbers: Numbers, *, by_log2: bool = False, shift: int = 0
) -> Wide:
    """The E8M0 codes of scales by a rule, from the largest magnitudes of blocks, which are > 0.

    Codes may lie beyond the ends of E8M0. ``by_log2`` is the deviation of a logarithm in float32,
    which is rounded; ``shift`` is added. Further rules are deviations: of amax by the largest
    element ``rfloor`` rounds down, ``rnearest`` the logarithm to nearest, and ``rfrexp`` takes the
    exponent of a fraction in [0.5, 1); ``own`` takes the exponent of amax itself.
    """
    last = np.frexp(numbers.largest)[1] - 1
    if rule[0] == "r":  # a quotient is a power of two only if it is exact
        amax, last = amax / numbers.largest, 0
    fraction, exponent = np.frexp(amax)
    if by_log2:
        logarithm = np.log2(amax.astype(np.float32))
        whole = np.ceil(logarithm) if "ceil" in rule else np.floor(logarithm)
        fraction, exponent = np.full(amax.shape, 0.5), whole.astype(np.intc) + 1
    if rule == "own":
        last = 0
    if rule == "rfrexp":
        exponent = exponent + 1
    if rule in ("ceil", "rceil"):
        exponent = exponent + (fraction > 0.5)
    if rule == "rnearest":
        exponent = exponent + (fraction > 0.5**0.5)
    if rule == "even":
        rounded = np.rint(np.ldexp(fraction, numbers.precision))
        exponent = exponent + (rounded == 1 << numbers.precision)
    found: Wide = exponent.astype(np.int64) - 1 - last + E8M0_BIAS + shift
    return found
