"""Where an answer's elements come down: in their own memory, or beside it first.

A landing gives memory to receive into and is told how many bytes came. A *direct*
one is the target itself. A *staged* one is a scratch from which only whole elements
are committed to the target: for a target that is also the operand (an element half
old, half new could not be sent again), that lies with gaps, or in the other byte
order. No I/O here.
"""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from ..layout import Layout
from .host import Array, bits, laid_out

Bits = npt.NDArray[np.unsignedinteger[Any]]

#: Bytes committed at a time: fits a core's cache, and is a multiple of every element's size.
SCRATCH_BYTES = 256 << 10


class Landing(Protocol):
    """Memory for ``nbytes``, to be filled in order."""

    @property
    def nbytes(self) -> int:
        """How many bytes land; what comes behind them is padding."""

    def room(self) -> memoryview:
        """Where the next bytes go; not empty before all have come."""

    def took(self, count: int) -> None:
        """So many bytes were written into the last room."""

    def finish(self) -> None:
        """All bytes have come, and are the right ones."""


class DirectLanding:
    """The target's own memory."""

    __slots__ = ("_filled", "_memory", "nbytes")

    def __init__(self, target: Array) -> None:
        self._memory = raw_bytes(target)
        self.nbytes = len(self._memory)
        self._filled = 0

    def room(self) -> memoryview:
        """The rest of the target."""
        return self._memory[self._filled :]

    def took(self, count: int) -> None:
        """Nothing to do: they are where they belong."""
        self._filled += count

    def finish(self) -> None:
        """Nothing to do."""


class StagedLanding:
    """A scratch beside the target, any layout and byte order of which will do.

    With ``hold`` nothing is committed before :meth:`finish`, which takes a scratch of
    the target's size; so it does for a target with gaps.
    """

    __slots__ = (
        *("_committed", "_filled", "_flat", "_hold", "_memory", "_scratch", "_target"),
        "nbytes",
    )

    def __init__(self, target: Bits, *, hold: bool) -> None:
        self._target = target
        self.nbytes = target.nbytes
        self._flat = target.reshape(-1) if target.flags.c_contiguous else None
        self._hold = hold or self._flat is None
        count = target.size if self._hold else min(target.size, SCRATCH_BYTES // target.itemsize)
        self._scratch = np.empty(count, target.dtype.newbyteorder("<"))
        self._memory = raw_bytes(self._scratch)
        self._filled = 0
        self._committed = 0

    def room(self) -> memoryview:
        """The rest of the scratch."""
        return self._memory[self._filled :]

    def took(self, count: int) -> None:
        """A full scratch is committed."""
        self._filled += count
        if self._filled == len(self._memory) and not self._hold:
            self._commit()

    def finish(self) -> None:
        """Whatever is left is committed."""
        self._commit()

    def _commit(self) -> None:
        count = self._filled // self._target.itemsize
        if self._flat is None:
            self._target[...] = self._scratch.reshape(self._target.shape)
        else:
            self._flat[self._committed : self._committed + count] = self._scratch[:count]
        self._committed += count
        self._filled = 0


class StridedLanding:
    """A scratch of an output's whole length, from which the elements alone are committed."""

    __slots__ = ("_filled", "_layout", "_scratch", "_target", "nbytes")

    def __init__(self, target: Bits, layout: Layout) -> None:
        self._target = target
        self._layout = layout
        self.nbytes = layout.byte_length
        self._scratch = np.empty(self.nbytes, np.uint8)
        self._filled = 0

    def room(self) -> memoryview:
        """The rest of the scratch."""
        return self._scratch.data[self._filled :]

    def took(self, count: int) -> None:
        """Kept until all have come."""
        self._filled += count

    def finish(self) -> None:
        """The elements are committed; what lies between them in the target stays."""
        self._target[...] = bits(laid_out(self._scratch, self._layout))


def raw_bytes(array: Array) -> memoryview:
    """The memory of a C-contiguous array, as bytes."""
    flat = array if array.ndim == 1 else array.reshape(-1)
    return flat.view(np.uint8).data
