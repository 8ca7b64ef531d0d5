"""The tiles of a bulk run: boxes of an array, aligned to the chunks of a Zarr array."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from types import EllipsisType
from typing import Protocol

from tensor_round.contract.dtypes import DType
from tensor_round.contract.host import Array
from tensor_round.contract.wire.npy import NpyHeader

from .places import Place

#: An index of an array: one slice for each dimension.
Box = tuple[slice, ...]


def view(array: Array, box: Box) -> Array:
    """The elements of a tile, of no dimensions too."""
    index: tuple[slice | EllipsisType, ...] = (*box, ...)
    part: Array = array[index]
    return part


class Source(Protocol):
    """An array that threads read tile by tile; ``grid`` is the shape of its chunks.

    ``header`` is that of the array as a .npy file. A grid of ones means that there are no chunks.
    """

    header: NpyHeader
    dtype: DType
    grid: tuple[int, ...]

    def state(self) -> dict[str, str]:
        """What changes when the array is changed, by name."""

    def read(self, box: Box) -> Array:
        """The elements of a tile, in new memory if it is writeable."""


class Target(Protocol):
    """An array that threads write tile by tile, and that appears when it is whole.

    ``layout`` tells how elements are stored, ``journal`` is the place of the run's journal.
    """

    grid: tuple[int, ...]
    layout: str
    journal: Place

    def begin(self, *, resumed: bool) -> bool:
        """Prepare for tiles; tells whether those of an earlier run are there, if ``resumed``.

        Keeps other processes of this host out until :meth:`close`; raises BlockingIOError.
        """

    def memory(self, box: Box, x: Array) -> Array:
        """Memory for the results of a tile whose operand is ``x``."""

    def write(self, box: Box, results: Array) -> None:
        """Write the results of a tile."""

    def sync(self, boxes: Sequence[Box]) -> None:
        """Return when these tiles would survive a loss of power."""

    def publish(self) -> None:
        """Let the whole array appear."""

    def discard(self) -> None:
        """Remove what nobody can use."""

    def close(self) -> None:
        """Let other processes in."""


@dataclass(frozen=True, slots=True)
class Tiles:
    """An array of ``shape``, cut into boxes of the shape ``tile``, numbered in memory order."""

    shape: tuple[int, ...]
    tile: tuple[int, ...]
    fortran_order: bool = False

    @classmethod
    def cut(cls, shape: tuple[int, ...], grid: Sequence[int], limit: int, fortran: bool) -> Tiles:
        """Cut into tiles of whole chunks, at least one, and at most ``limit`` elements.

        Without chunks each tile is one run of memory.
        """
        tile = list(grid)
        axes = range(len(shape))
        for axis in axes if fortran else reversed(axes):
            chunks = math.ceil(shape[axis] / grid[axis])
            tile[axis] *= max(1, min(chunks, limit // math.prod(tile)))
        return cls(shape, tuple(tile), fortran)

    def __len__(self) -> int:
        return math.prod(self._counts())

    def __getitem__(self, index: int) -> Box:
        box = [slice(0)] * len(self.shape)
        axes, counts = range(len(self.shape)), self._counts()
        for axis in axes if self.fortran_order else reversed(axes):
            index, at = divmod(index, counts[axis])
            start = at * self.tile[axis]
            box[axis] = slice(start, min(start + self.tile[axis], self.shape[axis]))
        return tuple(box)

    def size(self, index: int) -> int:
        """The elements of a tile."""
        return math.prod(side.stop - side.start for side in self[index])

    def _counts(self) -> list[int]:
        return [math.ceil(size / side) for size, side in zip(self.shape, self.tile, strict=True)]
