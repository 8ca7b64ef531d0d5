"""Tiles of bulk runs: every element once, whole chunks, runs of memory."""

from __future__ import annotations

import math

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tensor_round_cli.bulk.tile_grid import Tiles

SHAPES = st.lists(st.integers(0, 9), max_size=4)


@given(SHAPES, st.data(), st.integers(1, 40), st.booleans())
def test_tiles_cover_every_element_once(
    shape: list[int], data: st.DataObject, limit: int, fortran: bool
) -> None:
    grid = data.draw(st.tuples(*[st.integers(1, 5) for _ in shape]))
    tiles = Tiles.cut(tuple(shape), grid, limit, fortran)
    seen = np.zeros(shape, int)
    for index in range(len(tiles)):
        box = tiles[index]
        seen[box] += 1
        assert seen[box].size == tiles.size(index)
        for side, chunk, size in zip(box, grid, shape, strict=True):
            assert side.start % chunk == 0
            assert side.stop % chunk == 0 or side.stop == size
    assert (seen == 1).all()
    assert math.prod(tiles.tile) <= max(limit, math.prod(grid))


@given(SHAPES, st.integers(1, 40), st.booleans())
def test_without_chunks_each_tile_is_a_run_of_memory(
    shape: list[int], limit: int, fortran: bool
) -> None:
    flat = np.arange(math.prod(shape))
    x = flat.reshape(shape, order="F" if fortran else "C")
    tiles = Tiles.cut(tuple(shape), (1,) * len(shape), limit, fortran)
    runs = [x[tiles[index]].ravel("F" if fortran else "C") for index in range(len(tiles))]
    assert np.array_equal(np.concatenate([*runs, flat[:0]]), flat)


def test_tiles_are_nearly_as_large_as_allowed() -> None:
    tiles = Tiles.cut((1000, 1000), (1, 1), 64_000, False)
    assert (tiles.tile, len(tiles)) == ((64, 1000), 16)
    assert Tiles.cut((100, 100), (10, 10), 1000, False).tile == (10, 100)
    assert Tiles.cut((100, 100), (10, 10), 1, False).tile == (10, 10)
