"""What a caller's quantization means: its operator, its parameters; fake quantization by two steps.

No dialect has fake quantization. The engine in this process computes it by one kernel; a service
quantizes each tile, and dequantizes the result.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from ..arrays.parameters import SCALES, Parameters, is_number, read_parameters
from ..contract.array_forms import read_array
from ..contract.errors import InvalidArgumentType
from ..contract.operators.operator import (
    Kind,
    LinearOperator,
    PreparedDescriptor,
    as_linear,
)

#: The types of results for which a caller who names an operator by a word names none.
CODES, NUMBERS = "int8", "float32"


@dataclass(frozen=True, slots=True)
class Quantization:
    """A quantization, its inverse or both, with the parameters as the caller gave them."""

    operator: LinearOperator | FakeQuantizer
    scale: Any
    zero_point: Any

    def parameters(self, dtype: str) -> Parameters:
        """The parameters for an operand of that dtype."""
        made = self.operator.to
        is_back = self.operator.kind is Kind.DEQUANTIZE
        types = (made, dtype) if is_back else (dtype, made or "uint8")
        return read_parameters(self.scale, self.zero_point, *map(str, types))

    def prepare(self, dtype: str, shape: tuple[int, ...]) -> PreparedDescriptor:
        """The prepared descriptor of a tensor; raises :class:`InvalidDescriptor`."""
        return self.operator.prepare(dtype, shape, *self.parameters(dtype).types)


def quantizing(
    scale: Any, zero_point: Any, to: Any, operator: LinearOperator | str, **attributes: Any
) -> Quantization:
    """That of :meth:`Client.quantize`."""
    if scale is not None:
        to = _codes(to, operator, zero_point)
    by = as_linear(Kind.QUANTIZE, to, operator, **attributes)
    return Quantization(by, scale, zero_point)


def dequantizing(
    scale: Any, zero_point: Any, to: Any, operator: LinearOperator | str, **attributes: Any
) -> Quantization:
    """That of :meth:`Client.dequantize`."""
    if to is None and isinstance(operator, str) and scale is not None:
        to = NUMBERS
    by = as_linear(Kind.DEQUANTIZE, to, operator, **attributes)
    return Quantization(by, scale, zero_point)


def faking(
    scale: Any, zero_point: Any, through: Any, operator: str, **attributes: Any
) -> Quantization:
    """That of :meth:`Client.fake_quantize`."""
    if not isinstance(operator, str):
        raise InvalidArgumentType("operator must be a word, which names both operators")
    codes = _codes(through, operator, zero_point)
    there = as_linear(Kind.QUANTIZE, codes, operator, **attributes)
    faker = FakeQuantizer(there, operator, tuple(attributes.items()))
    return Quantization(faker, scale, zero_point)


def _codes(to: Any, operator: LinearOperator | str, zero_point: Any) -> Any:
    """The type of the codes: by default that of a zero point that has one; an operator tells it."""
    if to is not None or not isinstance(operator, str):
        return to
    return CODES if zero_point is None or is_number(zero_point) else read_array(zero_point).dtype


@dataclass(frozen=True, slots=True)
class FakeQuantizer:
    """Quantization and its inverse by a dialect's two operators, to the operand's float type."""

    kind: ClassVar[str] = "fake_quantize"

    there: LinearOperator
    word: str
    attributes: tuple[tuple[str, Any], ...]

    @property
    def to(self) -> Any:
        """The type of the codes."""
        return self.there.to

    def flat_shape(self, count: int) -> tuple[int, ...]:
        """A shape of ``count`` elements that both operators accept."""
        return self.there.flat_shape(count)

    def prepare(self, dtype: str, shape: tuple[int, ...], *types: Any) -> PreparedDescriptor:
        """Both descriptors and the one call that they make; raises :class:`InvalidDescriptor`."""
        there = self.there.prepare(dtype, shape, *types)
        to = dtype if dtype in SCALES else NUMBERS
        codes = there.call.output.dtype.name
        inverse = as_linear(Kind.DEQUANTIZE, to, self.word, **dict(self.attributes))
        back = inverse.prepare(codes, shape, *types)
        return PreparedDescriptor(
            there.descriptor,
            there.call.fake(back.call),
            (*there.headers, *back.headers[1:]),
            back.output_descriptor,
            (there, back),
        )
