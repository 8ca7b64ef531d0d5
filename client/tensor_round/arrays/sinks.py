"""Sinks: memory that results are received into.

A *direct* sink is the target's own memory. The other two receive into scratch memory and copy
whole elements to the target. They serve targets that are also the operand (a request with a torn
element could not be sent again), that have gaps, or that are in the other byte order. No I/O here.
"""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from ..contract.host import Array, bits, strided_view
from ..contract.layout import Layout

Bits = npt.NDArray[np.unsignedinteger[Any]]

#: Scratch memory, in bytes: fits a core's cache, and is a multiple of every element's size.
SCRATCH_BYTES = 256 << 10


class Sink(Protocol):
    """Memory that is filled in order, in the way of ``asyncio.BufferedProtocol``."""

    def get_buffer(self) -> memoryview:
        """Memory for the next bytes; not empty while bytes are missing."""

    def advance(self, count: int) -> None:
        """Record that ``count`` bytes were written at the start of the last buffer."""


class TensorSink(Sink, Protocol):
    """A sink for the first ``nbytes`` bytes of an output; the bytes behind them are padding."""

    @property
    def nbytes(self) -> int:
        """Bytes that the sink holds."""

    def commit(self) -> None:
        """Complete the target, after all bytes were received, and verified if a digest is used."""


class _MemorySink:
    """Fills one run of memory from its start."""

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


class DirectSink(_MemorySink):
    """Receives into the target itself, a C-contiguous little-endian array."""

    __slots__ = ()

    def __init__(self, target: Array) -> None:
        super().__init__(raw_bytes(target))

    def commit(self) -> None:
        """Do nothing: the bytes are already in the target."""


class StagedSink(_MemorySink):
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


class StridedSink(_MemorySink):
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
