"""The parameters of a tensor's elements, for runs of elements in C order.

Dimensions are merged while one division still tells an element's parameter: those that share
parameters with their neighbours, and those that have one for each index. So whole tensors, axes and
blocks become rows of one dimension: of a tensor that is quantized per channel, a row is all of its
channels, and the rows are the batch.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

#: Elements that are computed at once: with their parameters they fit into a second-level cache.
TILE = 64 << 10
#: A run of at least so many elements with one parameter is a tile of its own.
LONG = 4 << 10

Numbers = npt.NDArray[Any]


class Place(NamedTuple):
    """Where a tile lies: so many rows from ``row`` on, and of each the columns of a range.

    Tiles with equal places have equal parameters: if no two rows differ in them, ``row`` is 0, and
    the columns of a tile within one block are its first one.
    """

    row: int
    rows: int
    first: int
    last: int


class Granularity:
    """The places of elements among the parameters of a tensor."""

    def __init__(self, shape: Sequence[int], blocks: Sequence[int]) -> None:
        *self._outer, (self._columns, self._block) = _merged(shape, blocks)
        self._counts = [-(-size // block) for size, block in self._outer]
        self._is_repeated = all(count == 1 for count in self._counts)

    def tiles(self, start: int, stop: int) -> Iterator[tuple[int, int, Place]]:
        """The tiles of a range of elements, each with its range and its place."""
        while start < stop:
            row, first = divmod(start, self._columns)
            row = 0 if self._is_repeated else row
            rows = 1
            if first or self._columns >= TILE or stop - start < self._columns:
                last = min(self._columns, self._end(first), first + stop - start)
            else:
                rows = min(TILE, stop - start) // self._columns
                last = self._columns
            end = start + rows * (last - first)
            begin = first // self._block * self._block
            if rows == 1 and last - begin <= self._block:
                yield start, end, Place(row, 1, begin, begin + 1)
            else:
                yield start, end, Place(row, rows, first, last)
            start = end

    def _end(self, first: int) -> int:
        """The end of a tile within a row: of whole blocks if they are short, else in one."""
        block = self._block
        if block >= LONG:
            return min(first + TILE, (first // block + 1) * block)
        return (first + TILE) // block * block

    def spread(self, parameters: Numbers, place: Place) -> Any:
        """The parameter of each element of a tile: an array, or one number if all are equal."""
        if parameters.size == 1:
            return parameters.reshape(-1)[0]
        row, rows, first, last = place
        begin, end = first // self._block, -(-last // self._block)
        table = parameters.reshape(-1, -(-self._columns // self._block))[:, begin:end]
        if self._is_repeated:
            table = np.broadcast_to(table, (rows, end - begin))
        else:
            table = table[self._parameter_rows(np.arange(row, row + rows))]
        if end - begin == 1 and (rows == 1 or self._is_repeated):
            return table[0, 0]
        if self._block > 1:
            skipped = begin * self._block
            # Copied by rows of a block, which np.repeat takes several times as long for.
            each = np.broadcast_to(table[..., None], (*table.shape, self._block))
            table = each.reshape(len(table), -1)[:, first - skipped : last - skipped]
        return np.ascontiguousarray(table).reshape(-1)

    def _parameter_rows(self, rows: Numbers) -> Numbers:
        """The rows of parameters that rows of elements have."""
        found, step = np.zeros_like(rows), 1
        for (size, block), count in zip(reversed(self._outer), reversed(self._counts), strict=True):
            rows, index = np.divmod(rows, size)
            found += index // block * step
            step *= count
        return found


def _merged(shape: Sequence[int], blocks: Sequence[int]) -> list[tuple[int, int]]:
    """Dimensions, as sizes and blocks, that have the same parameters in C order."""
    found: list[tuple[int, int]] = []
    for size, given in zip(shape, blocks, strict=True):
        block = min(given, size)
        if size <= 1:
            continue
        if found:
            outer, step = found[-1]
            if block == size:
                found[-1] = outer * size, step * size
                continue
            if step == 1 and size % block == 0:
                found[-1] = outer * size, block
                continue
        found.append((size, block))
    return found or [(max(math.prod(shape), 1), 1)]
