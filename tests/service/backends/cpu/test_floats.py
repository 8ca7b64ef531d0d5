"""Floats in NumPy: which way a block goes, alone or two to a word, and that NaNs come back."""

from __future__ import annotations

import numpy as np
import pytest

from support.cases.backend_calls import sample_pair, tame_pair
from tensor_round.contract.dtypes import BY_NAME
from tensor_round.contract.rounding import Rounding
from tensor_round_service.backends.cpu.floats import kernel, round_floats
from tensor_round_service.backends.cpu.narrow_floats import (
    KERNELS,
    MIN_BYTES,
    entries_of_16_bits,
    round_lanes,
    table,
)
from tensor_round_verify.reference import FLOATS, ROUNDINGS, Bits, is_nan, rounded

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


LANES = [(dtype.name, rounding) for dtype, rounding in KERNELS]


def in_lanes(name: str, rounding: Rounding, patterns: Bits) -> Bits | None:
    """What the kernel makes of the patterns; None if it would not, and they are as they were."""
    run = patterns.copy()
    words = run.view(np.uint32)
    with np.errstate(all="raise"):
        done = KERNELS[BY_NAME[name], rounding](words, np.empty(2 * words.size, np.uint32))
    if done:
        return run
    np.testing.assert_array_equal(run, patterns)
    return None


def accepted_pair(name: str, rounding: Rounding) -> tuple[Bits, Bits]:
    """All patterns that a kernel is for, and their results.

    Every float16; every bfloat16 but NaNs, and for ties to away but what is large: from
    2^22 on a float32's last bit is worth more than a quarter.
    """
    patterns, right = sample_pair(name, rounding)
    if name == "float16":
        return patterns, right
    fmt = FLOATS[name]
    infinity = fmt.sign_bit - (1 << fmt.fraction_bits)
    end = (fmt.bias + 22) << fmt.fraction_bits
    magnitudes = patterns & (fmt.sign_bit - 1)
    accepted = magnitudes < (end if rounding is Rounding.TIES_TO_AWAY else infinity + 1)
    return patterns[accepted], right[accepted]


def test_modes_of_onnx_and_openvino_have_lanes() -> None:
    for rounding in (Rounding.TIES_TO_EVEN, Rounding.TIES_TO_AWAY):
        assert {("bfloat16", rounding), ("float16", rounding)} <= set(LANES)


@pytest.mark.parametrize(("name", "rounding"), LANES)
def test_every_pattern_in_either_half_beside_any_neighbour(name: str, rounding: Rounding) -> None:
    patterns, right = accepted_pair(name, rounding)
    for seed in range(8):
        order = np.random.default_rng(seed).permutation(patterns.size & ~1)
        for turned in (order, np.roll(order, 1)):
            got = in_lanes(name, rounding, patterns[turned])
            assert got is not None
            np.testing.assert_array_equal(got, right[turned])


@pytest.mark.parametrize("rounding", Rounding)
def test_every_bfloat16_that_float32_would_spoil_is_refused(rounding: Rounding) -> None:
    patterns, _ = sample_pair("bfloat16", rounding)
    accepted, _ = accepted_pair("bfloat16", rounding)
    refused = np.setdiff1d(patterns, accepted)
    assert refused.size >= 2 * 127
    # Ties to away refuse a hundred times as many: some of each exponent.
    for pattern in refused[:: 1 + refused.size // 3000]:
        assert in_lanes("bfloat16", rounding, np.array([pattern, 0], np.uint16)) is None
        assert in_lanes("bfloat16", rounding, np.array([0, pattern], np.uint16)) is None


@pytest.mark.parametrize(("name", "rounding"), LANES)
def test_patterns_without_lanes_and_a_last_odd_element_go_by_table(
    name: str, rounding: Rounding
) -> None:
    patterns, right = (np.resize(each, MIN_BYTES) for each in sample_pair(name, rounding))
    for count in (MIN_BYTES // 2, MIN_BYTES // 2 + 1, MIN_BYTES - 1):
        run = patterns[-count:].copy()
        dtype = BY_NAME[name]
        entries = entries_of_16_bits(dtype, rounding)
        round_lanes(KERNELS[dtype, rounding], entries, run.view(np.uint8))
        np.testing.assert_array_equal(run, right[-count:])


@pytest.mark.parametrize("rounding", ROUNDINGS)
@pytest.mark.parametrize("name", ["float16", "bfloat16", "float8_e4m3fn", "float8_e5m2"])
def test_tables_are_made_quietly_and_cannot_be_written(name: str, rounding: str) -> None:
    table.cache_clear()
    with np.errstate(all="raise"):
        entries = table(BY_NAME[name], Rounding(rounding))
    _, right = sample_pair(name, rounding)
    np.testing.assert_array_equal(entries, right)
    with pytest.raises(ValueError, match="read-only"):
        entries[0] = 1
