"""A large tensor in pieces, each small enough to be held twice and to be sent again alone.

Operand and target are seen in memory order first, so that a dense tensor of any
order is one flat run and its tiles are views. Only what lies with gaps or in the
other byte order is copied, a tile at a time.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from .arrays import Array, bits
from .dtypes import DType
from .landing import Bits, DirectLanding, Landing, StagedLanding, raw_bytes
from .round_operators import Plan, RoundOperator


@dataclass(frozen=True, slots=True)
class Tile:
    """One request's part: the plan it is sent with, its elements, and where their results go.

    ``aliased`` says that the results overwrite the elements.
    """

    plan: Plan
    source: Bits
    target: Bits
    aliased: bool

    @property
    def nbytes(self) -> int:
        """Bytes of the elements."""
        return self.source.nbytes

    def payload(self) -> memoryview:
        """The elements, packed and little-endian: their own memory if they lie so."""
        return raw_bytes(np.ascontiguousarray(self.source, self.source.dtype.newbyteorder("<")))

    def landing(self, *, verified: bool) -> Landing:
        """Where the results come down.

        Until a ``verified`` answer is found right, the operand's memory must not be
        touched: it may have to be sent again.
        """
        if self.aliased or not _is_wire_form(self.target):
            return StagedLanding(self.target, hold=verified)
        return DirectLanding(self.target)


@dataclass(frozen=True, slots=True)
class Cut:
    """A tensor cut into tiles, or left whole."""

    is_whole: bool
    tiles: Iterator[Tile]


def cut(operator: RoundOperator, plan: Plan, source: Array, target: Array, tile_bytes: int) -> Cut:
    """Cut a tensor into tiles of at most ``tile_bytes``, but of one element at least.

    ``plan`` is the operator's for the whole tensor: there is one only if the dialect
    takes the whole. ``target`` shares no memory with ``source``, or lies exactly the same.
    """
    dtype = plan.call.input.dtype
    aliased = np.may_share_memory(source, target)
    from_, to = _in_memory_order(bits(source), bits(target))
    limit = max(1, tile_bytes // dtype.itemsize)
    if source.size <= limit:
        if from_.shape != source.shape:
            plan = operator.plan(dtype.name, from_.shape)
        return Cut(True, iter([Tile(plan, from_, to, aliased)]))
    if from_.flags.c_contiguous and to.flags.c_contiguous:
        from_, to = from_.reshape(-1), to.reshape(-1)
    boxes = _boxes(from_.shape, limit)
    return Cut(False, (_tile(operator, dtype, from_[box], to[box], aliased) for box in boxes))


def _tile(operator: RoundOperator, dtype: DType, source: Bits, target: Bits, aliased: bool) -> Tile:
    plan = operator.plan(dtype.name, operator.flat_shape(source.size))
    return Tile(plan, source, target, aliased)


def _is_wire_form(array: Bits) -> bool:
    return array.flags.c_contiguous and array.dtype == array.dtype.newbyteorder("<")


def _in_memory_order(source: Bits, target: Bits) -> tuple[Bits, Bits]:
    """Both with their dimensions in the order in which one of them lies, the source if it can."""
    if source.flags.c_contiguous and target.flags.c_contiguous:
        return source, target
    by_source = _by_stride(source)
    order = by_source if source.transpose(by_source).flags.c_contiguous else _by_stride(target)
    return source.transpose(order), target.transpose(order)


def _by_stride(array: Bits) -> tuple[int, ...]:
    """The dimensions from the largest stride to the smallest."""
    return tuple(sorted(range(array.ndim), key=lambda d: -abs(array.strides[d])))


def _boxes(shape: tuple[int, ...], limit: int) -> Iterator[tuple[Any, ...]]:
    """Index boxes that cover a shape, each a run in C order of at most ``limit`` elements."""
    axis = len(shape) - 1
    inner = 1
    while inner * shape[axis] <= limit:
        inner *= shape[axis]
        axis -= 1
    pieces = math.ceil(shape[axis] / (limit // inner))
    rows = math.ceil(shape[axis] / pieces)
    for outer in np.ndindex(shape[:axis]):
        for start in range(0, shape[axis], rows):
            yield (*outer, slice(start, start + rows))
