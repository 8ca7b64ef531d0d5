"""The ``openvino`` dialect: ``Round-5``, ``Floor-1``, ``Ceiling-1`` and ``Convert-1`` of OpenVINO.

Its fields are the attributes of the layer in OpenVINO's intermediate representation,
``<layer type="Round" version="opset5"><data mode="half_to_even"/></layer>``. Names
are lower case, as the specification has them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field

from ...call import Call
from ...dtypes import BY_NAME, NOT_CLOSED, AnyDType, DTypeName
from ...layout import Layout
from ...rounding import Rounding
from ..dialect import FLOAT_TO_INTEGER, NAN_TO_FLOAT, Dialect, ModelNames, Operator, Version, Words
from ..model import OneOf, OperatorDescriptor, Shape, Strict, enumeration
from ..operator import CastOperator, RoundOperator, canonical_name, name_in, sizes_of

__all__ = [
    "OpenVINOCeiling",
    "OpenVINOConvert",
    "OpenVINOConvertData",
    "OpenVINOConvertDescriptor",
    "OpenVINOConvertTensor",
    "OpenVINOData",
    "OpenVINODescriptor",
    "OpenVINOFloor",
    "OpenVINOFloorDescriptor",
    "OpenVINORound",
    "OpenVINOTensor",
]

OpenVINOMode = Literal["half_to_even", "half_away_from_zero"]
MODES = {
    "half_to_even": Rounding.TIES_TO_EVEN,
    "half_away_from_zero": Rounding.TIES_TO_AWAY,
}
#: OpenVINO's element types, and the dtypes.
DTYPES = {
    **{"f16": "float16", "bf16": "bfloat16", "f32": "float32", "f64": "float64"},
    **{"f8e4m3": "float8_e4m3fn", "f8e5m2": "float8_e5m2"},
    **{"f4e2m1": "float4_e2m1fn", "i4": "int4", "u4": "uint4"},
    **{"i8": "int8", "i16": "int16", "i32": "int32", "i64": "int64"},
    **{"u8": "uint8", "u16": "uint16", "u32": "uint32", "u64": "uint64"},
}
#: Types that Convert takes, and no rounding: they are not closed under it.
CAST_DTYPES = {**DTYPES, "f8e8m0": "float8_e8m0fnu"}
VERSION = Version("Round-5", "openvino Round-5", tuple(DTYPES), ("opset5",), model_version="5")
CONVERT_VERSION = Version("Convert-1", "openvino Convert-1", tuple(CAST_DTYPES), ("opset1",))
_ROUNDINGS = {"Floor": Rounding.TOWARD_NEGATIVE, "Ceiling": Rounding.TOWARD_POSITIVE}
DEFAULT_MODE = "half_to_even"


class OpenVINOData(Strict):
    """The layer's attributes."""

    mode: Annotated[str, OneOf(VERSION.title, enumeration(MODES))] = Field(
        default=DEFAULT_MODE,
        description=f"The rule for halves, {DEFAULT_MODE} by default. Both modes return integers "
        "unchanged.",
    )


#: Round-5 allows "any numeric type". These types of OpenVINO are refused, with the reason.
_REASONS = {
    **dict.fromkeys(("u1", "u2", "u3", "u6", "nf4"), "its elements are storage codes"),
    "f8e8m0": NOT_CLOSED,
}
_REJECTED: dict[str | int, str] = {
    name: f"got {name}: {why}, and OpenVINO's own evaluation of Round rejects it too; "
    f"{VERSION.takes}"
    for name, why in _REASONS.items()
}


class OpenVINOTensor(Strict):
    """A tensor of OpenVINO's element types, packed in C order."""

    element_type: Annotated[str, OneOf(VERSION.title, enumeration(DTYPES), _REJECTED)]
    shape: Shape


#: Types of Convert that are not served, with the reason.
_CONVERT_REJECTED: dict[str | int, str] = {
    "boolean": "got boolean: a conversion of boolean rounds nothing; compare with 0, or select "
    f"0 and 1. {CONVERT_VERSION.takes}",
}
_CONVERT_TYPE = OneOf(CONVERT_VERSION.title, enumeration(CAST_DTYPES), _CONVERT_REJECTED)


