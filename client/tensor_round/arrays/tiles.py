"""A large tensor in pieces, each small enough to be held twice and to be sent again alone.

Operand and target are seen in memory order first, so that a dense tensor of any
order is one flat run and its tiles are views. Only what lies with gaps or in the
other byte order is copied, a tile at a time.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import numpy as np

from ..dtypes import DType
from ..operators.objects import Plan, RoundOperator
from .host import Array, bits
from .sinks import DirectLanding, Landing, StagedLanding, raw_bytes

#: How NumPy marks types whose bytes are not in the order of the wire.
_BIG_ENDIAN = ">" if sys.byteorder == "little" else ">="


class Tile(NamedTuple):
    """One request's part: the plan it is sent with, its elements, and where their results go.

    ``aliased`` says that the results overwrite the elements.
    """

    plan: Plan
    source: Array
    target: Array
    aliased: bool

    @property
    def nbytes(self) -> int:
        """Bytes of the elements."""
        return self.source.nbytes

    def payload(self) -> memoryview:
        """The elements, packed and little-endian: their own memory if they lie so."""
        if _is_wire_form(self.source):
            return raw_bytes(self.source)
        elements = bits(self.source)
        return raw_bytes(np.ascontiguousarray(elements, elements.dtype.newbyteorder("<")))

    def landing(self, *, verified: bool, can_tear: bool = True) -> Landing:
        """Where the results come down.

        Until a ``verified`` answer is found right, the operand's memory must not be
        touched: it may have to be sent again. One that ``can_tear`` an element in two must
        not come down on the operand either.
        """
        if (self.aliased and can_tear) or not _is_wire_form(self.target):
            return StagedLanding(bits(self.target), hold=verified)
        return DirectLanding(self.target)


class Cut(NamedTuple):
    """A tensor cut into tiles, or left whole."""

    is_whole: bool
    tiles: Iterable[Tile]


def cut(
    operator: RoundOperator,
    plan: Plan,
    source: Array,
    target: Array,
    tile_bytes: int,
    *,
    aliased: bool,
) -> Cut:
    """Cut a tensor into tiles of at most ``tile_bytes``, but of one element at least.

    ``plan`` is the operator's for the whole tensor: there is one only if the dialect
    takes the whole. ``target`` lies exactly as ``source`` if it is ``aliased``, and else shares
    no memory with it.
    """
    dtype = plan.call.input.dtype
    from_, to = _in_memory_order(source, target)
    if source.nbytes <= tile_bytes or source.size == 1:
        if from_ is not source and from_.shape != source.shape:
            plan = operator.plan(dtype.name, from_.shape)
        return Cut(True, (Tile(plan, from_, to, aliased),))
    limit = max(1, tile_bytes // dtype.itemsize)
    if from_.flags.c_contiguous and to.flags.c_contiguous:
        from_, to = from_.reshape(-1), to.reshape(-1)
    boxes = _boxes(from_.shape, limit)
    return Cut(False, (_tile(operator, dtype, from_[box], to[box], aliased) for box in boxes))


def runs(array: Array, limit: int) -> Iterator[Array]:
    """The elements in C order: views of at most ``limit`` of them, alike for arrays of a shape."""
    if array.size <= limit:
        yield array
    else:
        yield from (array[box] for box in _boxes(array.shape, limit))


def _tile(
    operator: RoundOperator, dtype: DType, source: Array, target: Array, aliased: bool
) -> Tile:
    plan = operator.plan(dtype.name, operator.flat_shape(source.size))
    return Tile(plan, source, target, aliased)


def _is_wire_form(array: Array) -> bool:
    return array.flags.c_contiguous and array.dtype.byteorder not in _BIG_ENDIAN


def _in_memory_order(source: Array, target: Array) -> tuple[Array, Array]:
    """Both with their dimensions in the order in which one of them lies, the source if it can."""
    if source.flags.c_contiguous and target.flags.c_contiguous:
        return source, target
    by_source = _by_stride(source)
    order = by_source if source.transpose(by_source).flags.c_contiguous else _by_stride(target)
    return source.transpose(order), target.transpose(order)


def _by_stride(array: Array) -> tuple[int, ...]:
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
