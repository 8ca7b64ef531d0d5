"""The ``directml`` dialect: ``DML_ELEMENT_WISE_ROUND_OPERATOR_DESC``.

``type`` and ``desc`` have the form of DxDispatch, DirectML's own runner: enumerators with or
without their prefix; here also as the C integer. ``feature_level`` is the device's; it decides
how many dimensions a tensor may have. Tensors have the fields of the C structs, and the rules of
``DML_BUFFER_TENSOR_DESC``.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any, ClassVar, Literal, get_args

from pydantic import Discriminator, Field, Tag

from ...call import Call
from ...dtypes import BY_NAME, AnyDType, DType
from ...errors import Fault, InvalidDescriptor
from ...functions import RoundToIntegral
from ...layout import FieldNames, Layout, layout_faults, packed_strides, span
from ...quoting import shown
from ...rounding import Rounding
from ..dialect import Dialect, ModelNames, Version, Words, overlap_fault
from ..model import UNION_TAG, OneOf, OperatorDescriptor, PerDimension, Strict, c_enumeration
from ..operator import RoundOperator, canonical_name, name_in, sizes_of

__all__ = ["BufferTensorDesc", "DirectMLDescriptor", "DirectMLRound", "ElementWiseRoundDesc"]

#: Without the C prefix, with it, or the C integer.
DirectMLMode = Literal[
    "HALVES_TO_NEAREST_EVEN", "TOWARD_ZERO", "TOWARD_INFINITY",
    "DML_ROUNDING_MODE_HALVES_TO_NEAREST_EVEN", "DML_ROUNDING_MODE_TOWARD_ZERO",
    "DML_ROUNDING_MODE_TOWARD_INFINITY",
    0, 1, 2,
]  # fmt: skip
#: Likewise.
FeatureLevel = Literal[
    "2_1", "3_0", "3_1", "4_0", "4_1", "5_0", "5_1", "5_2", "6_0", "6_1", "6_2", "6_3", "6_4",
    "DML_FEATURE_LEVEL_2_1", "DML_FEATURE_LEVEL_3_0", "DML_FEATURE_LEVEL_3_1",
    "DML_FEATURE_LEVEL_4_0", "DML_FEATURE_LEVEL_4_1", "DML_FEATURE_LEVEL_5_0",
    "DML_FEATURE_LEVEL_5_1", "DML_FEATURE_LEVEL_5_2", "DML_FEATURE_LEVEL_6_0",
    "DML_FEATURE_LEVEL_6_1", "DML_FEATURE_LEVEL_6_2", "DML_FEATURE_LEVEL_6_3",
    "DML_FEATURE_LEVEL_6_4",
    0x2100, 0x3000, 0x3100, 0x4000, 0x4100, 0x5000, 0x5100, 0x5200, 0x6000, 0x6100, 0x6200, 0x6300,
    0x6400,
]  # fmt: skip

#: DML_TENSOR_DATA_TYPE: DirectML's names, their C integers, and the dtypes.
_DATA_TYPES = (
    ("FLOAT32", 1, "float32"),
    ("FLOAT16", 2, "float16"),
    ("FLOAT64", 9, "float64"),
    ("UINT8", 5, "uint8"),
    ("UINT16", 4, "uint16"),
    ("UINT32", 3, "uint32"),
    ("UINT64", 10, "uint64"),
    ("INT8", 8, "int8"),
    ("INT16", 7, "int16"),
    ("INT32", 6, "int32"),
    ("INT64", 11, "int64"),
)
DTYPES = {name: dtype for name, _, dtype in _DATA_TYPES}
DTYPE_VALUES = {name: value for name, value, _ in _DATA_TYPES}
#: The data types that ELEMENT_WISE_ROUND accepts, at every feature level.
_ACCEPTED = ("FLOAT32", "FLOAT16")

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

_TITLE = "directml: ELEMENT_WISE_ROUND"
_UINT32, _UINT64 = 2**32 - 1, 2**64 - 1
_NAMES = FieldNames("Sizes", "Strides", "TotalTensorSizeInBytes")

_DATA_TYPE_SPELLINGS = c_enumeration(
    "DML_TENSOR_DATA_TYPE_", {name: DTYPE_VALUES[name] for name in _ACCEPTED}
)
_FLAGS = c_enumeration("DML_TENSOR_FLAG_", {"NONE": 0, "OWNED_BY_DML": 1})
_TENSOR_TYPES = c_enumeration("DML_TENSOR_TYPE_", {"BUFFER": 1})

_TensorType = Annotated[str | int, OneOf("directml: a tensor's Type", _TENSOR_TYPES)]
_UInt32 = Annotated[int, Field(ge=0, le=_UINT32)]
_UInt64 = Annotated[int, Field(ge=0, le=_UINT64)]
#: "Specifying a size of zero in any dimension is invalid" (DML_BUFFER_TENSOR_DESC).
_DimensionSize = Annotated[int, Field(ge=1, le=_UINT32)]


class BufferDesc(Strict):
    """DML_BUFFER_TENSOR_DESC."""

    DataType: Annotated[str | int, OneOf(_TITLE, _DATA_TYPE_SPELLINGS)]
    Flags: Annotated[str | int, OneOf("directml: a tensor's Flags", _FLAGS)] = Field(
        default="NONE",
        description="NONE by default; OWNED_BY_DML is for inputs only. Neither has an effect here.",
    )
    DimensionCount: _UInt32 | None = Field(default=None, description="The number of Sizes.")
    Sizes: Annotated[Sequence[int], PerDimension(_DimensionSize)] = Field(
        description="Elements along each dimension; none may be 0."
    )
    Strides: Annotated[Sequence[int], PerDimension(_UInt32)] | None = Field(
        default=None,
        description="Steps between neighbours, in elements; null is packed C order. "
        "0 repeats an element (input only).",
    )
    TotalTensorSizeInBytes: _UInt64 | None = Field(
        default=None,
        description="Bytes of the whole buffer; null is the end of the last element, rounded up to "
        "a multiple of 4.",
    )
    GuaranteedBaseOffsetAlignment: _UInt32 | None = Field(
        default=None,
        description="null (the default) or 0, or a power of two of at least the element's size. It "
        "has no effect here.",
    )

    @property
    def dtype(self) -> DType:
        """The element type."""
        return BY_NAME[DTYPES[str(self.DataType)]]

    @property
    def unrounded_bytes(self) -> int:
        """The end of the last element in bytes, before it is rounded up to a multiple of 4."""
        strides = packed_strides(self.Sizes) if self.Strides is None else self.Strides
        return span(self.Sizes, strides) * self.dtype.itemsize

    @property
    def layout(self) -> Layout:
        """The layout; call it on a tensor without faults."""
        total = self.TotalTensorSizeInBytes
        length = _round_up_to_4(self.unrounded_bytes) if total is None else total
        return Layout.of(self.dtype, self.Sizes, self.Strides, length)

    def faults(self, loc: tuple[str | int, ...]) -> list[Fault]:
        """The broken rules of DML_BUFFER_TENSOR_DESC, with paths that begin with ``loc``."""
        rank, elements = len(self.Sizes), math.prod(self.Sizes)
        alignment, itemsize = self.GuaranteedBaseOffsetAlignment, self.dtype.itemsize
        broken: dict[str, str] = {}
        if self.DimensionCount not in (None, rank):
            broken["DimensionCount"] = f"must be {rank}, as Sizes has, got {self.DimensionCount}"
        if elements > _UINT32:
            broken["Sizes"] = f"a tensor has at most 2^32-1 elements, got {shown(elements)}"
        if alignment and (alignment.bit_count() > 1 or alignment < itemsize):
            broken["GuaranteedBaseOffsetAlignment"] = (
                f"must be 0 or a power of two of at least {itemsize}, an element's bytes, "
                f"got {alignment}"
            )
        faults = layout_faults(self.dtype, self.Sizes, self.Strides, None, loc=loc, names=_NAMES)
        total = self.TotalTensorSizeInBytes
        if total is not None and not faults:
            least = _round_up_to_4(self.unrounded_bytes)
            if total % 4:
                broken["TotalTensorSizeInBytes"] = f"must be a multiple of 4, got {total}"
            elif total < least:
                broken["TotalTensorSizeInBytes"] = (
                    f"must be at least {least}, the end of the last element rounded up to 4, "
                    f"got {total}"
                )
        return faults + [Fault((*loc, field), f"directml: {why}") for field, why in broken.items()]


class BufferTensorDesc(BufferDesc):
    """DML_BUFFER_TENSOR_DESC, or a DML_TENSOR_DESC with the fields of its Desc beside its Type."""

    Type: _TensorType = Field(default="BUFFER", description="BUFFER by default.")

    @property
    def buffer(self) -> tuple[BufferDesc, tuple[str, ...]]:
        """The buffer's description, and the path to it from this object."""
        return self, ()


