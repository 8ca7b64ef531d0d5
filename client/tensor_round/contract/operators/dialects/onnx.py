"""The ``onnx`` dialect: operators of the ONNX operator sets.

Rules are those of the ONNX operator specification: any rank and any sizes, and of each version of
an operator the types that it has.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field

from ...call import Call
from ...dtypes import BY_NAME, AnyDType
from ...errors import InvalidDescriptor
from ...layout import Layout
from ...rounding import Rounding
from ..dialect import FLOAT_TO_INTEGER, NAN_TO_FLOAT, Dialect, ModelNames, Operator, Words
from ..model import OneOf, Shape, Strict
from ..onnx_types import (
    DTYPES,
    NEWEST_OPSET,
    OnnxCastOpset,
    OnnxFloorOpset,
    OnnxOpset,
    attribute_spellings,
    type_spellings,
)
from ..onnx_versions import VERSIONS, OnnxOperatorDescriptor
from ..operator import CastOperator, RoundOperator, canonical_name, name_in, sizes_of
from .onnx_linear import (
    ROWS,
    OnnxDequantizeLinear,
    OnnxDequantizeLinearDescriptor,
    OnnxLinearTensor,
    OnnxQuantizeLinear,
    OnnxQuantizeLinearDescriptor,
    integer_of,
)

__all__ = [
    "OnnxCast",
    "OnnxCastDescriptor",
    "OnnxCastTensor",
    "OnnxCeil",
    "OnnxDequantizeLinear",
    "OnnxDequantizeLinearDescriptor",
    "OnnxDescriptor",
    "OnnxFloor",
    "OnnxLinearTensor",
    "OnnxQuantizeLinear",
    "OnnxQuantizeLinearDescriptor",
    "OnnxRound",
    "OnnxTensor",
]

#: The rounding of ``Cast`` to FLOAT8E8M0.
OnnxRoundMode = Literal["up", "down", "nearest"]


_ROUNDINGS = {
    "Round": Rounding.TIES_TO_EVEN,
    "Floor": Rounding.TOWARD_NEGATIVE,
    "Ceil": Rounding.TOWARD_POSITIVE,
}

_TYPES = VERSIONS["Round"][-1].dtypes
_CAST_TYPES = VERSIONS["Cast"][-1].dtypes

_REASONS = {
    "BOOL": "a conversion of bool rounds nothing; compare with 0, or select 0 and 1",
    "STRING": "text is no tensor of numbers; send numbers as JSON, which are rounded once",
    **dict.fromkeys(("INT2", "UINT2"), "types of two bits are not served"),
}
_REJECTED: dict[str | int, str] = {
    spelling: f"got {name}: {why}. onnx: Cast takes {', '.join(_CAST_TYPES)}"
    for name, why in _REASONS.items()
    for spelling in (name, f"tensor({name.lower()})")
}
_REJECTED_NUMBERS: dict[str | int, str] = {
    number: _REJECTED[name]
    for name, number in (("STRING", 8), ("BOOL", 9), ("UINT2", 25), ("INT2", 26))
}


class OnnxTensor(Strict):
    """A tensor of the ONNX type system, packed in C order."""

    elem_type: Annotated[str, OneOf("onnx: rounding", type_spellings(_TYPES))] = Field(
        description="The name in TensorProto.DataType, or the full type string. "
        "BFLOAT16 needs opset 22 or newer for Round, 13 for Floor and Ceil."
    )
    shape: Shape


class OnnxCastTensor(Strict):
    """The operand of a Cast, packed in C order."""

    elem_type: Annotated[str, OneOf("onnx: Cast", type_spellings(_CAST_TYPES), _REJECTED)] = Field(
        description="The name in TensorProto.DataType, or the full type string."
    )
    shape: Shape


class OnnxDescriptor(OnnxOperatorDescriptor):
    """ONNX Round (to the nearest integer, ties to even), Floor or Ceil."""

    example: ClassVar[dict[str, Any]] = {
        "dialect": "onnx",
        "op_type": "Round",
        "opset_version": 22,
        "input": {"elem_type": "FLOAT16", "shape": [2, 3]},
    }

    op_type: Literal["Round", "Floor", "Ceil"]
    opset_version: int = Field(
        description="The version of the default operator set: 11 to 21 is Round-11, "
        "22 and up is Round-22; 6 to 12 is Floor-6 and Ceil-6, 13 and up Floor-13 and Ceil-13.",
        json_schema_extra={"minimum": 6, "maximum": NEWEST_OPSET},
    )
    input: OnnxTensor

    def resolve(self) -> Call:
        """The call of this descriptor; raises :class:`InvalidDescriptor`."""
        name, shape = self.input.elem_type, self.input.shape
        if faults := self._type_fault("dtypes", name, "input", "elem_type"):
            raise InvalidDescriptor.of(faults)
        return Call.packed(_ROUNDINGS[self.op_type], DTYPES[name], shape, ("input",))


#: The direction in which each ``round_mode`` rounds; a tie goes up.
_ROUND_MODES = {
    "up": Rounding.TOWARD_POSITIVE,
    "down": Rounding.TOWARD_ZERO,
    "nearest": Rounding.TIES_TO_AWAY,
}


class OnnxCastDescriptor(OnnxOperatorDescriptor):
    """ONNX Cast: to another type."""

    example: ClassVar[dict[str, Any]] = {
        "dialect": "onnx",
        "op_type": "Cast",
        "opset_version": 24,
        "to": "FLOAT8E4M3FN",
        "saturate": 1,
        "input": {"elem_type": "FLOAT", "shape": [2, 3]},
    }

    op_type: Literal["Cast"]
    opset_version: int = Field(
        description="The version of the default operator set, 9 and up.",
        json_schema_extra={"minimum": 9, "maximum": NEWEST_OPSET},
    )
    to: Annotated[
        str | int,
        OneOf("onnx: Cast", attribute_spellings(_CAST_TYPES), {**_REJECTED, **_REJECTED_NUMBERS}),
    ] = Field(description="The target type: a name in TensorProto.DataType, or its number.")
    saturate: int = Field(
        default=1,
        ge=0,
        le=1,
        description="Whether a number beyond the range of a float of 8 bits becomes the largest "
        "one; 1 by default. It has no effect on other targets, and needs opset 19.",
    )
    round_mode: OnnxRoundMode = Field(
        default="up",
        description="The rounding to FLOAT8E8M0: up, the default, down or nearest. It has no "
        "effect on other targets, and needs opset 24.",
    )
    input: OnnxCastTensor

    def resolve(self) -> Call:
        """The call of this descriptor; raises :class:`InvalidDescriptor`."""
        target = str(self.to)
        faults = [
            *self._type_fault("dtypes", self.input.elem_type, "input", "elem_type"),
            *self._type_fault("dtypes", target, "to"),
            *self._attribute_faults(),
        ]
        if faults:
            raise InvalidDescriptor.of(faults)
        rounding = _ROUND_MODES[self.round_mode] if target == "FLOAT8E8M0" else None
        saturates = self.saturate == 1 and target.startswith("FLOAT8")
        source = Layout.of(BY_NAME[DTYPES[self.input.elem_type]], self.input.shape, loc=("input",))
        return Call.converting(source, DTYPES[target], rounding, saturates=saturates)


@dataclass(frozen=True, slots=True)
class _Unary(RoundOperator):
    _op_type: ClassVar[str]
    _paths: ClassVar[Mapping[str, str]] = {"opset_version": "opset_version", "domain": "domain"}

    opset_version: int
    domain: str = field(default="", compare=False, repr=False, kw_only=True)

    def descriptor(
        self, dtype: AnyDType | None = None, shape: Sequence[int] | None = None
    ) -> OnnxDescriptor:
        """The ``onnx`` descriptor for a tensor, of a type that the opset's operator accepts."""
        descriptor = OnnxDescriptor.read(_document(self._op_type, self, dtype, shape))
        descriptor.resolve()
        return descriptor


