"""The layout of a tensor in memory: dtype, shape, strides and total length.

All arithmetic is in Python integers, so nothing overflows, and precedes any allocation. Every
:class:`Layout` is valid: its elements are within its bytes. Its size is checked separately, by
:func:`check_size`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from .dtypes import DType
from .errors import Fault, InvalidDescriptor, TensorTooLarge
from .quoting import shown

#: Sizes and strides are below this limit, so that they fit a signed 64-bit integer.
SIZE_LIMIT = 2**63

#: The most work of the exact test for overlap, which services do while other callers wait: 10,000
#: steps take 1 to 4 ms. NumPy does those of a dimension at once, so all numbers must fit 64 bits.
_EXACT_DIMENSIONS, _EXACT_STEPS, _EXACT_PLACES = 8, 10_000, 2**61


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
    """A dialect's names of the parts of a layout, for its error messages."""

    shape: str = "shape"
    strides: str = "strides"
    byte_length: str = "byte_length"


@dataclass(frozen=True)
class Layout:
    """The places of a tensor's elements in its buffer.

    Elements of less than a byte are packed in C order: of two in a byte, the first is its low half,
    and after an odd number of them the last high half has no meaning, and is 0 in results.
    ``strides`` are in elements and never negative; 0 repeats one element along a dimension
    (broadcast). ``byte_length`` is the length of the whole buffer, gaps and padding included. Use
    :meth:`of`, which validates, to make one.
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
    ) -> Layout:
        """A validated layout; strides default to packed C order, the length to the least possible.

        Raises :class:`InvalidDescriptor` with the faults of :func:`layout_faults`.
        """
        if faults := layout_faults(dtype, shape, strides, byte_length, loc=loc):
            raise InvalidDescriptor.of(faults)
        steps = packed_strides(shape) if strides is None else tuple(strides)
        if byte_length is None:
            byte_length = dtype.nbytes(span(shape, steps))
        return cls(dtype, tuple(shape), steps, byte_length)

    @cached_property
    def element_count(self) -> int:
        """The number of elements; repeated ones count each time."""
        return math.prod(self.shape)

    @cached_property
    def element_bytes(self) -> int:
        """Bytes of all elements, without gaps and padding."""
        return self.dtype.nbytes(self.element_count)

    @cached_property
    def is_dense(self) -> bool:
        """Whether the elements cover a run of bytes from the buffer's start, each byte once.

        Such a tensor can be rounded as a flat array, whatever the order of its elements.
        """
        step = 1
        dimensions = _by_stride(self.shape, self.strides) if self.element_count else []
        for stride, size in dimensions:
            if stride != step:
                return False
            step *= size
        return True

    @cached_property
    def has_spare_bits(self) -> bool:
        """Whether the last byte of the elements has bits of none."""
        return self.element_count * self.dtype.width % 8 > 0

    @cached_property
    def is_packed(self) -> bool:
        """Whether the elements are in C order without gaps."""
        return self.lies_like(packed_strides(self.shape))

    def lies_like(self, strides: Sequence[int]) -> bool:
        """Whether every element has the same place with these strides as in this layout.

        Strides of dimensions of size 1, and all strides of an empty tensor, have no effect.
        """
        return self.element_count == 0 or all(
            own == other
            for own, other, size in zip(self.strides, strides, self.shape, strict=True)
            if size > 1
        )

    @cached_property
    def is_free_of_overlap(self) -> bool:
        """Whether it is proven that no two elements share bytes; see :func:`are_distinct`."""
        return self.element_count == 0 or are_distinct(self.shape, self.strides)

    def describe(self) -> dict[str, Any]:
        """The layout as JSON values, as in ``Output-Descriptor`` and the ``ieee754`` dialect."""
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
    """The broken rules of a layout, with paths that begin with ``loc`` and the dialect's names."""
    faults = [
        Fault((*loc, name, position), f"must be 0 to 2^63-1, got {shown(value)}")
        for name, values in ((names.shape, shape), (names.strides, strides or ()))
        for position, value in enumerate(values)
        if not 0 <= value < SIZE_LIMIT
    ]
    if strides is not None and len(strides) != len(shape):
        why = f"must have one entry per dimension, {len(shape)}, got {len(strides)}"
        faults.append(Fault((*loc, names.strides), why))
    if strides is not None and dtype.is_sub_byte and not faults:
        whole = Layout(dtype, tuple(shape), tuple(strides), 0)
        if not whole.is_packed:
            why = f"must be those of packed C order for {dtype.name}, of which a byte has two"
            faults.append(Fault((*loc, names.strides), f"{why}: {list(packed_strides(shape))}"))
    if faults or byte_length is None:
        return faults
    steps = packed_strides(shape) if strides is None else strides
    least = dtype.nbytes(span(shape, steps))
    if byte_length < least:
        why = f"must be at least {shown(least)}, the end of the last element"
        faults.append(Fault((*loc, names.byte_length), f"{why}, got {shown(byte_length)}"))
    return faults