class TensorDesc(Strict):
    """DML_TENSOR_DESC."""

    Type: _TensorType = Field(default="BUFFER", description="BUFFER by default.")
    Desc: BufferDesc

    @property
    def buffer(self) -> tuple[BufferDesc, tuple[str, ...]]:
        """The buffer's description, and the path to it from this object."""
        return self.Desc, ("Desc",)


_FLAT, _NESTED = UNION_TAG + "flat", UNION_TAG + "nested"


def _form(value: Any) -> str:
    nested = "Desc" in value if isinstance(value, dict) else isinstance(value, TensorDesc)
    return _NESTED if nested else _FLAT


AnyTensorDesc = Annotated[
    Annotated[BufferTensorDesc, Tag(_FLAT)] | Annotated[TensorDesc, Tag(_NESTED)],
    Discriminator(_form),
]


def _round_up_to_4(length: int) -> int:
    """The next multiple of 4 bytes, as DirectML's buffer sizes are."""
    return (length + 3) // 4 * 4


def _numbers(*levels: str) -> dict[str, int]:
    """Feature levels, and their C integers: a hexadecimal digit each for major and minor."""
    return {level: int(level.replace("_", ""), 16) << 8 for level in levels}


_LEVELS = _numbers(*(level for level in get_args(FeatureLevel) if str(level)[1:2] == "_"))
VERSIONS: dict[str, Version] = {
    level: Version(
        name=level,
        title=f"directml {level}: ELEMENT_WISE_ROUND",
        selected_by=(level,),
        dtypes=_ACCEPTED,
        min_rank=4 if level == "2_1" else 1,
        max_rank=4 if level == "2_1" else 8,
        model_version=level,
        attributes={"feature_level": level},
    )
    for level in _LEVELS
}
_LEVEL_PREFIX = "DML_FEATURE_LEVEL_"
_TOO_OLD = {
    spelling: f"directml: ELEMENT_WISE_ROUND was introduced in feature level 2_1, got {level}"
    for spelling, level in c_enumeration(_LEVEL_PREFIX, _numbers("1_0", "2_0")).items()
}
_Level = Annotated[
    str | int,
    OneOf(
        "directml: a feature level",
        c_enumeration(_LEVEL_PREFIX, _LEVELS),
        _TOO_OLD,
    ),
]
_OPERATORS = c_enumeration("DML_OPERATOR_", {"ELEMENT_WISE_ROUND": 99})
_OperatorType = Annotated[str | int, OneOf("directml: this dialect", _OPERATORS)]
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


