"""DirectML's tensor descriptions, as DxDispatch writes them in JSON.

Fields have the names of the C structs, so that a fault's path is one the caller
can find. Rules are those of ``DML_BUFFER_TENSOR_DESC``.
"""

from __future__ import annotations

import math
from typing import Annotated, Any

from pydantic import Discriminator, Field, Tag

from ..dtypes import BY_DIRECTML
from ..errors import Fault, InvalidDescriptor
from ..layout import FieldNames, Layout, packed_strides, span
from .faults import UNION_TAG
from .fields import RANK_LIMIT, OneOf, Strict, c_enumeration

#: What ELEMENT_WISE_ROUND takes, at every feature level.
DTYPES = ("FLOAT32", "FLOAT16")
_TITLE = "directml: ELEMENT_WISE_ROUND"
_UINT32, _UINT64 = 2**32 - 1, 2**64 - 1
_NAMES = FieldNames("Sizes", "Strides", "TotalTensorSizeInBytes")

_DATA_TYPES = c_enumeration(
    "DML_TENSOR_DATA_TYPE_",
    {name: number for name in DTYPES if (number := BY_DIRECTML[name].directml_number) is not None},
)
_FLAGS = c_enumeration("DML_TENSOR_FLAG_", {"NONE": 0, "OWNED_BY_DML": 1})
_TENSOR_TYPES = c_enumeration("DML_TENSOR_TYPE_", {"BUFFER": 1})

TensorType = Annotated[str, OneOf("directml: a tensor's Type", _TENSOR_TYPES)]
UInt32 = Annotated[int, Field(ge=0, le=_UINT32)]
UInt64 = Annotated[int, Field(ge=0, le=_UINT64)]
#: "Specifying a size of zero in any dimension is invalid" (DML_BUFFER_TENSOR_DESC).
DimensionSize = Annotated[int, Field(ge=1, le=_UINT32)]


class BufferTensorDesc(Strict):
    """DML_BUFFER_TENSOR_DESC."""

    DataType: Annotated[str, OneOf(_TITLE, _DATA_TYPES)]
    Flags: Annotated[str, OneOf("directml: a tensor's Flags", _FLAGS)] = Field(
        "NONE", description="OWNED_BY_DML is for inputs only, and changes nothing here."
    )
    DimensionCount: UInt32 | None = Field(None, description="If given, how many Sizes there are.")
    Sizes: Annotated[list[DimensionSize], Field(max_length=RANK_LIMIT)] = Field(
        description="Elements along each dimension; none may be 0."
    )
    Strides: Annotated[list[UInt32], Field(max_length=RANK_LIMIT)] | None = Field(
        None,
        description="Steps between neighbours, in elements; null is packed C order. "
        "0 repeats an element (input only).",
    )
    TotalTensorSizeInBytes: UInt64 | None = Field(
        None,
        description="Bytes of the whole buffer; null is up to and including the last element, "
        "rounded up to 4.",
    )
    GuaranteedBaseOffsetAlignment: UInt32 = Field(
        0, description="0, or a power of two of at least the element's size; changes nothing here."
    )

    @property
    def least_bytes(self) -> int:
        """Bytes up to and including the last element, not rounded up."""
        strides = packed_strides(self.Sizes) if self.Strides is None else self.Strides
        return span(self.Sizes, strides) * BY_DIRECTML[self.DataType].itemsize

    def layout(self, loc: tuple[str | int, ...]) -> Layout:
        """The checked layout; raises :class:`InvalidDescriptor` with faults under ``loc``."""
        if faults := self._faults(loc):
            raise InvalidDescriptor.of(faults)
        total = self.TotalTensorSizeInBytes
        return Layout.of(
            BY_DIRECTML[self.DataType],
            self.Sizes,
            self.Strides,
            round_up_to_4(self.least_bytes) if total is None else total,
            loc=loc,
            names=_NAMES,
        )

    def _faults(self, loc: tuple[str | int, ...]) -> list[Fault]:
        rank, alignment = len(self.Sizes), self.GuaranteedBaseOffsetAlignment
        itemsize = BY_DIRECTML[self.DataType].itemsize
        rules: list[tuple[str, bool, str]] = [
            (
                "DimensionCount",
                self.DimensionCount in (None, rank),
                f"must be {rank}, the number of Sizes, got {self.DimensionCount}",
            ),
            (
                "Sizes",
                math.prod(self.Sizes) <= _UINT32,
                f"a tensor has at most 2^32-1 elements, got {math.prod(self.Sizes)}",
            ),
            (
                "Strides",
                self.Strides is None or len(self.Strides) == rank,
                f"must have one entry per dimension, {rank}, got {len(self.Strides or ())}",
            ),
            (
                "GuaranteedBaseOffsetAlignment",
                alignment == 0 or (alignment.bit_count() == 1 and alignment >= itemsize),
                f"must be 0, or a power of two of at least {itemsize}, the element's size, "
                f"got {alignment}",
            ),
        ]
        faults = [
            Fault((*loc, field), f"directml: {why}") for field, kept, why in rules if not kept
        ]
        return faults or self._length_faults(loc)

    def _length_faults(self, loc: tuple[str | int, ...]) -> list[Fault]:
        total, least = self.TotalTensorSizeInBytes, round_up_to_4(self.least_bytes)
        if total is None or total >= least:
            return []
        return [
            Fault(
                (*loc, "TotalTensorSizeInBytes"),
                f"directml: must be at least {least}, the end of the last element rounded up "
                f"to 4, got {total}",
            )
        ]


class FlatTensorDesc(BufferTensorDesc):
    """DML_TENSOR_DESC with the fields of its Desc beside its Type."""

    Type: TensorType = Field("BUFFER")

    @property
    def buffer(self) -> tuple[BufferTensorDesc, tuple[str, ...]]:
        """The buffer's description, and the path to it from here."""
        return self, ()


class TensorDesc(Strict):
    """DML_TENSOR_DESC."""

    Type: TensorType = Field("BUFFER")
    Desc: BufferTensorDesc

    @property
    def buffer(self) -> tuple[BufferTensorDesc, tuple[str, ...]]:
        """The buffer's description, and the path to it from here."""
        return self.Desc, ("Desc",)


_FLAT, _NESTED = UNION_TAG + "flat", UNION_TAG + "nested"


def _form(value: Any) -> str:
    nested = "Desc" in value if isinstance(value, dict) else isinstance(value, TensorDesc)
    return _NESTED if nested else _FLAT


AnyTensorDesc = Annotated[
    Annotated[FlatTensorDesc, Tag(_FLAT)] | Annotated[TensorDesc, Tag(_NESTED)],
    Discriminator(_form),
]


def round_up_to_4(length: int) -> int:
    """The next multiple of 4 bytes: DirectML's buffers are counted in those."""
    return (length + 3) // 4 * 4
