"""The ``directml`` dialect: DirectML's operators that round.

``type`` and ``desc`` have the form of DxDispatch, DirectML's own runner: enumerators with or
without their prefix; here also as the C integer. ``feature_level`` is the device's; it decides
how many dimensions a tensor may have. Tensors have the fields of the C structs, and the rules of
``DML_BUFFER_TENSOR_DESC``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field, WithJsonSchema

from ...call import Call
from ...dtypes import AnyDType
from ...errors import Fault, InvalidDescriptor
from ...functions import Convert, RoundToIntegral
from ...rounding import Rounding
from ..dialect import (
    FLOAT_TO_INTEGER,
    Dialect,
    ModelNames,
    Operator,
    Version,
    Words,
    overlap_fault,
)
from ..directml_levels import (
    LEVEL_PREFIX,
    LEVELS,
    OPERATORS,
    AnyFeatureLevel,
    FeatureLevel,
    Level,
    numbers_of,
    only,
    versions_by_level,
)
from ..directml_tensors import DTYPES, AnyTensorDesc, BufferDesc, BufferTensorDesc
from ..model import OneOf, OperatorDescriptor, Strict, c_enumeration
from ..operator import CastOperator, RoundOperator, canonical_name, name_in, sizes_of
from .directml_linear import (
    ROWS,
    DirectMLDequantizeLinear,
    DirectMLDequantizeLinearDescriptor,
    DirectMLQuantizeLinear,
    DirectMLQuantizeLinearDescriptor,
    ElementWiseQuantizeLinearDesc,
)

__all__ = [
    "BufferTensorDesc",
    "CastDesc",
    "DirectMLCast",
    "DirectMLCastDescriptor",
    "DirectMLCeil",
    "DirectMLDequantizeLinear",
    "DirectMLDequantizeLinearDescriptor",
    "DirectMLDescriptor",
    "DirectMLFloor",
    "DirectMLFloorDescriptor",
    "DirectMLQuantizeLinear",
    "DirectMLQuantizeLinearDescriptor",
    "DirectMLRound",
    "ElementWiseFloorDesc",
    "ElementWiseQuantizeLinearDesc",
    "ElementWiseRoundDesc",
]

#: Without the C prefix, with it, or the C integer.
DirectMLMode = Literal[
    "HALVES_TO_NEAREST_EVEN", "TOWARD_ZERO", "TOWARD_INFINITY",
    "DML_ROUNDING_MODE_HALVES_TO_NEAREST_EVEN", "DML_ROUNDING_MODE_TOWARD_ZERO",
    "DML_ROUNDING_MODE_TOWARD_INFINITY",
    0, 1, 2,
]  # fmt: skip
#: The data types that rounding accepts, at every feature level.
_ROUNDED = ("FLOAT32", "FLOAT16")
#: Those of CAST from a feature level on: the newest that is not newer counts.
_CAST_TYPES = {
    "1_0": (*_ROUNDED, "INT16", "INT8", "UINT16", "UINT8"),
    "3_0": tuple(name for name in DTYPES if name != "FLOAT64"),
    "4_1": tuple(DTYPES),
}

#: DML_ROUNDING_MODE: names, C integers, and the directions. TOWARD_INFINITY is not directed: it is
#: nearest, with halves away from zero. CEIL and FLOOR are separate operators.
_MODES = (
    ("HALVES_TO_NEAREST_EVEN", 0, Rounding.TIES_TO_EVEN),
    ("TOWARD_INFINITY", 2, Rounding.TIES_TO_AWAY),
    ("TOWARD_ZERO", 1, Rounding.TOWARD_ZERO),
)
MODES = {name: rounding for name, _, rounding in _MODES}
MODE_VALUES = {name: value for name, value, _ in _MODES}
#: The mode of a descriptor without RoundingMode: the C enumeration's 0.
_DEFAULT_MODE: DirectMLMode = "HALVES_TO_NEAREST_EVEN"


#: By the canonical name of the operator, and the feature level.
VERSIONS: dict[str, dict[str, Version]] = {
    "ELEMENT_WISE_ROUND": versions_by_level("ELEMENT_WISE_ROUND", "3_0", {"2_1": _ROUNDED}),
    "ELEMENT_WISE_FLOOR": versions_by_level("ELEMENT_WISE_FLOOR", "3_0", {"1_0": _ROUNDED}),
    "ELEMENT_WISE_CEIL": versions_by_level("ELEMENT_WISE_CEIL", "3_0", {"1_0": _ROUNDED}),
    "CAST": versions_by_level("CAST", "3_1", _CAST_TYPES),
}
_TOO_OLD = {
    spelling: f"directml: ELEMENT_WISE_ROUND was introduced in feature level 2_1, got {level}"
    for spelling, level in c_enumeration(LEVEL_PREFIX, numbers_of("1_0", "2_0")).items()
}
_Level = Annotated[
    str | int,
    OneOf(
        "directml: a feature level",
        c_enumeration(LEVEL_PREFIX, LEVELS),
        _TOO_OLD,
    ),
]
_Mode = Annotated[
    str | int,
    OneOf("directml: ELEMENT_WISE_ROUND", c_enumeration("DML_ROUNDING_MODE_", MODE_VALUES)),
]


class ElementWiseRoundDesc(Strict):
    """DML_ELEMENT_WISE_ROUND_OPERATOR_DESC."""

    InputTensor: AnyTensorDesc
    OutputTensor: AnyTensorDesc = Field(
        description="Of the input's DataType and Sizes; its Strides and TotalTensorSizeInBytes "
        "are the output's layout."
    )
    RoundingMode: _Mode = Field(
        default=_DEFAULT_MODE,
        description="TOWARD_INFINITY is nearest with halves away from zero; TOWARD_ZERO truncates. "
        f"The default is {_DEFAULT_MODE}.",
    )


_EMPTY = {"type": "object", "maxProperties": 0}


class ElementWiseFloorDesc(Strict):
    """DML_ELEMENT_WISE_FLOOR_OPERATOR_DESC, and that of ELEMENT_WISE_CEIL."""

    InputTensor: AnyTensorDesc
    OutputTensor: AnyTensorDesc = Field(
        description="Of the input's DataType and Sizes; its Strides and TotalTensorSizeInBytes "
        "are the output's layout."
    )
    # Generators of clients leave out a field that can be nothing but null.
    ScaleBias: Annotated[None, WithJsonSchema({"anyOf": [_EMPTY, {"type": "null"}]})] = Field(
        default=None, description="null: a scale and a bias are no part of rounding."
    )


class CastDesc(Strict):
    """DML_CAST_OPERATOR_DESC."""

    InputTensor: AnyTensorDesc
    OutputTensor: AnyTensorDesc = Field(
        description="Of the input's Sizes; its DataType is the target type."
    )


class _DirectMLDescriptor(OperatorDescriptor):
    dialect: Literal["directml"] = "directml"
    feature_level: Any
    type: Any
    desc: Any

    def _call(self, *, is_cast: bool = False, rounding: Rounding | None = None) -> Call:
        """The call on the two tensors; raises :class:`InvalidDescriptor`."""
        source, source_path = self.desc.InputTensor.buffer
        target, target_path = self.desc.OutputTensor.buffer
        source_loc = ("desc", "InputTensor", *source_path)
        target_loc = ("desc", "OutputTensor", *target_path)
        version = VERSIONS[str(self.type)][str(self.feature_level)]
        faults = [
            *version.rank_faults(len(source.Sizes), (*source_loc, "Sizes")),
            *(
                Fault((*loc, "DataType"), f"got {tensor.DataType}; {version.takes}")
                for tensor, loc in ((source, source_loc), (target, target_loc))
                if tensor.DataType not in version.dtypes
            ),
            *_disagreements(source, target, target_loc, is_cast=is_cast),
            *source.faults(source_loc),
            *target.faults(target_loc),
        ]
        if faults:
            raise InvalidDescriptor.of(faults)
        input, output = source.layout, target.layout
        if not output.is_free_of_overlap:
            raise InvalidDescriptor.of([overlap_fault("directml", (*target_loc, "Strides"))])
        has_length = source.TotalTensorSizeInBytes is not None
        shortest = input.byte_length if has_length else source.unrounded_bytes
        if rounding is None:
            return Call(Convert.between(input.dtype, output.dtype), input, output, shortest)
        return Call(RoundToIntegral(rounding), input, output, shortest)


class DirectMLDescriptor(_DirectMLDescriptor):
    """DirectML's ELEMENT_WISE_ROUND, in DxDispatch's form."""

    example: ClassVar[dict[str, Any]] = {
        "dialect": "directml",
        "feature_level": "3_0",
        "type": "DML_OPERATOR_ELEMENT_WISE_ROUND",
        "desc": {
            "InputTensor": {"DataType": "FLOAT32", "Sizes": [2, 3]},
            "OutputTensor": {"DataType": "FLOAT32", "Sizes": [2, 3]},
            "RoundingMode": "HALVES_TO_NEAREST_EVEN",
        },
    }

    feature_level: _Level
    type: Annotated[str | int, only("ELEMENT_WISE_ROUND")]
    desc: ElementWiseRoundDesc

    def resolve(self) -> Call:
        """The call of this descriptor; raises :class:`InvalidDescriptor`."""
        return self._call(rounding=MODES[str(self.desc.RoundingMode)])


_DIRECTED = {
    "ELEMENT_WISE_FLOOR": Rounding.TOWARD_NEGATIVE,
    "ELEMENT_WISE_CEIL": Rounding.TOWARD_POSITIVE,
}


class DirectMLFloorDescriptor(_DirectMLDescriptor):
    """DirectML's ELEMENT_WISE_FLOOR or ELEMENT_WISE_CEIL, in DxDispatch's form."""

    example: ClassVar[dict[str, Any]] = {
        "dialect": "directml",
        "feature_level": "3_0",
        "type": "DML_OPERATOR_ELEMENT_WISE_FLOOR",
        "desc": {
            "InputTensor": {"DataType": "FLOAT32", "Sizes": [2, 3]},
            "OutputTensor": {"DataType": "FLOAT32", "Sizes": [2, 3]},
            "ScaleBias": None,
        },
    }

    feature_level: Level
    type: Annotated[str | int, only(*_DIRECTED)]
    desc: ElementWiseFloorDesc

    def resolve(self) -> Call:
        """The call of this descriptor; raises :class:`InvalidDescriptor`."""
        return self._call(rounding=_DIRECTED[str(self.type)])


class DirectMLCastDescriptor(_DirectMLDescriptor):
    """DirectML's CAST, in DxDispatch's form."""

    example: ClassVar[dict[str, Any]] = {
        "dialect": "directml",
        "feature_level": "4_1",
        "type": "DML_OPERATOR_CAST",
        "desc": {
            "InputTensor": {"DataType": "FLOAT32", "Sizes": [2, 3]},
            "OutputTensor": {"DataType": "FLOAT16", "Sizes": [2, 3]},
        },
    }

    feature_level: Level
    type: Annotated[str | int, only("CAST")]
    desc: CastDesc

    def resolve(self) -> Call:
        """The call of this descriptor; raises :class:`InvalidDescriptor`."""
        return self._call(is_cast=True)


def _disagreements(
    source: BufferDesc, target: BufferDesc, loc: tuple[str | int, ...], *, is_cast: bool
) -> list[Fault]:
    def fault(field: str, why: str = "") -> Fault:
        return Fault((*loc, field), f"directml: must equal the InputTensor's {field}{why}")

    faults = []
    if source.DataType != target.DataType and not is_cast:
        faults.append(fault("DataType"))
    if (rank := len(source.Sizes)) != (got := len(target.Sizes)):
        faults.append(fault("DimensionCount", f", {rank}, got {got}"))
    elif source.Sizes != target.Sizes:
        faults.append(fault("Sizes"))
    if target.Flags == "OWNED_BY_DML":
        faults.append(Fault((*loc, "Flags"), "directml: OWNED_BY_DML is for inputs only"))
    return faults


#: The operand and the result.
_Tensors = tuple[AnyTensorDesc, AnyTensorDesc]


@dataclass(frozen=True, slots=True)
class DirectMLRound(RoundOperator):
    """DirectML's ELEMENT_WISE_ROUND, on float32 and float16.

    ``rounding_mode`` is ``HALVES_TO_NEAREST_EVEN``, ``TOWARD_ZERO`` or ``TOWARD_INFINITY``
    (nearest, halves away from zero), with or without ``DML_ROUNDING_MODE_``, or the C integer.
    ``tensors`` are the two of DxDispatch's JSON.
    """

    _flat_rank: ClassVar[int] = 4
    _paths: ClassVar[Mapping[str, str]] = {
        "rounding_mode": "desc.RoundingMode",
        "feature_level": "feature_level",
    }

    rounding_mode: DirectMLMode = _DEFAULT_MODE
    feature_level: FeatureLevel = "3_0"
    tensors: _Tensors | None = field(default=None, compare=False, repr=False, kw_only=True)

    def descriptor(
        self, dtype: AnyDType | None = None, shape: Sequence[int] | None = None
    ) -> DirectMLDescriptor:
        """The ``directml`` descriptor, on the stated tensors or on two equal packed ones."""
        return DirectMLDescriptor.read(
            _document(
                self.feature_level,
                "ELEMENT_WISE_ROUND",
                _tensors(self.tensors, dtype, shape),
                RoundingMode=self.rounding_mode,
            )
        )


def _tensors(
    stated: _Tensors | None,
    dtype: AnyDType | None,
    shape: Sequence[int] | None,
    to: AnyDType | None = None,
) -> Sequence[Any]:
    """The stated tensors, or two packed ones, the second of the type ``to``."""
    if stated is not None and dtype is None and shape is None:
        return stated
    return [
        {"DataType": name_in(DTYPES, canonical_name(each)), "Sizes": sizes_of(shape)}
        for each in (dtype, dtype if to is None else to)
    ]


def _document(
    feature_level: str | int, operator: str, tensors: Sequence[Any], **attributes: Any
) -> dict[str, Any]:
    source, target = tensors
    return {
        "feature_level": feature_level,
        "type": f"DML_OPERATOR_{operator}",
        "desc": {"InputTensor": source, "OutputTensor": target, **attributes},
    }


@dataclass(frozen=True, slots=True)
class _Directed(RoundOperator):
    _operator: ClassVar[str]
    _flat_rank: ClassVar[int] = 4
    _paths: ClassVar[Mapping[str, str]] = {"feature_level": "feature_level"}

    feature_level: AnyFeatureLevel = "3_0"
    tensors: _Tensors | None = field(default=None, compare=False, repr=False, kw_only=True)

    def descriptor(
        self, dtype: AnyDType | None = None, shape: Sequence[int] | None = None
    ) -> DirectMLFloorDescriptor:
        """The ``directml`` descriptor, on the stated tensors or on two equal packed ones."""
        return DirectMLFloorDescriptor.read(
            _document(
                self.feature_level,
                self._operator,
                _tensors(self.tensors, dtype, shape),
                ScaleBias=None,
            )
        )


@dataclass(frozen=True, slots=True)
class DirectMLFloor(_Directed):
    """DirectML's ELEMENT_WISE_FLOOR, on float32 and float16.

    ``tensors`` are the two of DxDispatch's JSON.
    """

    _operator: ClassVar[str] = "ELEMENT_WISE_FLOOR"


@dataclass(frozen=True, slots=True)
class DirectMLCeil(_Directed):
    """DirectML's ELEMENT_WISE_CEIL, on float32 and float16.

    ``tensors`` are the two of DxDispatch's JSON.
    """

    _operator: ClassVar[str] = "ELEMENT_WISE_CEIL"


@dataclass(frozen=True, slots=True)
class DirectMLCast(CastOperator):
    """DirectML's CAST to the type ``to``, with the types and ranks of a feature level.

    ``tensors`` are the two of DxDispatch's JSON.
    """

    _flat_rank: ClassVar[int] = 4
    _paths: ClassVar[Mapping[str, str]] = {"feature_level": "feature_level"}

    to: AnyDType
    feature_level: AnyFeatureLevel = "4_1"
    tensors: _Tensors | None = field(default=None, compare=False, repr=False, kw_only=True)

    def descriptor(
        self, dtype: AnyDType | None = None, shape: Sequence[int] | None = None
    ) -> DirectMLCastDescriptor:
        """The ``directml`` descriptor, on the stated tensors or on two packed ones."""
        return DirectMLCastDescriptor.read(
            _document(self.feature_level, "CAST", _tensors(self.tensors, dtype, shape, self.to))
        )


def _directed(made: type[_Directed]) -> Operator:
    operator = made._operator
    return Operator(
        name=operator,
        descriptor=DirectMLFloorDescriptor,
        object=made,
        model=ModelNames(f"directml_{operator.lower()}", "InputTensor", "OutputTensor"),
        words=Words(operator.removeprefix("ELEMENT_WISE_"), ("FEATURE_LEVEL",)),
        version_field="feature_level",
        versions=tuple(VERSIONS[operator].values()),
        dtypes={name: DTYPES[name] for name in _ROUNDED},
        default_rounding=_DIRECTED[operator],
    )


DIALECT = Dialect(
    title="DirectML",
    operator_field="type",
    spellings=OPERATORS,
    operators=(
        Operator(
            name="ELEMENT_WISE_ROUND",
            descriptor=DirectMLDescriptor,
            object=DirectMLRound,
            model=ModelNames(
                "directml_element_wise_round", "InputTensor", "OutputTensor", "rounding_mode"
            ),
            words=Words("", ("MODE", "FEATURE_LEVEL"), ", ".join(MODES), required=1),
            version_field="feature_level",
            versions=tuple(VERSIONS["ELEMENT_WISE_ROUND"].values()),
            dtypes={name: DTYPES[name] for name in _ROUNDED},
            mode_field="desc.RoundingMode",
            modes=MODES,
        ),
        _directed(DirectMLFloor),
        _directed(DirectMLCeil),
        Operator(
            name="CAST",
            descriptor=DirectMLCastDescriptor,
            object=DirectMLCast,
            model=ModelNames("directml_cast", "InputTensor", "OutputTensor"),
            words=Words("CAST", ("FEATURE_LEVEL",)),
            version_field="feature_level",
            versions=tuple(VERSIONS["CAST"].values()),
            dtypes=DTYPES,
            target_field="desc.OutputTensor.DataType",
            unspecified={
                **FLOAT_TO_INTEGER,
                "float to integer": "toward_zero",
                "to a float": "ties_to_even",
            },
        ),
        *ROWS,
    ),
)