def _document(
    op_type: str,
    operator: _Unary | OnnxCast,
    dtype: AnyDType | None,
    shape: Sequence[int] | None,
    attributes: Mapping[str, Any] = {},
) -> dict[str, Any]:
    return {
        "op_type": op_type,
        **({"domain": operator.domain} if operator.domain else {}),
        "opset_version": operator.opset_version,
        **attributes,
        "input": {"elem_type": name_in(DTYPES, canonical_name(dtype)), "shape": sizes_of(shape)},
    }


@dataclass(frozen=True, slots=True)
class OnnxRound(_Unary):
    """ONNX Round: ties to even, on the opset's floats; ``domain`` is the default domain."""

    _op_type: ClassVar[str] = "Round"

    opset_version: OnnxOpset = 22


@dataclass(frozen=True, slots=True)
class OnnxFloor(_Unary):
    """ONNX Floor, on the opset's floats; ``domain`` is the default domain."""

    _op_type: ClassVar[str] = "Floor"

    opset_version: OnnxFloorOpset = 22


@dataclass(frozen=True, slots=True)
class OnnxCeil(_Unary):
    """ONNX Ceil, on the opset's floats; ``domain`` is the default domain."""

    _op_type: ClassVar[str] = "Ceil"

    opset_version: OnnxFloorOpset = 22


