"""Where a run of elements ends or is cut: vector tails, cache blocks, the shares of threads."""

from __future__ import annotations

import numpy as np
import pytest

from support.cases.array_cases import on_wire
from support.cases.backend_calls import flat_call, run_flat, sample_pair, tame_pair
from support.cases.every import every_pair
from tensor_round.contract.dtypes import BY_NAME
from tensor_round.contract.rounding import Rounding
from tensor_round_service.backends import Backend
from tensor_round_service.backends.cpu import floats, narrow_floats
from tensor_round_service.backends.cpu.loops import rounder
from tensor_round_verify.reference import FLOATS, ROUNDINGS, WIDTHS

pytestmark = pytest.mark.slow

#: Bytes at which the NumPy backend cuts a run; another backend's cuts lie at powers of two as well.
CUTS = {
    "least-for-16-bits": narrow_floats.MIN_BYTES,
    "blocks-of-16-bits": 8 * narrow_floats.BLOCK_WORDS,
    "table-blocks": 4 * narrow_floats.BLOCK_PATTERNS,
    "blocks": 2 * floats.BLOCK_BYTES,
}

#: Patterns to fill a run with, and their results: everything that is hard, or nothing that
#: keeps a block from the quick ways.
PAIRS = {"hard": sample_pair, "tame": tame_pair}


def assert_sized(
    backend: Backend, dtype: str, rounding: str, count: int, in_place: bool, pairs: str = "hard"
) -> None:
    """``count`` elements of the patterns, over and over, come back right."""
    patterns, right = PAIRS[pairs](dtype, rounding)
    found = run_flat(backend, dtype, rounding, np.resize(patterns, count), in_place=in_place)
    np.testing.assert_array_equal(found, np.resize(right, count))


@pytest.mark.parametrize("dtype", WIDTHS)
def test_small_sizes(backend: Backend, dtype: str) -> None:
    for count in range(70):
        for in_place in (False, True):
            assert_sized(backend, dtype, ROUNDINGS[count % 5], count, in_place)


@pytest.mark.parametrize("dtype", [*FLOATS, "int8", "uint64"])
def test_sizes_at_the_cuts(backend: Backend, dtype: str) -> None:
    def check(cut: str, offset: int, in_place: bool, pairs: str) -> None:
        count = CUTS[cut] * 8 // WIDTHS[dtype] + offset
        assert_sized(backend, dtype, "ties_to_away", count, in_place, pairs)

    every_pair(check, CUTS, (-1, 0, 1), (False, True), PAIRS if dtype in FLOATS else ["hard"])


def test_sizes_for_all_threads(threaded_backend: Backend) -> None:
    def check(dtype: str, rounding: str, pairs: str) -> None:
        row = BY_NAME[dtype]
        count = row.count(rounder(row, Rounding(rounding)).split_bytes)
        assert_sized(
            threaded_backend, dtype, rounding, count * 5 // 4 + 3, in_place=True, pairs=pairs
        )

    every_pair(check, FLOATS, ROUNDINGS, PAIRS)


@pytest.mark.parametrize("dtype", FLOATS)
def test_elements_may_lie_at_any_byte(backend: Backend, dtype: str) -> None:
    """A library's caller may round a part of a file that was read or mapped whole."""
    patterns, right = (np.resize(each, 60_001) for each in tame_pair(dtype, "ties_to_away"))
    for offset in (1, 2, 4):
        given, wanted = (on_wire(each.view(BY_NAME[dtype].numpy)) for each in (patterns, right))
        memory = backend.allocate(offset + len(given))[offset:]
        memory[:] = np.frombuffer(given, np.uint8)
        backend.round(flat_call(dtype, "ties_to_away", patterns.size), memory, memory)
        assert memory.tobytes() == wanted


def lone_nan_places(count: int, block: int) -> list[int]:
    """The ends of a run and both sides of every block's border."""
    borders = range(0, count + block, block)
    near = (border + step for border in borders for step in range(-17, 17))
    return sorted({place for place in near if 0 <= place < count} | {count - 1})


@pytest.mark.parametrize("step", [4, pytest.param(1, marks=pytest.mark.sweep)])
def test_a_lone_signalling_nan_keeps_its_bits_wherever_it_lies(backend: Backend, step: int) -> None:
    """The directions take the places in turn."""

    def check(dtype: str, rounding: str, in_place: bool) -> None:
        fmt = FLOATS[dtype]
        bytes_of_a_block = floats.BLOCK_BYTES if fmt.width > 16 else 4 * narrow_floats.BLOCK_WORDS
        block = bytes_of_a_block // (fmt.width // 8)
        signalling = fmt.sign_bit - (1 << fmt.fraction_bits) | 0x15
        patterns, right = (np.resize(each, block + 21) for each in tame_pair(dtype, rounding))
        for place in lone_nan_places(patterns.size, block)[
            ROUNDINGS.index(rounding) % step :: step
        ]:
            given, wanted = patterns.copy(), right.copy()
            given[place] = wanted[place] = signalling
            found = run_flat(backend, dtype, rounding, given, in_place=in_place)
            assert np.array_equal(found, wanted), f"the NaN at {place} of {patterns.size}"

    every_pair(check, ("float32", "float64", "bfloat16", "float16"), ROUNDINGS, (False, True))