def span(shape: Sequence[int], strides: Sequence[int]) -> int:
    """The distance from the first to the last element, both included; 0 for an empty tensor."""
    if 0 in shape:
        return 0
    return 1 + sum((size - 1) * stride for size, stride in zip(shape, strides, strict=True))


def are_distinct(shape: Sequence[int], strides: Sequence[int]) -> bool:
    """Whether it is proven that a tensor, not an empty one, has each element at a distinct place.

    It has if each stride, sorted, exceeds the distance that the smaller ones span. Otherwise, two
    elements share a place if and only if some differences of their indices, not all zero, weighted
    by the strides sum to zero. These are searched for in up to 8 dimensions, 2^61 places and
    10,000 steps; a layout that takes more is not proven.
    """
    dimensions = _by_stride(shape, strides)
    reach = 0
    for stride, size in dimensions:
        if stride <= reach:
            break
        reach += (size - 1) * stride
    else:
        return True
    if len(dimensions) > _EXACT_DIMENSIONS or dimensions[0][0] == 0:
        return False
    places = _reach(dimensions) + 1
    if places > _EXACT_PLACES or math.prod(size for _, size in dimensions) > places:
        return False
    return _collisions_are_excluded(dimensions[::-1])


def _reach(dimensions: Sequence[tuple[int, int]]) -> int:
    """The distance from the first element to the last."""
    return sum((size - 1) * stride for stride, size in dimensions)


def _collisions_are_excluded(dimensions: list[tuple[int, int]]) -> bool:
    """Search for two indices of one place, from the largest stride to the smallest.

    Returns whether the search has ended without any, within its steps. Of two opposite collisions,
    it looks for the one whose first difference is positive.
    """
    #: The distances that the dimensions so far lead to, unless all their differences are zero.
    distances = np.empty(0, np.int64)
    left = _EXACT_STEPS
    for at, (stride, size) in enumerate(dimensions):
        rest = dimensions[at + 1 :]
        # What the rest can sum to: at most so much, and multiples of this, which is 0 for nothing.
        reach, divisor = _reach(rest), math.gcd(*(each for each, _ in rest))
        common = math.gcd(stride, divisor)
        step = (divisor or stride) // common
        # Without a difference before, the first one is positive.
        lowest = np.append(np.maximum(-((reach + distances) // stride), 1 - size), 1)
        distances = np.append(distances, 0)
        highest = np.minimum((reach - distances) // stride, size - 1)
        # Products of numbers below 2^31 fit into 64 bits; else Python's integers are taken.
        factor = (-distances // common % step).astype(np.int64 if step < 2**31 else object)
        first = (factor * pow(stride // common, -1, step) % step).astype(np.int64)
        lowest += (first - lowest) % step
        counts = np.clip((highest - lowest) // step + 1, 0, _EXACT_STEPS)
        left -= int(counts.sum()) + 1
        if left <= 0:
            return False
        ends = np.cumsum(counts)
        nth = np.arange(ends[-1]) - np.repeat(ends - counts, counts)
        differences = np.repeat(lowest, counts) + nth * step
        distances = np.sort(np.repeat(distances, counts) + differences * stride)
        # Not np.unique, whose first call imports numpy.ma: 10 ms of the event loop.
        distances = distances[np.diff(distances, prepend=distances[:1] - 1) != 0]
        if not distances.all():  # 0: what follows may be zero, too
            return False
    return True


def _by_stride(shape: Sequence[int], strides: Sequence[int]) -> list[tuple[int, int]]:
    """Strides and sizes of the dimensions that have more than one index, sorted by stride."""
    return sorted((stride, size) for stride, size in zip(strides, shape, strict=True) if size > 1)


def check_size(layout: Layout, limit_bytes: int, what: str) -> None:
    """Raise :class:`TensorTooLarge` for a layout of more than ``limit_bytes``."""
    if layout.byte_length > limit_bytes:
        raise TensorTooLarge(
            f"the {what} tensor has {shown(layout.byte_length)} bytes, the limit is {limit_bytes}",
            limit_bytes=limit_bytes,
            got_bytes=layout.byte_length,
        )
