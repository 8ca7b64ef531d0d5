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
#: Rows of equal parameters are a tile of their own if they have at least so many elements.
LONG = 1 << 10
#: Rows of at least so many elements are computed one by one, and no parameter is copied for them.
WIDE = 32

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

    def __init__(self, shape: Sequence[int], blocks: Sequence[int], most: int = TILE) -> None:
        """Tiles have up to ``most`` elements, or :data:`TILE` if parameters are copied for them."""
        *self._outer, (self._columns, self._block) = merged(shape, blocks)
        self._counts = [-(-size // block) for size, block in self._outer]
        self._is_repeated = all(count == 1 for count in self._counts)
        #: Rows in a dimension, of which groups have the same parameters, if these are long.
        self._rows, self._group = self._outer[-1] if self._outer else (1, 1)
        self._is_grouped = self._group * self._columns >= LONG and not self._is_repeated
        if self._block == 1:
            is_copied = self._columns < WIDE or not (self._is_repeated or self._is_grouped)
        else:
            is_divided = self._columns % self._block == 0
            is_copied = self._block < self._columns and (self._block < WIDE or not is_divided)
        self._most = TILE if is_copied else most

    def tiles(self, start: int, stop: int) -> Iterator[tuple[int, int, Place]]:
        """The tiles of a range of elements, each with its range and its place."""
        while start < stop:
            row, first = divmod(start, self._columns)
            row = 0 if self._is_repeated else row
            rows = 1
            if first or self._columns >= self._most or stop - start < self._columns:
                last = self._end(first, min(self._columns, first + stop - start))
            else:
                rows = min(self._most, stop - start) // self._columns
                if self._block == 1 and self._is_grouped:
                    at = row % self._rows
                    rows = min(rows, self._group - at % self._group, self._rows - at)
                last = self._columns
            end = start + rows * (last - first)
            begin = first // self._block * self._block
            if rows == 1 and last - begin <= self._block:
                yield start, end, Place(row, 1, begin, begin + 1)
            else:
                yield start, end, Place(row, rows, first, last)
            start = end

    def _end(self, first: int, limit: int) -> int:
        """The end of a tile within a row: of whole blocks, or within one."""
        block, limit = self._block, min(first + self._most, limit)
        begin = first // block * block
        if first > begin or limit <= begin + block:
            return min(limit, begin + block)
        return limit // block * block

    def spread(self, parameters: Numbers, place: Place) -> Numbers:
        """The parameters of a tile, which :func:`against` holds against its elements.

        They are a column, one for each row of elements, or a row, one for each column.
        """
        if parameters.size == 1:
            return parameters.reshape(1, 1)
        row, rows, first, last = place
        begin, end = first // self._block, -(-last // self._block)
        table = parameters.reshape(-1, -(-self._columns // self._block))[:, begin:end]
        if self._is_repeated:
            table = table[:1]
        else:
            of_rows = self._parameter_rows(np.arange(row, row + rows))
            is_one = bool((of_rows == of_rows[0]).all())
            table = table[of_rows[:1] if is_one else of_rows]
        if end - begin == 1:
            return np.ascontiguousarray(table)
        if self._block == 1:
            if len(table) == 1 and (rows == 1 or last - first >= WIDE):
                return np.ascontiguousarray(table)
            return _flattened(np.broadcast_to(table, (rows, last - first)))
        table = np.broadcast_to(table, (rows, end - begin))
        skipped = begin * self._block
        if self._block >= WIDE and first == skipped and last == end * self._block:
            return table.reshape(-1, 1)
        # Copied by rows of a block, which np.repeat takes several times as long for.
        each = np.broadcast_to(table[..., None], (*table.shape, self._block))
        table = each.reshape(rows, -1)[:, first - skipped : last - skipped]
        return _flattened(table)

    def _parameter_rows(self, rows: Numbers) -> Numbers:
        """The rows of parameters that rows of elements have."""
        found, step = np.zeros_like(rows), 1
        for (size, block), count in zip(reversed(self._outer), reversed(self._counts), strict=True):
            rows, index = np.divmod(rows, size)
            found += index // block * step
            step *= count
        return found


def against(parameters: Numbers, elements: Numbers) -> Numbers:
    """A tile's elements in rows, or columns, that have one of its parameters each."""
    rows, columns = parameters.shape
    return elements.reshape((rows, -1) if columns == 1 else (-1, columns))


def _flattened(table: Numbers) -> Numbers:
    return np.ascontiguousarray(table).reshape(1, -1)


def merged(shape: Sequence[int], blocks: Sequence[int]) -> list[tuple[int, int]]:
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