class OpenVINOConvertTensor(Strict):
    """The operand of a Convert, packed in C order."""

    element_type: Annotated[str, _CONVERT_TYPE]
    shape: Shape


class OpenVINOConvertData(Strict):
    """The attributes of a Convert."""

    destination_type: Annotated[str, _CONVERT_TYPE] = Field(description="The target type.")


class OpenVINODescriptor(OperatorDescriptor):
    """OpenVINO Round-5: to the nearest integer, halves by ``mode``."""

    example: ClassVar[dict[str, Any]] = {
        "dialect": "openvino",
        "type": "Round",
        "version": "opset5",
        "data": {"mode": "half_to_even"},
        "input": {"element_type": "f32", "shape": [2, 3]},
    }

    dialect: Literal["openvino"] = "openvino"
    type: Literal["Round"]
    version: Literal["opset5"] = Field(
        default="opset5", description="The operation set; opset5 by default."
    )
    data: OpenVINOData | None = Field(
        default=None, description="Attributes; null has the defaults."
    )
    input: OpenVINOTensor

    @property
    def mode(self) -> str:
        """The rule for halves: that of ``data``, or the default."""
        return DEFAULT_MODE if self.data is None else self.data.mode

    def resolve(self) -> Call:
        """The call of this descriptor; raises :class:`InvalidDescriptor`."""
        dtype, shape = DTYPES[self.input.element_type], self.input.shape
        return Call.packed(MODES[self.mode], dtype, shape, ("input",))


class OpenVINOFloorDescriptor(OperatorDescriptor):
    """OpenVINO Floor-1 or Ceiling-1."""

    example: ClassVar[dict[str, Any]] = {
        "dialect": "openvino",
        "type": "Floor",
        "version": "opset1",
        "input": {"element_type": "f32", "shape": [2, 3]},
    }

    dialect: Literal["openvino"] = "openvino"
    type: Literal["Floor", "Ceiling"]
    version: Literal["opset1"] = Field(
        default="opset1", description="The operation set; opset1 by default."
    )
    input: OpenVINOTensor

    def resolve(self) -> Call:
        """The call of this descriptor; raises :class:`InvalidDescriptor`."""
        dtype, shape = DTYPES[self.input.element_type], self.input.shape
        return Call.packed(_ROUNDINGS[self.type], dtype, shape, ("input",))


class OpenVINOConvertDescriptor(OperatorDescriptor):
    """OpenVINO Convert-1: to another type."""

    example: ClassVar[dict[str, Any]] = {
        "dialect": "openvino",
        "type": "Convert",
        "version": "opset1",
        "data": {"destination_type": "f16"},
        "input": {"element_type": "f32", "shape": [2, 3]},
    }

    dialect: Literal["openvino"] = "openvino"
    type: Literal["Convert"]
    version: Literal["opset1"] = Field(
        default="opset1", description="The operation set; opset1 by default."
    )
    data: OpenVINOConvertData
    input: OpenVINOConvertTensor

    def resolve(self) -> Call:
        """The call of this descriptor; raises :class:`InvalidDescriptor`."""
        dtype = BY_NAME[CAST_DTYPES[self.input.element_type]]
        source = Layout.of(dtype, self.input.shape, loc=("input",))
        return Call.converting(source, CAST_DTYPES[self.data.destination_type])


@dataclass(frozen=True, slots=True)
class OpenVINORound(RoundOperator):
    """OpenVINO Round-5; ``mode`` is ``half_to_even`` or ``half_away_from_zero``.

    ``dtype`` and ``shape`` are the tensor of a layer in an IR.
    """

    _paths: ClassVar[Mapping[str, str]] = {"mode": "mode"}

    mode: OpenVINOMode = "half_to_even"
    dtype: DTypeName | None = field(default=None, compare=False, repr=False, kw_only=True)
    shape: tuple[int, ...] | None = field(default=None, compare=False, repr=False, kw_only=True)

    def descriptor(
        self, dtype: AnyDType | None = None, shape: Sequence[int] | None = None
    ) -> OpenVINODescriptor:
        """The ``openvino`` descriptor for a tensor; arguments default to the layer's tensor."""
        return OpenVINODescriptor.read(
            {
                "type": "Round",
                "version": "opset5",
                "data": {"mode": self.mode},
                "input": _tensor(self, dtype, shape),
            }
        )


