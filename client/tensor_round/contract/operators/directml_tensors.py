"""DirectML's tensors: DML_TENSOR_DESC and the rules of DML_BUFFER_TENSOR_DESC."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Annotated, Any, Literal

from pydantic import Discriminator, Field, Tag

from ..dtypes import BY_NAME, DType
from ..errors import Fault
from ..layout import FieldNames, Layout, layout_faults, packed_strides, span
from ..quoting import shown
from .model import UNION_TAG, OneOf, PerDimension, Strict, c_enumeration

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
#: For editors to complete; with the C prefix and as the C integer, too.
DataTypeName = Literal[
    "FLOAT32", "FLOAT16", "FLOAT64", "UINT8", "UINT16", "UINT32", "UINT64",
    "INT8", "INT16", "INT32", "INT64",
]  # fmt: skip
_UINT32, _UINT64 = 2**32 - 1, 2**64 - 1
_NAMES = FieldNames("Sizes", "Strides", "TotalTensorSizeInBytes")

_DATA_TYPE_SPELLINGS = c_enumeration("DML_TENSOR_DATA_TYPE_", DTYPE_VALUES)
_FLAGS = c_enumeration("DML_TENSOR_FLAG_", {"NONE": 0, "OWNED_BY_DML": 1})
_TENSOR_TYPES = c_enumeration("DML_TENSOR_TYPE_", {"BUFFER": 1})

_TensorType = Annotated[str | int, OneOf("directml: a tensor's Type", _TENSOR_TYPES)]
_UInt32 = Annotated[int, Field(ge=0, le=_UINT32)]
_UInt64 = Annotated[int, Field(ge=0, le=_UINT64)]
#: "Specifying a size of zero in any dimension is invalid" (DML_BUFFER_TENSOR_DESC).
_DimensionSize = Annotated[int, Field(ge=1, le=_UINT32)]


class BufferDesc(Strict):
    """DML_BUFFER_TENSOR_DESC."""

    DataType: Annotated[
        DataTypeName | str | int, OneOf("directml: a tensor's DataType", _DATA_TYPE_SPELLINGS)
    ]
    Flags: Annotated[str | int, OneOf("directml: a tensor's Flags", _FLAGS)] | None = Field(
        default="NONE",
        description="null is NONE (the default); OWNED_BY_DML is for inputs only. Neither has an "
        "effect here.",
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

    def layout_among(self, sizes: Sequence[int]) -> Layout:
        """The layout in a payload of several tensors, which is not rounded up to 4 bytes.

        ``sizes`` have a 1 in each dimension along which elements are repeated, or the tensor's.
        """
        total = self.TotalTensorSizeInBytes
        length = self.unrounded_bytes if total is None else total
        return Layout.of(self.dtype, sizes, self.Strides, length)

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
