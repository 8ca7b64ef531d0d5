"""The ``array_api`` dialect: the standard's ``round``, ``trunc``, ``ceil``, ``floor``, ``astype``.

It has the standard's real-valued data types. The standard rounds complex numbers part by part.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field

from ...call import Call
from ...dtypes import BY_NAME, AnyDType
from ...layout import Layout
from ...rounding import Rounding
from ..dialect import FLOAT_TO_INTEGER, Dialect, ModelNames, Operator, Version, Words
from ..model import OneOf, OperatorDescriptor, Sizes, Strict, enumeration
from ..operator import CastOperator, RoundOperator, canonical_name, sizes_of

__all__ = [
    "ArrayAPIArray",
    "ArrayAPIAstype",
    "ArrayAPIAstypeDescriptor",
    "ArrayAPIDescriptor",
    "ArrayAPIRound",
]

ArrayAPIFunction = Literal["round", "trunc", "ceil", "floor"]
MODES = {
    "round": Rounding.TIES_TO_EVEN,
    "trunc": Rounding.TOWARD_ZERO,
    "ceil": Rounding.TOWARD_POSITIVE,
    "floor": Rounding.TOWARD_NEGATIVE,
}
#: The standard's own names, which are also the canonical ones.
_DTYPES = (
    "float32",
    "float64",
    "int8",
    "int16",
    "int32",
    "int64",
    "uint8",
    "uint16",
    "uint32",
    "uint64",
)
#: Named by the first version of the standard, which had all four functions.
VERSION = Version("2021.12", "array_api", _DTYPES, model_version="2021.12")

_REJECTED: dict[str | int, str] = {
    name: f"got {name}; send its real and imaginary parts as a {part} tensor each. {VERSION.takes}"
    for name, part in (("complex64", "float32"), ("complex128", "float64"))
}
_TARGETS = OneOf(
    "array_api: astype",
    enumeration(_DTYPES),
    {"bool": "got bool: a conversion to bool rounds nothing; compare with 0"},
)


class ArrayAPIArray(Strict):
    """An array, packed in C order."""

    dtype: Annotated[str, OneOf(VERSION.title, enumeration(_DTYPES), _REJECTED)]
    shape: Sizes = Field(description="Elements along each dimension; 0 makes an empty array.")


class ArrayAPIDescriptor(OperatorDescriptor):
    """The Array API's round (ties to even), trunc, ceil or floor."""

    example: ClassVar[dict[str, Any]] = {
        "dialect": "array_api",
        "op": "round",
        "x": {"dtype": "float32", "shape": [2, 3]},
    }

    dialect: Literal["array_api"] = "array_api"
    op: Annotated[str, OneOf(VERSION.title, enumeration(MODES))] = Field(
        description="The function; all of them return integers unchanged."
    )
    x: ArrayAPIArray

    def resolve(self) -> Call:
        """The call of this descriptor; raises :class:`InvalidDescriptor`."""
        return Call.packed(MODES[self.op], self.x.dtype, self.x.shape, ("x",))


class ArrayAPIAstypeDescriptor(OperatorDescriptor):
    """The Array API's astype: to another data type."""

    example: ClassVar[dict[str, Any]] = {
        "dialect": "array_api",
        "op": "astype",
        "dtype": "float32",
        "x": {"dtype": "float64", "shape": [2, 3]},
    }

    dialect: Literal["array_api"] = "array_api"
    op: Literal["astype"]
    dtype: Annotated[str, _TARGETS] = Field(description="The target type.")
    x: ArrayAPIArray

    def resolve(self) -> Call:
        """The call of this descriptor; raises :class:`InvalidDescriptor`."""
        source = Layout.of(BY_NAME[self.x.dtype], self.x.shape, loc=("x",))
        return Call.converting(source, self.dtype)


def _array(dtype: AnyDType | None, shape: Sequence[int] | None) -> dict[str, Any]:
    return {"dtype": canonical_name(dtype), "shape": sizes_of(shape)}


@dataclass(frozen=True, slots=True)
class ArrayAPIRound(RoundOperator):
    """The Array API's rounding, on float32, float64 and integers.

    ``op`` is ``round`` (ties to even), ``trunc``, ``ceil`` or ``floor``.
    """

    _paths: ClassVar[Mapping[str, str]] = {"op": "op"}

    op: ArrayAPIFunction = "round"

    def descriptor(
        self, dtype: AnyDType | None = None, shape: Sequence[int] | None = None
    ) -> ArrayAPIDescriptor:
        """The ``array_api`` descriptor for a tensor."""
        return ArrayAPIDescriptor.read({"op": self.op, "x": _array(dtype, shape)})


@dataclass(frozen=True, slots=True)
class ArrayAPIAstype(CastOperator):
    """The Array API's astype to the type ``to``."""

    to: AnyDType

    def descriptor(
        self, dtype: AnyDType | None = None, shape: Sequence[int] | None = None
    ) -> ArrayAPIAstypeDescriptor:
        """The ``array_api`` descriptor for a tensor."""
        document = {
            "op": "astype",
            "dtype": canonical_name(self.to),
            "x": _array(dtype, shape),
        }
        return ArrayAPIAstypeDescriptor.read(document)


DIALECT = Dialect(
    title="Array API",
    operator_field="op",
    operators=(
        Operator(
            name="round",
            descriptor=ArrayAPIDescriptor,
            object=ArrayAPIRound,
            model=ModelNames("array_api_round", "x", "out", "op"),
            words=Words("", ("OP",), ", ".join(MODES), required=1),
            selected_by=tuple(MODES),
            versions=(VERSION,),
            dtypes=enumeration(_DTYPES),
            mode_field="op",
            modes=MODES,
        ),
        Operator(
            name="astype",
            descriptor=ArrayAPIAstypeDescriptor,
            object=ArrayAPIAstype,
            model=ModelNames("array_api_astype", "x", "out"),
            words=Words("astype"),
            versions=(VERSION,),
            dtypes=enumeration(_DTYPES),
            target_field="dtype",
            unspecified=FLOAT_TO_INTEGER,
        ),
    ),
)
