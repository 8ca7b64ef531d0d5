"""What a call does to each element: the functions that every dialect's operators mean.

A function is a value. With the types of a call's input and output it is all that a kernel is
chosen by; the engine, the memory budget and the transports need no more of it than
:class:`Function` has.
"""

from __future__ import annotations

import abc
from dataclasses import dataclass

from .dtypes import DType
from .rounding import Rounding


@dataclass(frozen=True, slots=True)
class Function(abc.ABC):
    """A function of one element, rounded in the direction ``rounding``."""

    rounding: Rounding

    @abc.abstractmethod
    def is_copy(self, source: DType, target: DType) -> bool:
        """Whether each element's bits are the result, so that nothing is computed."""


@dataclass(frozen=True, slots=True)
class RoundToIntegral(Function):
    """roundToIntegral of IEEE 754-2019, section 5.9, in the operand's own type.

    A zero result has the operand's sign. Infinities and NaNs are returned bit for bit.
    """

    def is_copy(self, source: DType, target: DType) -> bool:
        """Integers are integral values already."""
        return not source.is_float


@dataclass(frozen=True, slots=True)
class Convert(Function):
    """Conversion to the output's type: IEEE 754-2019, section 5.4, and what it leaves open.

    Float to float is rounded once in the direction. A result beyond the largest number is
    infinity, or the largest number if the direction is toward it (section 7.4); without infinities
    the target's NaN, and without a NaN the largest number. With ``saturates`` it is the largest
    number of that sign, for infinities too. A NaN becomes the target's quiet NaN with the
    operand's sign bit and no payload; without one, the largest number of that sign. A zero keeps
    its sign if the target has a -0. Float to integer is rounded in the direction, beyond the range
    it is the nearest end, and NaN is 0. Integer to float is rounded in the direction. Integer to
    integer keeps the low bits, or with ``saturates`` is the nearest end.

    ``float8_e8m0fnu`` has no sign and no zero: a negative number and a NaN become its NaN. What is
    below its least number becomes that if it is rounded ``toward_positive``, or ``saturates``, else
    NaN, as ONNX has it; a zero of either sign becomes it if the function ``saturates``, else NaN. A
    tie goes to the larger power of two, since there is no even one.
    """

    saturates: bool = False

    @classmethod
    def between(
        cls, source: DType, target: DType, rounding: Rounding | None = None, saturates: bool = False
    ) -> Convert:
        """The conversion between two types; without a direction that of all dialects.

        It is toward zero from a float to an integer, else ties to even.
        """
        if rounding is None:
            to_integer = source.is_float and not target.is_float
            rounding = Rounding.TOWARD_ZERO if to_integer else Rounding.TIES_TO_EVEN
        return cls(rounding, saturates)

    def is_copy(self, source: DType, target: DType) -> bool:
        """A conversion to the operand's own type is a copy, bit for bit."""
        return source is target


@dataclass(frozen=True, slots=True)
class ReducePrecision(Function):
    """StableHLO's ``reduce_precision``: fewer bits of exponent and fraction, in the same type.

    The fraction is rounded to ``mantissa_bits``. A result beyond the range of ``exponent_bits``
    is infinity in any direction, one below its least normal number is zero, with the operand's
    sign. A type that has no infinity has its NaN instead, one that has no zero its least number. A
    NaN is returned bit for bit. With as many bits of exponent as the type has, its own range stays,
    subnormal numbers included.
    """

    exponent_bits: int
    mantissa_bits: int

    def is_copy(self, source: DType, target: DType) -> bool:
        """A type with no more bits in either field loses nothing."""
        return (
            self.exponent_bits >= source.exponent_bits
            and self.mantissa_bits >= source.mantissa_bits
        )