@dataclass(frozen=True, slots=True)
class OnnxCast(CastOperator):
    """ONNX Cast to the type ``to``, by the rules and with the types of an opset.

    ``saturate`` is for floats of 8 bits, ``round_mode`` (``up``, ``down``, ``nearest``) for
    ``float8_e8m0fnu``; None leaves them out. ``domain`` is the default domain.
    """

    _paths: ClassVar[Mapping[str, str]] = {"opset_version": "opset_version", "domain": "domain"}
    _optional: ClassVar[tuple[str, ...]] = ("saturate", "round_mode")

    to: AnyDType
    opset_version: OnnxCastOpset = 25
    saturate: bool | None = None
    round_mode: OnnxRoundMode | None = None
    domain: str = field(default="", compare=False, repr=False, kw_only=True)

    def descriptor(
        self, dtype: AnyDType | None = None, shape: Sequence[int] | None = None
    ) -> OnnxCastDescriptor:
        """The ``onnx`` descriptor for a tensor, of a type that the opset's operator accepts."""
        attributes = {
            "to": name_in(DTYPES, canonical_name(self.to)),
            **({} if self.saturate is None else {"saturate": integer_of(self.saturate)}),
            **({} if self.round_mode is None else {"round_mode": self.round_mode}),
        }
        descriptor = OnnxCastDescriptor.read(_document("Cast", self, dtype, shape, attributes))
        descriptor.resolve()
        return descriptor


def _operator(made: type[_Unary]) -> Operator:
    name = made._op_type
    versions = VERSIONS[name]
    oldest = versions[0].selected_by[0]
    choices = f"{oldest} to {NEWEST_OPSET}"
    return Operator(
        name=name,
        descriptor=OnnxDescriptor,
        object=made,
        model=ModelNames(f"onnx_{name.lower()}"),
        words=Words("" if name == "Round" else name, ("OPSET",), choices, are_integers=True),
        version_field="opset_version",
        versions=versions,
        dtypes={name: DTYPES[name] for name in versions[-1].dtypes},
        default_rounding=_ROUNDINGS[name],
    )


DIALECT = Dialect(
    title="ONNX",
    operator_field="op_type",
    operators=(
        *map(_operator, (OnnxRound, OnnxFloor, OnnxCeil)),
        Operator(
            name="Cast",
            descriptor=OnnxCastDescriptor,
            object=OnnxCast,
            model=ModelNames("onnx_cast", "input", "output"),
            words=Words("Cast", ("OPSET",), f"9 to {NEWEST_OPSET}", are_integers=True),
            version_field="opset_version",
            versions=VERSIONS["Cast"],
            dtypes={name: DTYPES[name] for name in _CAST_TYPES},
            target_field="to",
            unspecified={
                **FLOAT_TO_INTEGER,
                **NAN_TO_FLOAT,
                "float to integer": "toward_zero",
                "negative number to FLOAT8E8M0": "NaN",
                "-0 to FLOAT8E8M0": "as 0",
                "above FLOAT8E8M0, not saturated": "the largest if it rounds to that, else NaN",
                "below FLOAT8E8M0, not saturated": "the least if it rounds up, else NaN",
            },
        ),
        *ROWS,
    ),
)
