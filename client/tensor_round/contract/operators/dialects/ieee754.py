"""The ``ieee754`` dialect: every data type, every direction, any layout.

This dialect belongs to no framework. Its rounding directions have the names of IEEE 754-2019,
section 4.3.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field

from ...call import Call
from ...dtypes import BY_NAME, NOT_CLOSED, ROUNDABLE, AnyDType
from ...errors import Fault, InvalidDescriptor
from ...functions import Convert, Function, RoundToIntegral
from ...layout import Layout, layout_faults
from ...rounding import Rounding, RoundingName
from ..dialect import (
    FLOAT_TO_INTEGER,
    NAN_TO_FLOAT,
    Dialect,
    ModelNames,
    Operator,
    Version,
    overlap_fault,
)
from ..model import OneOf, OperatorDescriptor, Shape, Size, Sizes, Strict, enumeration
from ..operator import CastOperator, RoundOperator, canonical_name, sizes_of

__all__ = [
    "IEEE754Convert",
    "IEEE754ConvertDescriptor",
    "IEEE754Descriptor",
    "IEEE754Operand",
    "IEEE754Result",
    "IEEE754Round",
    "IEEE754Tensor",
]

_NAMES = tuple(dtype.name for dtype in ROUNDABLE)
VERSION = Version("2019", "ieee754: roundToIntegral", _NAMES)
_REJECTED: dict[str | int, str] = {
    name: f"got {name}: {NOT_CLOSED}; {VERSION.title} takes every other dtype"
    for name in BY_NAME
    if name not in _NAMES
}
CONVERT_VERSION = Version("2019", "ieee754: convertFormat", tuple(BY_NAME))
MODES: dict[str, Rounding] = {rounding.value: rounding for rounding in Rounding}


class IEEE754Tensor(Strict):
    """A tensor and its layout."""

    dtype: Annotated[str, OneOf(VERSION.title, enumeration(_NAMES), _REJECTED)] = Field(
        description="The element type; little-endian on the wire. Types of 4 bits have two "
        "elements a byte, the first in its low half."
    )
    shape: Shape
    strides: Sizes | None = Field(
        default=None,
        description="Distances between neighbours, in elements; null is packed C order. "
        "0 repeats an element (input only).",
    )
    byte_length: Size | None = Field(
        default=None,
        description="Bytes of the whole buffer; null is the end of the last element.",
    )

    def faults(self, field: str) -> list[Fault]:
        """The rules of a layout that are broken, with paths that begin with ``field``."""
        return layout_faults(
            BY_NAME[self.dtype], self.shape, self.strides, self.byte_length, loc=(field,)
        )

    def layout(self) -> Layout:
        """The layout; call it on a tensor without faults."""
        return Layout.of(BY_NAME[self.dtype], self.shape, self.strides, self.byte_length)


class IEEE754Descriptor(OperatorDescriptor):
    """roundToIntegral of IEEE 754-2019, section 5.9, on every element."""

    example: ClassVar[dict[str, Any]] = {
        "dialect": "ieee754",
        "rounding": "ties_to_even",
        "input": {"dtype": "float32", "shape": [2, 3], "strides": None, "byte_length": None},
        "output": None,
    }

    dialect: Literal["ieee754"] = "ieee754"
    operation: Literal["roundToIntegral"] = Field(
        default="roundToIntegral", description="roundToIntegral by default."
    )
    rounding: Annotated[str, OneOf(VERSION.title, enumeration(MODES))] = Field(
        default="ties_to_even",
        description="The rounding direction; ties_to_even by default.",
    )
    input: IEEE754Tensor
    output: IEEE754Tensor | None = Field(
        default=None,
        description="The output's layout, of the same dtype and shape; null is packed C order.",
    )

    def resolve(self) -> Call:
        """The call of this descriptor; raises :class:`InvalidDescriptor`."""
        faults = self.input.faults("input")
        if self.output is not None:
            faults += [*self._disagreements(self.output), *self.output.faults("output")]
        if faults:
            raise InvalidDescriptor.of(faults)
        function, source = RoundToIntegral(MODES[self.rounding]), self.input.layout()
        if self.output is None:
            return Call.packed_output(function, source)
        return _laid_out(function, source, self.output.layout())

    def _disagreements(self, output: IEEE754Tensor) -> list[Fault]:
        return [
            Fault(("output", field), f"ieee754: must equal the input's {field}")
            for field in ("dtype", "shape")
            if getattr(output, field) != getattr(self.input, field)
        ]


def _laid_out(function: Function, source: Layout, target: Layout) -> Call:
    if not target.is_free_of_overlap:
        raise InvalidDescriptor.of([overlap_fault("ieee754", ("output", "strides"))])
    return Call(function, source, target, source.byte_length)


_CONVERT_TYPE = OneOf(CONVERT_VERSION.title, enumeration(BY_NAME))


class IEEE754Operand(IEEE754Tensor):
    """The operand of convertFormat and its layout."""

    dtype: Annotated[str, _CONVERT_TYPE] = Field(
        description="The element type; little-endian on the wire."
    )


class IEEE754Result(Strict):
    """The type of convertFormat's result, and its layout."""

    dtype: Annotated[str, _CONVERT_TYPE] = Field(description="The target type.")
    shape: Sizes | None = Field(default=None, description="The input's shape, by default.")
    strides: Sizes | None = Field(
        default=None,
        description="Distances between neighbours, in elements; null is packed C order.",
    )
    byte_length: Size | None = Field(
        default=None,
        description="Bytes of the whole buffer; null is the end of the last element.",
    )