class DirectMLDescriptor(OperatorDescriptor):
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

    dialect: Literal["directml"] = "directml"
    feature_level: _Level
    type: _OperatorType
    desc: ElementWiseRoundDesc

    def resolve(self) -> Call:
        """The call of this descriptor; raises :class:`InvalidDescriptor`."""
        source, source_path = self.desc.InputTensor.buffer
        target, target_path = self.desc.OutputTensor.buffer
        source_loc = ("desc", "InputTensor", *source_path)
        target_loc = ("desc", "OutputTensor", *target_path)
        faults = [
            *VERSIONS[str(self.feature_level)].rank_faults(
                len(source.Sizes), (*source_loc, "Sizes")
            ),
            *_disagreements(source, target, target_loc),
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
        return Call(RoundToIntegral(MODES[str(self.desc.RoundingMode)]), input, output, shortest)


def _disagreements(
    source: BufferDesc, target: BufferDesc, loc: tuple[str | int, ...]
) -> list[Fault]:
    def fault(field: str, why: str = "") -> Fault:
        return Fault((*loc, field), f"directml: must equal the InputTensor's {field}{why}")

    faults = [fault("DataType")] if source.DataType != target.DataType else []
    if (rank := len(source.Sizes)) != (got := len(target.Sizes)):
        faults.append(fault("DimensionCount", f", {rank}, got {got}"))
    elif source.Sizes != target.Sizes:
        faults.append(fault("Sizes"))
    if target.Flags == "OWNED_BY_DML":
        faults.append(Fault((*loc, "Flags"), "directml: OWNED_BY_DML is for inputs only"))
    return faults


@dataclass(frozen=True, slots=True)
class DirectMLRound(RoundOperator):
    """DirectML's ELEMENT_WISE_ROUND, on float32 and float16.

    ``rounding_mode`` is ``HALVES_TO_NEAREST_EVEN``, ``TOWARD_ZERO`` or ``TOWARD_INFINITY``
    (nearest, halves away from zero), with or without ``DML_ROUNDING_MODE_``, or the C integer.
    ``tensors`` are the two of DxDispatch's JSON.
    """

    _paths: ClassVar[Mapping[str, str]] = {
        "rounding_mode": "desc.RoundingMode",
        "feature_level": "feature_level",
    }

    rounding_mode: DirectMLMode = _DEFAULT_MODE
    feature_level: FeatureLevel = "3_0"
    tensors: tuple[AnyTensorDesc, AnyTensorDesc] | None = field(
        default=None, compare=False, repr=False, kw_only=True
    )

    def descriptor(
        self, dtype: AnyDType | None = None, shape: Sequence[int] | None = None
    ) -> DirectMLDescriptor:
        """The ``directml`` descriptor, on the stated tensors or on two equal packed ones."""
        stated, tensor = self.tensors if dtype is None and shape is None else None, None
        if stated is None:
            tensor = {
                "DataType": name_in(DTYPES, canonical_name(dtype)),
                "Sizes": sizes_of(shape),
            }
        return DirectMLDescriptor.read(
            {
                "feature_level": self.feature_level,
                "type": "DML_OPERATOR_ELEMENT_WISE_ROUND",
                "desc": {
                    "InputTensor": tensor if stated is None else stated[0],
                    "OutputTensor": tensor if stated is None else stated[1],
                    "RoundingMode": self.rounding_mode,
                },
            }
        )

    def flat_shape(self, count: int) -> tuple[int, ...]:
        """Four dimensions, which every feature level accepts."""
        return (1, 1, 1, count)


DIALECT = Dialect(
    title="DirectML",
    operator="ELEMENT_WISE_ROUND",
    descriptor=DirectMLDescriptor,
    object=DirectMLRound,
    model=ModelNames("directml_element_wise_round", "InputTensor", "OutputTensor", "rounding_mode"),
    words=Words(("MODE", "FEATURE_LEVEL"), ", ".join(MODES), required=1),
    version_field="feature_level",
    versions=tuple(VERSIONS.values()),
    dtypes={name: DTYPES[name] for name in _ACCEPTED},
    mode_field="desc.RoundingMode",
    modes=MODES,
)
