"""float32 and float64 in NumPy: which way a block goes, and that NaNs come back on each."""

from __future__ import annotations

import numpy as np
import pytest

from support.cases.backend_calls import sample_pair, tame_pair
from tensor_round.contract.dtypes import BY_NAME
from tensor_round.contract.rounding import Rounding
from tensor_round_service.backends.cpu.floats import kernel, round_floats
from tensor_round_verify.reference import FLOATS, Bits, is_nan, rounded

WIDE = ["float32", "float64"]


def answer(name: str, rounding: Rounding, patterns: Bits) -> Bits:
    """What becomes of the patterns, in a caller's strictest error state."""
    dtype, run = BY_NAME[name], patterns.copy()
    with np.errstate(all="raise"):
        round_floats(dtype.numpy, kernel(dtype, rounding), run.view(np.uint8))
    return run


def quick_way_suits(name: str, rounding: Rounding, patterns: Bits) -> bool:
    dtype = BY_NAME[name]
    return kernel(dtype, rounding).accepts(patterns.view(dtype.numpy))


def signalling_nan(name: str, payload: int = 0x1234) -> int:
    fmt = FLOATS[name]
    return fmt.sign_bit - (1 << fmt.fraction_bits) | payload


@pytest.mark.parametrize("rounding", Rounding)
@pytest.mark.parametrize("name", WIDE)
def test_a_nan_at_every_place_of_a_block_is_found_and_kept(name: str, rounding: Rounding) -> None:
    """1100 elements: whatever registers ``argmax`` reads at once, and a tail of single ones."""
    patterns, right = (each[:1100] for each in tame_pair(name, rounding))
    assert quick_way_suits(name, rounding, patterns)
    for nan in (signalling_nan(name), signalling_nan(name) | FLOATS[name].sign_bit):
        for place in range(patterns.size):
            given, wanted = patterns.copy(), right.copy()
            given[place] = wanted[place] = nan
            assert not quick_way_suits(name, rounding, given)
            assert np.array_equal(answer(name, rounding, given), wanted), place


@pytest.mark.parametrize("rounding", Rounding)
@pytest.mark.parametrize("name", WIDE)
def test_blocks_of_nothing_but_nans_come_back(name: str, rounding: Rounding) -> None:
    patterns, _ = sample_pair(name, rounding)
    nans = patterns[is_nan(name, patterns)]
    assert nans.size > 100
    np.testing.assert_array_equal(answer(name, rounding, nans), nans)
    for nan in nans:
        np.testing.assert_array_equal(answer(name, rounding, np.array([nan])), [nan])


@pytest.mark.parametrize("rounding", Rounding)
@pytest.mark.parametrize("name", WIDE)
def test_both_ways_give_the_same_bits(name: str, rounding: Rounding) -> None:
    """The tame patterns go the quick way; one more element sends them the other."""
    patterns, right = tame_pair(name, rounding)
    assert quick_way_suits(name, rounding, patterns)
    np.testing.assert_array_equal(answer(name, rounding, patterns), right)
    barred = np.append(patterns, patterns.dtype.type(signalling_nan(name)))
    np.testing.assert_array_equal(answer(name, rounding, barred)[:-1], right)


@pytest.mark.parametrize("sign", [0, 1], ids=["positive", "negative"])
@pytest.mark.parametrize("name", WIDE)
def test_the_last_bit_is_set_only_where_it_is_worth_a_quarter_or_less(name: str, sign: int) -> None:
    fmt, signed = FLOATS[name], sign << (FLOATS[name].width - 1)
    # From 2^(p-1) on it is worth a half.
    limit = (fmt.bias + fmt.fraction_bits - 1) << fmt.fraction_bits | signed
    around = np.arange(limit - 300, limit + 300, dtype=BY_NAME[name].bits)
    below = around[:300]
    assert quick_way_suits(name, Rounding.TIES_TO_AWAY, below)
    for place in range(300, 600):
        assert not quick_way_suits(name, Rounding.TIES_TO_AWAY, np.append(below, around[place]))
    for patterns in (below, around):
        wanted = rounded(patterns, name, "ties_to_away")
        got = answer(name, Rounding.TIES_TO_AWAY, patterns)
        np.testing.assert_array_equal(got, wanted)