class IEEE754ConvertDescriptor(OperatorDescriptor):
    """convertFormat of IEEE 754-2019, section 5.4.2, and conversions from and to integers."""

    example: ClassVar[dict[str, Any]] = {
        "dialect": "ieee754",
        "operation": "convertFormat",
        "rounding": "toward_zero",
        "saturate": False,
        "input": {"dtype": "float32", "shape": [2, 3]},
        "output": {"dtype": "float8_e5m2"},
    }

    dialect: Literal["ieee754"] = "ieee754"
    operation: Literal["convertFormat"]
    rounding: Annotated[str, OneOf(CONVERT_VERSION.title, enumeration(MODES))] = Field(
        default="ties_to_even",
        description="The rounding direction; ties_to_even by default.",
    )
    saturate: bool = Field(
        default=False,
        description="Whether a result beyond the range becomes the largest number, and an integer "
        "the nearest end; false by default.",
    )
    input: IEEE754Operand
    output: IEEE754Result

    def resolve(self) -> Call:
        """The call of this descriptor; raises :class:`InvalidDescriptor`."""
        faults, output = self.input.faults("input"), self.output
        shape = self.input.shape if output.shape is None else output.shape
        if shape != self.input.shape:
            faults.append(Fault(("output", "shape"), "ieee754: must equal the input's shape"))
        target = BY_NAME[output.dtype]
        faults += layout_faults(target, shape, output.strides, output.byte_length, loc=("output",))
        if faults:
            raise InvalidDescriptor.of(faults)
        function = Convert(MODES[self.rounding], self.saturate)
        result = Layout.of(target, shape, output.strides, output.byte_length)
        return _laid_out(function, self.input.layout(), result)


@dataclass(frozen=True, slots=True)
class IEEE754Round(RoundOperator):
    """IEEE 754-2019's roundToIntegral, on every dtype that is closed under it.

    ``rounding`` is a :class:`Rounding` or its name.
    """

    _paths: ClassVar[Mapping[str, str]] = {"rounding": "rounding"}

    rounding: RoundingName | Rounding = "ties_to_even"

    def descriptor(
        self, dtype: AnyDType | None = None, shape: Sequence[int] | None = None
    ) -> IEEE754Descriptor:
        """The ``ieee754`` descriptor for a packed tensor."""
        tensor = {"dtype": canonical_name(dtype), "shape": sizes_of(shape)}
        return IEEE754Descriptor.read({"rounding": self.rounding, "input": tensor})


@dataclass(frozen=True, slots=True)
class IEEE754Convert(CastOperator):
    """IEEE 754-2019's convertFormat to the type ``to``, from every dtype.

    ``rounding`` is a :class:`Rounding` or its name. With ``saturate`` results beyond the range are
    the largest number, and of integers the nearest end.
    """

    _paths: ClassVar[Mapping[str, str]] = {"rounding": "rounding", "saturate": "saturate"}

    to: AnyDType
    rounding: RoundingName | Rounding = "ties_to_even"
    saturate: bool = False

    def descriptor(
        self, dtype: AnyDType | None = None, shape: Sequence[int] | None = None
    ) -> IEEE754ConvertDescriptor:
        """The ``ieee754`` descriptor for a packed tensor."""
        return IEEE754ConvertDescriptor.read(
            {
                "operation": "convertFormat",
                "rounding": self.rounding,
                "saturate": self.saturate,
                "input": {"dtype": canonical_name(dtype), "shape": sizes_of(shape)},
                "output": {"dtype": canonical_name(self.to)},
            }
        )


DIALECT = Dialect(
    title="IEEE 754",
    operator_field="operation",
    operators=(
        Operator(
            name="roundToIntegral",
            descriptor=IEEE754Descriptor,
            object=IEEE754Round,
            model=ModelNames("round", mode_parameter="rounding"),
            words=None,
            versions=(VERSION,),
            dtypes=enumeration(_NAMES),
            mode_field="rounding",
            modes=MODES,
        ),
        Operator(
            name="convertFormat",
            descriptor=IEEE754ConvertDescriptor,
            object=IEEE754Convert,
            model=ModelNames("cast", mode_parameter="rounding"),
            words=None,
            versions=(CONVERT_VERSION,),
            dtypes=enumeration(BY_NAME),
            mode_field="rounding",
            modes=MODES,
            target_field="output.dtype",
            unspecified={**FLOAT_TO_INTEGER, **NAN_TO_FLOAT},
        ),
    ),
)
