"""The patterns to try: every one of narrow types, hard ones of wide types, blocks of all."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

from tensor_round_verify import INTEGER_WIDTHS, WIDTHS, all_patterns, blocks, edges, samples
from tensor_round_verify.patterns import BLOCK, pattern_count


@pytest.mark.parametrize("dtype", WIDTHS)
def test_blocks_are_the_samples_in_order(dtype: str) -> None:
    found = list(blocks(dtype, random_count=BLOCK + 1))
    assert all(0 < block.size <= BLOCK for block in found)
    whole = np.concatenate(found)
    assert whole.size == pattern_count(dtype, random_count=BLOCK + 1)
    np.testing.assert_array_equal(whole, samples(dtype, BLOCK + 1))


@pytest.mark.parametrize("dtype", [name for name, width in WIDTHS.items() if width <= 16])
def test_narrow_types_are_tried_whole(dtype: str) -> None:
    for every in (False, True):
        np.testing.assert_array_equal(
            np.concatenate(list(blocks(dtype, every=every))), all_patterns(dtype)
        )


def test_every_pattern_of_32_bits_comes_in_ascending_blocks() -> None:
    assert pattern_count("float32", every=True) == 1 << 32
    found = blocks("float32", every=True)
    np.testing.assert_array_equal(next(found), np.arange(BLOCK))
    ends = [(0, BLOCK - 1), *((int(block[0]), int(block[-1])) for block in found)]
    assert ends[-1][1] == (1 << 32) - 1
    assert all(last + 1 == first for (_, last), (first, _) in pairwise(ends))


@pytest.mark.parametrize("dtype", [name for name, width in INTEGER_WIDTHS.items() if width > 16])
def test_integer_edges_hold_values_that_narrower_types_lose(dtype: str) -> None:
    found = edges(dtype)
    width = INTEGER_WIDTHS[dtype]
    assert np.all(np.diff(found.astype(object)) > 0)
    lost_in_float32 = 2**24 + 1
    ends = [0, 1, 2 ** (width - 1) - 1, 2 ** (width - 1), 2**width - 1]
    assert {*ends, lost_in_float32, 2**width - lost_in_float32} <= set(found.tolist())
