"""What a call does to each element: the functions that every dialect's operators mean.

A function is a value. With the types of a call's input and output it is all that a kernel is
chosen by; the engine, the memory budget and the transports need no more of it than
:class:`Function` has. The functions of linear quantization have further operands, a scale and a
zero point, which the call has as :class:`~tensor_round.contract.call.Parameters`.
"""

from __future__ import annotations

import abc
from dataclasses import dataclass

from .dtypes import BY_NAME, DType
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


@dataclass(frozen=True, slots=True)
class Linear(Function):
    """A function of linear quantization: of an element, a scale and a zero point.

    A scale is a ``float16``, ``bfloat16``, ``float32``, ``int32`` or ``float8_e8m0fnu``, a zero
    point has the quantized type; an absent one is 0. Numbers are those of IEEE 754: a scale that is
    zero, negative, infinite or NaN is computed with, and a zero difference times a negative scale
    is -0. A NaN that a float type gets is its quiet NaN without sign and payload; without one, the
    largest number.
    """

    rounding: Rounding = Rounding.TIES_TO_EVEN

    def is_copy(self, source: DType, target: DType) -> bool:
        """No scale is known before it is received, 1.0 included."""
        return False


@dataclass(frozen=True, slots=True)
class Quantize(Linear):
    """ONNX's QuantizeLinear: ``saturate(round(x / scale) + zero_point)``, in that order.

    The quotient of the two numbers is exact, then rounded once to ``precision``, by default the
    type of the scale. That of an ``int32`` or ``float8_e8m0fnu`` scale stays exact: neither type
    has quotients. To an integer it is rounded to the nearest, ties to even, then the zero point is
    added, and the sum saturates; a NaN counts as 0. To a float it is converted as by
    :class:`Convert`, with ``saturates``; a zero point that is not 0 is added before, exactly.
    ``limits`` are the ends at which integers saturate, where they are not their type's.
    """

    precision: DType | None = None
    saturates: bool = True
    limits: tuple[int, int] | None = None

    def quotient_type(self, scale: DType) -> DType | None:
        """The type to which quotients are rounded; None if they stay exact."""
        if self.precision is not None:
            return self.precision
        return scale if scale.is_float and scale.mantissa_bits else None


@dataclass(frozen=True, slots=True)
class Dequantize(Linear):
    """ONNX's DequantizeLinear: ``(x - zero_point) * scale``.

    Difference and product are exact, and the product is rounded once to the output's type.
    """


@dataclass(frozen=True, slots=True)
class FakeQuantize(Quantize):
    """:class:`Quantize` to the type ``through``, then :class:`Dequantize` with the same operands.

    ``through`` is the type of the zero point, too.
    """

    through: DType = BY_NAME["uint8"]
