"""Tiles: the parts of a large tensor, and the sinks that their results are received into.

Each tile is sent, and if necessary retried, as one request. Source and target are transposed to
memory order first, so that a dense tensor of any order is one flat run and its tiles are views.
Only tiles with gaps or in the other byte order are copied, one at a time.

A plain sink is the target's own memory. The others receive into scratch memory and copy
whole elements to the target. They serve targets that are also the operand (a request with a torn
element could not be sent again), that have gaps, that are in the other byte order, or whose
elements of 4 bits have a byte each. No I/O here.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from ..contract.host_memory import Array, bits, boxes, pack, strided_view, unpack
from ..contract.layout import Layout
from ..contract.operators.operator import PreparedDescriptor

if TYPE_CHECKING:
    from .parameters import Parameters

Bits = npt.NDArray[np.unsignedinteger[Any]]

#: Scratch memory, in bytes: fits a core's cache, and is a multiple of every element's size.
SCRATCH_BYTES = 256 << 10


class Sink(Protocol):
    """Memory that is filled in order, in the way of ``asyncio.BufferedProtocol``."""

    def get_buffer(self) -> memoryview:
        """Memory for the next bytes; not empty while bytes are missing."""

    def advance(self, count: int) -> None:
        """Record that ``count`` bytes were written at the start of the last buffer."""


class TensorSink:
    """A sink for an output, which it fills from its start: the target itself, if C-contiguous.

    ``nbytes`` are the bytes that it holds; those behind them are padding.
    """

    __slots__ = ("_filled", "_memory", "nbytes")

    def __init__(self, memory: memoryview) -> None:
        self._memory = memory
        self._filled = 0
        self.nbytes = len(memory)

    def get_buffer(self) -> memoryview:
        """The part of the memory that is not filled."""
        return self._memory[self._filled :]

    def advance(self, count: int) -> None:
        """Count the bytes."""
        self._filled += count

    def commit(self) -> None:
        """Complete the target, after all bytes were received, and verified if a digest is used."""


class StagedSink(TensorSink):
    """Copies elements from scratch memory to a target of any strides and byte order.

    Each full scratch is copied. With ``hold`` nothing is copied before :meth:`commit`; the
    scratch then has the target's size. A target with gaps is always held.
    """

    __slots__ = ("_committed", "_flat", "_hold", "_scratch", "_target")

    def __init__(self, target: Bits, *, hold: bool) -> None:
        self._target = target
        self._flat = target.reshape(-1) if target.flags.c_contiguous else None
        self._hold = hold or self._flat is None
        count = target.size if self._hold else min(target.size, SCRATCH_BYTES // target.itemsize)
        self._scratch = np.empty(count, target.dtype.newbyteorder("<"))
        self._committed = 0
        super().__init__(raw_bytes(self._scratch))
        self.nbytes = target.nbytes

    def advance(self, count: int) -> None:
        """Count the bytes, and copy the elements of a full scratch."""
        self._filled += count
        if self._filled == len(self._memory) and not self._hold:
            self.commit()

    def commit(self) -> None:
        """Copy the elements in the scratch to the target."""
        count = self._filled // self._target.itemsize
        if self._flat is None:
            self._target[...] = self._scratch.reshape(self._target.shape)
        else:
            self._flat[self._committed : self._committed + count] = self._scratch[:count]
        self._committed += count
        self._filled = 0


class PackedSink(TensorSink):
    """Receives a whole output of 4-bit elements, and unpacks them to the target."""

    __slots__ = ("_scratch", "_target")

    def __init__(self, target: Array) -> None:
        self._target = target
        self._scratch = np.empty(-(-target.size // 2), np.uint8)
        super().__init__(self._scratch.data)

    def commit(self) -> None:
        """Unpack the elements."""
        unpack(self._scratch, self._target)


class StridedSink(TensorSink):
    """Receives a whole output, gaps included, and copies only its elements to the target."""

    __slots__ = ("_layout", "_scratch", "_target")

    def __init__(self, target: Bits, layout: Layout) -> None:
        self._target = target
        self._layout = layout
        self._scratch = np.empty(layout.byte_length, np.uint8)
        super().__init__(self._scratch.data)

    def commit(self) -> None:
        """Copy the elements; the target's memory between its elements is not changed."""
        self._target[...] = bits(strided_view(self._scratch, self._layout))


def raw_bytes(array: Array) -> memoryview:
    """The memory of a C-contiguous array, as bytes."""
    flat = array if array.ndim == 1 else array.reshape(-1)
    return flat.view(np.uint8).data


#: NumPy's marks of big-endian dtypes.
_BIG_ENDIAN = ">" if sys.byteorder == "little" else ">="


class Preparing(Protocol):
    """An operator, as far as tiles need it: it prepares the descriptors of parts of a tensor."""

    @property
    def prepare(self) -> Callable[..., PreparedDescriptor]:
        """The operator's method, which has the arguments of its kind."""

    def flat_shape(self, count: int) -> tuple[int, ...]:
        """A shape of ``count`` elements that the operator accepts."""


class Tile(NamedTuple):
    """The part of a tensor that one request carries, with its descriptor.

    ``source`` are its elements, ``target`` is the memory for their results. With ``aliased`` both
    are the same memory. ``parameters`` are its scales and zero points.
    """

    prepared: PreparedDescriptor
    source: Array
    target: Array
    aliased: bool
    parameters: Parameters | None = None

    @property
    def nbytes(self) -> int:
        """Bytes of the elements."""
        return self.source.nbytes

    def payload(self) -> memoryview:
        """The elements, packed and little-endian: their own memory, or else a copy.

        Behind them are the bytes of parameters.
        """
        if self.parameters is not None and (behind := self.parameters.behind(self.prepared.call)):
            return memoryview(b"".join((self._replace(parameters=None).payload(), behind)))
        if self.prepared.call.input.dtype.is_sub_byte:
            return pack(self.source).data
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
        if self.prepared.call.output.dtype.is_sub_byte:
            return PackedSink(self.target)
        if (self.aliased and can_tear) or not _is_wire_form(self.target):
            return StagedSink(bits(self.target), hold=verified)
        return TensorSink(raw_bytes(self.target))


def cut(
    operator: Preparing,
    prepared: PreparedDescriptor,
    source: Array,
    target: Array,
    tile_bytes: int,
    *,
    aliased: bool,
) -> Tile | Iterator[Tile]:
    """A tensor that fits as one tile, else its tiles of at most ``tile_bytes``.

    Neither its elements nor their results have more; a tile has one element at least.

    ``prepared`` is the descriptor of the whole tensor, which the dialect has accepted.
    ``target`` is the same memory as ``source`` with ``aliased``, and else shares none with it.
    """
    dtype = prepared.call.input.dtype
    from_, to = _in_memory_order(source, target)
    if max(source.nbytes, target.nbytes) <= tile_bytes or source.size == 1:
        if from_ is not source and from_.shape != source.shape:
            prepared = operator.prepare(dtype.name, from_.shape)
        return Tile(prepared, from_, to, aliased)
    limit = max(1, tile_bytes // max(source.itemsize, target.itemsize))
    if from_.flags.c_contiguous and to.flags.c_contiguous:
        from_, to = from_.reshape(-1), to.reshape(-1)
    return _tiles(operator, dtype.name, from_, to, aliased, limit)


def _tiles(
    operator: Preparing, dtype: str, source: Array, target: Array, aliased: bool, limit: int
) -> Iterator[Tile]:
    for box in boxes(source.shape, limit):
        prepared = operator.prepare(dtype, operator.flat_shape(source[box].size))
        yield Tile(prepared, source[box], target[box], aliased)


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
