"""Where a run of elements ends or is cut: vector tails, cache blocks, the shares of threads."""

from __future__ import annotations

import numpy as np
import pytest

from support.backend_calls import run_flat, sample_pair
from support.reference import FLOATS, ROUNDINGS, WIDTHS, Bits, is_nan, rounded
from tensor_round_service.backends import Backend
from tensor_round_service.backends.cpu import SPLIT_BYTES, TABLE_BLOCK
from tensor_round_service.backends.floats import BLOCK_BYTES

#: Bytes at which the NumPy backend cuts a run; another backend's cuts lie at powers of two as well.
CUTS = {
    "block": BLOCK_BYTES,
    "two-blocks": 2 * BLOCK_BYTES,
    "table-block": 2 * TABLE_BLOCK,
    "split": SPLIT_BYTES,
    "3-MiB": 3 << 20,
}


def assert_sized(backend: Backend, dtype: str, rounding: str, count: int, in_place: bool) -> None:
    """``count`` elements of the hard patterns, over and over, come back right."""
    patterns, right = sample_pair(dtype, rounding)
    answer = run_flat(backend, dtype, rounding, np.resize(patterns, count), in_place=in_place)
    np.testing.assert_array_equal(answer, np.resize(right, count))


@pytest.mark.parametrize("dtype", WIDTHS)
def test_small_sizes(backend: Backend, dtype: str) -> None:
    for count in range(70):
        for in_place in (False, True):
            assert_sized(backend, dtype, ROUNDINGS[count % 5], count, in_place)


@pytest.mark.parametrize("offset", [-1, 0, 1], ids=["one-less", "exact", "one-more"])
@pytest.mark.parametrize("cut", CUTS.values(), ids=CUTS)
@pytest.mark.parametrize("dtype", [*FLOATS, "int8", "uint64"])
def test_sizes_at_the_cuts(backend: Backend, dtype: str, cut: int, offset: int) -> None:
    count = cut // (WIDTHS[dtype] // 8) + offset
    for in_place in (False, True):
        assert_sized(backend, dtype, "ties_to_away", count, in_place)


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("rounding", ROUNDINGS)
def test_sizes_for_all_threads(backend: Backend, dtype: str, rounding: str) -> None:
    for in_place in (False, True):
        assert_sized(backend, dtype, rounding, (5 << 20) // (WIDTHS[dtype] // 8) + 3, in_place)


def lone_nan_places(count: int, block: int) -> list[int]:
    """The ends of a run and both sides of every block's border."""
    borders = range(0, count + block, block)
    near = (border + step for border in borders for step in range(-17, 17))
    return sorted({place for place in near if 0 <= place < count} | {count - 1})


@pytest.mark.parametrize("in_place", [False, True], ids=["out-of-place", "in-place"])
@pytest.mark.parametrize("rounding", ROUNDINGS)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_a_lone_signalling_nan_keeps_its_bits_wherever_it_lies(
    backend: Backend, dtype: str, rounding: str, in_place: bool
) -> None:
    fmt = FLOATS[dtype]
    block = BLOCK_BYTES // (fmt.width // 8)
    patterns = np.resize(_ordinary(dtype), 2 * block + 21)
    right = rounded(patterns, dtype, rounding)
    signalling = fmt.sign_bit - (1 << fmt.fraction_bits) | 0x1234
    for place in lone_nan_places(patterns.size, block):
        given, answer = patterns.copy(), right.copy()
        given[place] = answer[place] = signalling
        got = run_flat(backend, dtype, rounding, given, in_place=in_place)
        assert np.array_equal(got, answer), f"the NaN at {place} of {patterns.size}"


def _ordinary(dtype: str) -> Bits:
    """The hard patterns without NaNs, so that nothing else raises a flag."""
    patterns, _ = sample_pair(dtype, "toward_zero")
    return patterns[~is_nan(dtype, patterns)]
