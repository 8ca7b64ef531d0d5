"""How a tensor lies in its bytes: element type, sizes, strides, total length.

All arithmetic is in Python integers, so nothing wraps, and it is done before
anything is allocated. A layout that exists is sound: its elements lie within
its bytes. Whether it is small enough to serve is asked with :func:`check_size`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from .dtypes import DType
from .errors import Fault, InvalidDescriptor, TensorTooLarge
from .quoting import shown

#: Sizes and strides stay below this, so that every language can read a layout back.
SIZE_LIMIT = 2**63


def packed_strides(shape: Sequence[int]) -> tuple[int, ...]:
    """The strides, in elements, of a C-order tensor without gaps."""
    strides: list[int] = []
    step = 1
    for size in reversed(shape):
        strides.append(step)
        step *= max(size, 1)
    return tuple(reversed(strides))


@dataclass(frozen=True, slots=True)
class FieldNames:
    """What a dialect calls the parts of a layout, for its error messages."""

    shape: str = "shape"
    strides: str = "strides"
    byte_length: str = "byte_length"


@dataclass(frozen=True)
class Layout:
    """Where each element of a tensor lies.

    ``strides`` are in elements and never negative; 0 repeats one element along a
    dimension (broadcast). ``byte_length`` is the whole buffer, gaps and padding
    included. Build one with :meth:`of`, which checks it.
    """

    dtype: DType
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    byte_length: int

    @classmethod
    def of(
        cls,
        dtype: DType,
        shape: Sequence[int],
        strides: Sequence[int] | None = None,
        byte_length: int | None = None,
        *,
        loc: tuple[str | int, ...] = (),
        names: FieldNames = FieldNames(),
    ) -> Layout:
        """The checked layout; ``None`` strides are packed C order, ``None`` length the least.

        Raises :class:`InvalidDescriptor` with the faults of :func:`layout_faults`.
        """
        if faults := layout_faults(dtype, shape, strides, byte_length, loc=loc, names=names):
            raise InvalidDescriptor.of(faults)
        steps = packed_strides(shape) if strides is None else tuple(strides)
        if byte_length is None:
            byte_length = span(shape, steps) * dtype.itemsize
        return cls(dtype, tuple(shape), steps, byte_length)

    @cached_property
    def element_count(self) -> int:
        """How many elements the tensor has, repeated ones counted each time."""
        return math.prod(self.shape)

    @cached_property
    def element_bytes(self) -> int:
        """Bytes of all elements, without gaps and padding."""
        return self.element_count * self.dtype.itemsize

    @cached_property
    def is_dense(self) -> bool:
        """Whether the elements cover a run of bytes from the start, in whatever order, each once.

        Such a tensor rounds as a flat array, whatever its strides say.
        """
        step = 1
        for stride, size in self._by_stride():
            if stride != step:
                return False
            step *= size
        return True

    @cached_property
    def is_packed(self) -> bool:
        """Whether the elements lie in C order without a gap before the last."""
        return self.lies_like(packed_strides(self.shape))

    def lies_like(self, strides: Sequence[int]) -> bool:
        """Whether these strides would put every element where this layout has it.

        The stride of a dimension of size 1, and any stride of an empty tensor, moves nothing.
        """
        return self.element_count == 0 or all(
            own == other
            for own, other, size in zip(self.strides, strides, self.shape, strict=True)
            if size > 1
        )

    @cached_property
    def is_free_of_overlap(self) -> bool:
        """Whether no two elements provably share bytes.

        The test is sufficient, not exact: with dimensions sorted by stride, each
        stride must step over everything the smaller ones reach. A few lawful
        layouts fail it; the exact test is exponential.
        """
        reach = 0
        for stride, size in self._by_stride():
            if stride <= reach:
                return False
            reach += (size - 1) * stride
        return True

    def _by_stride(self) -> list[tuple[int, int]]:
        if self.element_count == 0:
            return []
        return sorted(
            (stride, size)
            for stride, size in zip(self.strides, self.shape, strict=True)
            if size > 1
        )

    def describe(self) -> dict[str, Any]:
        """The layout as the ``Output-Descriptor`` header and the ``ieee754`` dialect write it."""
        return {
            "dtype": self.dtype.name,
            "shape": list(self.shape),
            "strides": list(self.strides),
            "byte_length": self.byte_length,
        }


def layout_faults(
    dtype: DType,
    shape: Sequence[int],
    strides: Sequence[int] | None,
    byte_length: int | None,
    *,
    loc: tuple[str | int, ...] = (),
    names: FieldNames = FieldNames(),
) -> list[Fault]:
    """Why these are no layout: faults under ``loc``, in the dialect's own field names."""
    faults = [
        Fault((*loc, name, position), f"must be 0 to 2^63-1, got {shown(value)}")
        for name, values in ((names.shape, shape), (names.strides, strides or ()))
        for position, value in enumerate(values)
        if not 0 <= value < SIZE_LIMIT
    ]
    if strides is not None and len(strides) != len(shape):
        why = f"must have one entry per dimension, {len(shape)}, got {len(strides)}"
        faults.append(Fault((*loc, names.strides), why))
    if faults or byte_length is None:
        return faults
    steps = packed_strides(shape) if strides is None else strides
    least = span(shape, steps) * dtype.itemsize
    if byte_length < least:
        why = f"must be at least {shown(least)}, the end of the last element"
        faults.append(Fault((*loc, names.byte_length), f"{why}, got {shown(byte_length)}"))
    return faults


def span(shape: Sequence[int], strides: Sequence[int]) -> int:
    """Elements from the first to the last one, both counted; 0 for an empty tensor."""
    if 0 in shape:
        return 0
    return 1 + sum((size - 1) * stride for size, stride in zip(shape, strides, strict=True))


def check_size(layout: Layout, limit_bytes: int, what: str) -> None:
    """Refuse a layout over the limit (inclusive) with :class:`TensorTooLarge`."""
    if layout.byte_length > limit_bytes:
        raise TensorTooLarge(
            f"the {what} tensor has {shown(layout.byte_length)} bytes, the limit is {limit_bytes}",
            limit_bytes=limit_bytes,
            got_bytes=layout.byte_length,
        )