def _tensor(
    layer: OpenVINORound | _Unary | OpenVINOConvert,
    dtype: AnyDType | None,
    shape: Sequence[int] | None,
) -> dict[str, Any]:
    """The input: of a dtype and shape, or of the layer."""
    name = canonical_name(layer.dtype if dtype is None else dtype)
    sizes = sizes_of(layer.shape if shape is None else shape)
    return {"element_type": name_in(CAST_DTYPES, name), "shape": sizes}


@dataclass(frozen=True, slots=True)
class _Unary(RoundOperator):
    _type: ClassVar[str]

    dtype: DTypeName | None = field(default=None, compare=False, repr=False, kw_only=True)
    shape: tuple[int, ...] | None = field(default=None, compare=False, repr=False, kw_only=True)

    def descriptor(
        self, dtype: AnyDType | None = None, shape: Sequence[int] | None = None
    ) -> OpenVINOFloorDescriptor:
        """The ``openvino`` descriptor for a tensor; arguments default to the layer's tensor."""
        tensor = _tensor(self, dtype, shape)
        document = {"type": self._type, "version": "opset1", "input": tensor}
        return OpenVINOFloorDescriptor.read(document)


@dataclass(frozen=True, slots=True)
class OpenVINOFloor(_Unary):
    """OpenVINO Floor-1; ``dtype`` and ``shape`` are the tensor of a layer in an IR."""

    _type: ClassVar[str] = "Floor"


@dataclass(frozen=True, slots=True)
class OpenVINOCeiling(_Unary):
    """OpenVINO Ceiling-1; ``dtype`` and ``shape`` are the tensor of a layer in an IR."""

    _type: ClassVar[str] = "Ceiling"


@dataclass(frozen=True, slots=True)
class OpenVINOConvert(CastOperator):
    """OpenVINO Convert-1 to the type ``to``.

    ``dtype`` and ``shape`` are the operand of a layer in an IR.
    """

    to: AnyDType
    dtype: DTypeName | None = field(default=None, compare=False, repr=False, kw_only=True)
    shape: tuple[int, ...] | None = field(default=None, compare=False, repr=False, kw_only=True)

    def descriptor(
        self, dtype: AnyDType | None = None, shape: Sequence[int] | None = None
    ) -> OpenVINOConvertDescriptor:
        """The ``openvino`` descriptor for a tensor; arguments default to the layer's tensor."""
        target = name_in(CAST_DTYPES, canonical_name(self.to))
        document = {
            "type": "Convert",
            "version": "opset1",
            "data": {"destination_type": target},
            "input": _tensor(self, dtype, shape),
        }
        return OpenVINOConvertDescriptor.read(document)


def _operator(made: type[_Unary]) -> Operator:
    name = made._type
    version = Version(f"{name}-1", f"openvino {name}-1", tuple(DTYPES), ("opset1",))
    return Operator(
        name=name,
        descriptor=OpenVINOFloorDescriptor,
        object=made,
        model=ModelNames(f"openvino_{name.lower()}"),
        words=Words(name),
        version_field="version",
        versions=(version,),
        dtypes=DTYPES,
        default_rounding=_ROUNDINGS[name],
    )


DIALECT = Dialect(
    title="OpenVINO",
    operator_field="type",
    operators=(
        Operator(
            name="Round",
            descriptor=OpenVINODescriptor,
            object=OpenVINORound,
            model=ModelNames("openvino_round", mode_parameter="mode"),
            words=Words("", ("MODE",), ", ".join(MODES)),
            version_field="version",
            versions=(VERSION,),
            dtypes=DTYPES,
            mode_field="data.mode",
            modes=MODES,
        ),
        _operator(OpenVINOFloor),
        _operator(OpenVINOCeiling),
        Operator(
            name="Convert",
            descriptor=OpenVINOConvertDescriptor,
            object=OpenVINOConvert,
            model=ModelNames("openvino_convert"),
            words=Words("Convert"),
            version_field="version",
            versions=(CONVERT_VERSION,),
            dtypes=CAST_DTYPES,
            target_field="data.destination_type",
            unspecified={**FLOAT_TO_INTEGER, **NAN_TO_FLOAT},
        ),
    ),
)
