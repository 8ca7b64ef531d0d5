"""Tiles: the parts of a large tensor; each is sent, and if necessary retried, as one request.

Source and target are transposed to memory order first, so that a dense tensor of any order is one
flat run and its tiles are views. Only tiles with gaps or in the other byte order are copied, one
at a time.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from typing import NamedTuple

import numpy as np

from ..contract.dtypes import DType
from ..contract.host import Array, bits, boxes
from ..contract.operators import PreparedDescriptor, RoundOperator
from .sinks import DirectSink, StagedSink, TensorSink, raw_bytes

#: NumPy's marks of big-endian dtypes.
_BIG_ENDIAN = ">" if sys.byteorder == "little" else ">="


class Tile(NamedTuple):
    """The part of a tensor that one request rounds, with its descriptor.

    ``source`` are its elements, ``target`` is the memory for their results. With ``aliased`` both
    are the same memory.
    """

    prepared: PreparedDescriptor
    source: Array
    target: Array
    aliased: bool

    @property
    def nbytes(self) -> int:
        """Bytes of the elements."""
        return self.source.nbytes

    def payload(self) -> memoryview:
        """The elements, packed and little-endian: their own memory, or else a copy."""
        if _is_wire_form(self.source):
            return raw_bytes(self.source)
        elements = bits(self.source)
        return raw_bytes(np.ascontiguousarray(elements, elements.dtype.newbyteorder("<")))

    def sink(self, *, verified: bool, can_tear: bool = True) -> TensorSink:
        """The sink of the results.

        An aliased target is the memory of a request that may have to be sent again. So a
        ``verified`` response must not change it before its digest was found right, and a response
        that ``can_tear`` must not leave half an element in it.
        """
        if (self.aliased and can_tear) or not _is_wire_form(self.target):
            return StagedSink(bits(self.target), hold=verified)
        return DirectSink(self.target)


class Tiling(NamedTuple):
    """A tensor cut into tiles; one that ``is_whole`` is a single tile."""

    is_whole: bool
    tiles: Iterable[Tile]


def cut(
    operator: RoundOperator,
    prepared: PreparedDescriptor,
    source: Array,
    target: Array,
    tile_bytes: int,
    *,
    aliased: bool,
) -> Tiling:
    """Cut a tensor into tiles of at most ``tile_bytes``, but of one element at least.

    ``prepared`` is the descriptor of the whole tensor, which the dialect has accepted.
    ``target`` is the same memory as ``source`` with ``aliased``, and else shares none with it.
    """
    dtype = prepared.call.input.dtype
    from_, to = _in_memory_order(source, target)
    if source.nbytes <= tile_bytes or source.size == 1:
        if from_ is not source and from_.shape != source.shape:
            prepared = operator.prepare(dtype.name, from_.shape)
        return Tiling(True, (Tile(prepared, from_, to, aliased),))
    limit = max(1, tile_bytes // dtype.itemsize)
    if from_.flags.c_contiguous and to.flags.c_contiguous:
        from_, to = from_.reshape(-1), to.reshape(-1)
    found = boxes(from_.shape, limit)
    return Tiling(False, (_tile(operator, dtype, from_[box], to[box], aliased) for box in found))


def _tile(
    operator: RoundOperator, dtype: DType, source: Array, target: Array, aliased: bool
) -> Tile:
    prepared = operator.prepare(dtype.name, operator.flat_shape(source.size))
    return Tile(prepared, source, target, aliased)


def _is_wire_form(array: Array) -> bool:
    return array.flags.c_contiguous and array.dtype.byteorder not in _BIG_ENDIAN


def _in_memory_order(source: Array, target: Array) -> tuple[Array, Array]:
    """Transpose both arrays in the same way, if that makes the source C-contiguous."""
    if source.flags.c_contiguous and target.flags.c_contiguous:
        return source, target
    by_source = _by_stride(source)
    order = by_source if source.transpose(by_source).flags.c_contiguous else _by_stride(target)
    return source.transpose(order), target.transpose(order)


def _by_stride(array: Array) -> tuple[int, ...]:
    """The dimensions from the largest stride to the smallest."""
    return tuple(sorted(range(array.ndim), key=lambda d: -abs(array.strides[d])))
