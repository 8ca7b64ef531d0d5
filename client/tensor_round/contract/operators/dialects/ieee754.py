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
from ...dtypes import BY_NAME, AnyDType
from ...errors import Fault, InvalidDescriptor
from ...functions import RoundToIntegral
from ...layout import Layout, layout_faults
from ...rounding import Rounding, RoundingName
from ..dialect import Dialect, ModelNames, Version, overlap_fault
from ..model import RANK_LIMIT, OneOf, OperatorDescriptor, Size, Sizes, Strict
from ..operator import RoundOperator, canonical_name, sizes_of

__all__ = ["IEEE754Descriptor", "IEEE754Round", "IEEE754Tensor"]

VERSION = Version("2019", "ieee754: roundToIntegral", (), tuple(BY_NAME), 0, RANK_LIMIT)
MODES: dict[str, Rounding] = {rounding.value: rounding for rounding in Rounding}


class IEEE754Tensor(Strict):
    """A tensor and its layout."""

    dtype: Annotated[str, OneOf(VERSION.title, {name: name for name in BY_NAME})] = Field(
        description="The element type; little-endian on the wire."
    )
    shape: Sizes = Field(description="Elements along each dimension; 0 makes an empty tensor.")
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
    rounding: Annotated[str, OneOf(VERSION.title, {name: name for name in MODES})] = Field(
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
        rounding, source = MODES[self.rounding], self.input.layout()
        if self.output is None:
            return Call.packed_output(RoundToIntegral(rounding), source)
        target = self.output.layout()
        if not target.is_free_of_overlap:
            raise InvalidDescriptor.of([overlap_fault("ieee754", ("output", "strides"))])
        return Call(RoundToIntegral(rounding), source, target, source.byte_length)

    def _disagreements(self, output: IEEE754Tensor) -> list[Fault]:
        return [
            Fault(("output", field), f"ieee754: must equal the input's {field}")
            for field in ("dtype", "shape")
            if getattr(output, field) != getattr(self.input, field)
        ]


@dataclass(frozen=True, slots=True)
class IEEE754Round(RoundOperator):
    """IEEE 754-2019's roundToIntegral, on every dtype.

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


DIALECT = Dialect(
    title="IEEE 754",
    operator="roundToIntegral",
    descriptor=IEEE754Descriptor,
    object=IEEE754Round,
    model=ModelNames("round", mode_parameter="rounding"),
    words=None,
    versions=(VERSION,),
    dtypes={name: name for name in BY_NAME},
    mode_field="rounding",
    modes=MODES,
)
