"""Tensors to send and their roundings, all cut out of a few that are made once.

What is right comes from the tests' own reference alone.
"""

from __future__ import annotations

import random
from functools import cache
from typing import NamedTuple

from tensor_round.conformance.patterns import random_patterns
from tensor_round.conformance.reference import WIDTHS, rounded

#: Bytes of the largest tensor.
MOST = 1 << 20
#: Sizes in bytes that come often, so that their heads do too.
_OFTEN = (4, 16, 40, 64, 1024, 4096, 12_000)
_ABOUT_64_KIB = (60 << 10, (64 << 10) - 4, 64 << 10, (64 << 10) + 4, 70 << 10)
_LARGE = (100 << 10, 160 << 10, 300 << 10, MOST)


class Tensor(NamedTuple):
    """A tensor of one dimension, and what it is rounded to."""

    dtype: str
    count: int
    rounding: str
    given: bytes
    right: bytes


def drawn(chance: random.Random, most: int = MOST, dtypes: tuple[str, ...] = ()) -> Tensor:
    """Any tensor of at most so many bytes."""
    dtype = chance.choice(
        dtypes or ("float32", "float32", "float32", "float16", "float64", "int32")
    )
    rounding = chance.choice(("ties_to_even",) * 6 + ("ties_to_away", "toward_zero"))
    return cut(chance, dtype, size(chance, most) * 8 // WIDTHS[dtype], rounding)


def size(chance: random.Random, most: int = MOST) -> int:
    """A number of bytes: small ones, and those that come often, more than others."""
    kind = chance.random()
    if kind < 0.72:
        found = chance.choice(_OFTEN) if kind < 0.6 else chance.randrange(8, 20_000, 8)
    elif kind < 0.9:
        often = chance.choice(_ABOUT_64_KIB)
        found = often if kind < 0.87 else chance.randrange(60_000, 70_000, 8)
    else:
        often = chance.choice(_LARGE)
        found = often if kind < 0.98 else chance.randrange(100_000, MOST, 8)
    return min(found, most)


def cut(chance: random.Random, dtype: str, count: int, rounding: str) -> Tensor:
    """So many elements, from anywhere."""
    width = WIDTHS[dtype] // 8
    given, right = _stock(dtype, rounding)
    begin = chance.randrange(len(given) // width - count + 1) * width
    part = slice(begin, begin + count * width)
    return Tensor(dtype, count, rounding, given[part], right[part])


@cache
def _stock(dtype: str, rounding: str) -> tuple[bytes, bytes]:
    patterns = random_patterns(dtype, (MOST + (1 << 16)) * 8 // WIDTHS[dtype], seed=1)
    return patterns.tobytes(), rounded(patterns, dtype, rounding).tobytes()
