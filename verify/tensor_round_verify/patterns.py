"""Test patterns for rounding: hard ones, random ones, and all of them.

Dtypes of 8 and 16 bits are tested with all patterns. For wider ones there are edges and seeded
random patterns, and for 32 bits also every pattern, in blocks.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from functools import cache

import numpy as np

from .reference import FLOAT_FORMATS, Bits, Format, all_patterns, bits_type, width

#: Patterns in a block of :func:`blocks`.
BLOCK = 1 << 20
#: Bytes at whose multiples arrays begin, unless another place is what is tried.
ALIGNMENT = 64


def edges(dtype: str) -> Bits:
    """Hard patterns of a dtype of 16 bits or more: both signs, each once, ascending."""
    return _edges(dtype).copy()


# A verification counts them, and then tries them, for each direction.
@cache
def _edges(dtype: str) -> Bits:
    if dtype not in FLOAT_FORMATS:
        return _integer_edges(dtype)
    fmt = FLOAT_FORMATS[dtype]
    magnitudes = {
        *_near_powers_of_two(fmt),
        *_near_halves(fmt),
        *_near_the_last_fraction(fmt),
        *_subnormals(fmt),
        *_specials(fmt),
    }
    signed = magnitudes | {m | fmt.sign_bit for m in magnitudes}
    return np.array(sorted(signed), dtype=bits_type(dtype))


def random_patterns(dtype: str, count: int, seed: int) -> Bits:
    """Seeded random patterns: even entries uniform over all bits, odd ones of numbers that change.

    Uniform patterns alone would test float64 poorly: 97 % of them are integers, or smaller than
    1/2.
    """
    generator = np.random.default_rng(seed)
    patterns = generator.integers(
        0, 1 << width(dtype), count, dtype=bits_type(dtype).type, endpoint=False
    )
    if dtype in FLOAT_FORMATS:
        fmt = FLOAT_FORMATS[dtype]
        p = fmt.fraction_bits
        fields = generator.integers(fmt.bias - 2, fmt.bias + p + 2, count).astype(patterns.dtype)
        keep = patterns.dtype.type(fmt.sign_bit | ((1 << p) - 1))
        busy = (patterns & keep) | (fields << patterns.dtype.type(p))
        patterns[1::2] = busy[1::2]
    return patterns


def samples(dtype: str, random_count: int = 1 << 16, seed: int = 754) -> Bits:
    """Every pattern of 8 or 16 bits; of wider types the edges, then random ones."""
    if width(dtype) <= 16:
        return all_patterns(dtype)
    return np.concatenate([edges(dtype), random_patterns(dtype, random_count, seed)])


def blocks(dtype: str, random_count: int = 1 << 20, *, every: bool = False) -> Iterator[Bits]:
    """The test patterns of a dtype, in blocks of at most :data:`BLOCK`.

    They are the :func:`samples`, with the edges in the first block; or with ``every`` all 2^32 of
    a dtype of 32 bits, ascending.
    """
    if every and width(dtype) == 32:
        for start in range(0, 1 << 32, BLOCK):
            yield np.arange(start, start + BLOCK, dtype=bits_type(dtype))
    else:
        patterns = samples(dtype, random_count)
        for start in range(0, patterns.size, BLOCK):
            yield patterns[start : start + BLOCK]


def pattern_count(dtype: str, random_count: int = 1 << 20, *, every: bool = False) -> int:
    """The number of patterns that :func:`blocks` yields."""
    if width(dtype) <= 16 or (every and width(dtype) == 32):
        return 1 << width(dtype)
    return edges(dtype).size + random_count


def aligned(bits: Bits) -> Bits:
    """A copy in memory that begins where vectors do."""
    room = np.empty(bits.nbytes + ALIGNMENT, np.uint8)
    start = -room.ctypes.data % ALIGNMENT
    copy: Bits = room[start : start + bits.nbytes].view(bits.dtype)
    copy[:] = bits
    return copy


def _encode(numerator: int, fmt: Format) -> int:
    """The pattern of ``numerator / 2``, which must need no more than p + 1 bits."""
    above = numerator.bit_length() - 1
    fraction = (numerator << (fmt.fraction_bits - above)) - (1 << fmt.fraction_bits)
    return ((fmt.bias + above - 1) << fmt.fraction_bits) + fraction


def _around(pattern: int, ulps: int) -> range:
    return range(pattern - ulps, pattern + ulps + 1)


def _near_powers_of_two(fmt: Format) -> set[int]:
    """Powers of two from 1/4 to 2^(p+2) with neighbours; halves end at 2^p, quarters at 2^(p-1)."""
    p = fmt.fraction_bits
    fields = range(fmt.bias - 2, fmt.bias + p + 3)
    return {m for field in fields for m in _around(field << p, 8)}


def _near_halves(fmt: Format) -> set[int]:
    """Ties k + 1/2 with neighbours, for small k, and for random k of every length with ties."""
    p = fmt.fraction_bits
    draw = random.Random(p)
    small = range(1, 130, 2)
    long = (2 * draw.getrandbits(bits) + 1 for bits in range(1, p) for _ in range(16))
    numerators = (n for n in (*small, *long) if n < 1 << (p + 1))
    return {m for n in numerators for m in _around(_encode(n, fmt), 3)}


def _near_the_last_fraction(fmt: Format) -> set[int]:
    """Numbers of [2^(p-1), 2^p), the last with ties, and odd integers of [2^p, 2^(p+1))."""
    p = fmt.fraction_bits
    draw = random.Random(p + 1)
    first = (fmt.bias + p - 1) << p
    drawn = {first + draw.randrange(2 << p) for _ in range(2000)}
    odd = {(first + (1 << p) + draw.randrange(1 << p)) | 1 for _ in range(2000)}
    return drawn | odd


def _subnormals(fmt: Format) -> set[int]:
    p = fmt.fraction_bits
    draw = random.Random(p + 2)
    least_normal = 1 << p
    return {*range(16), *_around(least_normal, 8), *(draw.randrange(1 << p) for _ in range(200))}


def _specials(fmt: Format) -> set[int]:
    """The largest finite values, infinity, and NaNs: quiet, signalling, payloads of every bit."""
    p = fmt.fraction_bits
    draw = random.Random(p + 3)
    infinity = fmt.infinity
    quiet = 1 << (p - 1)
    payloads = {
        quiet,
        quiet | 1,
        quiet - 1,
        (1 << p) - 1,
        *(1 << bit for bit in range(p)),
        *(quiet | 1 << bit for bit in range(p)),
        *(draw.randrange(1, 1 << p) for _ in range(200)),
    }
    return {*range(infinity - 8, infinity + 1), *(infinity | payload for payload in payloads)}


def _integer_edges(dtype: str) -> Bits:
    """Zero, the extremes, and powers of two with neighbours, which conversions may change."""
    size = width(dtype)
    near = {0, *(power + by for power in (1 << n for n in range(size)) for by in (-1, 0, 1))}
    negated = {(1 << size) - n for n in near if n}
    return np.array(sorted(near | negated), dtype=bits_type(dtype))
