"""Patterns that rounding code gets wrong, and all there are.

Types of 8 and 16 bits are tried whole. Of wider ones there are edges, seeded random
patterns, and, of 32 bits, every pattern in blocks.
"""

from __future__ import annotations

import random
from collections.abc import Iterator

import numpy as np

from .reference import FLOATS, WIDTHS, Bits, Format, all_patterns, bits_type

#: Patterns in a block of :func:`blocks`.
BLOCK = 1 << 20


def edges(dtype: str) -> Bits:
    """Hard patterns of a type of 16 bits or more, of both signs, each once, ascending."""
    if dtype not in FLOATS:
        return _integer_edges(dtype)
    fmt = FLOATS[dtype]
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
    """Seeded patterns: even entries uniform over all bits, odd ones where rounding has work to do.

    Uniform patterns alone would hardly try a float64: all but 3 % of them are
    integers already or smaller than 1/2.
    """
    generator = np.random.default_rng(seed)
    patterns = generator.integers(
        0, 1 << WIDTHS[dtype], count, dtype=bits_type(dtype).type, endpoint=False
    )
    if dtype in FLOATS:
        fmt = FLOATS[dtype]
        p = fmt.fraction_bits
        fields = generator.integers(fmt.bias - 2, fmt.bias + p + 2, count).astype(patterns.dtype)
        keep = patterns.dtype.type(fmt.sign_bit | ((1 << p) - 1))
        busy = (patterns & keep) | (fields << patterns.dtype.type(p))
        patterns[1::2] = busy[1::2]
    return patterns


def samples(dtype: str, random_count: int = 1 << 16, seed: int = 754) -> Bits:
    """Every pattern of 8 or 16 bits; of wider types the edges, then random ones."""
    if WIDTHS[dtype] <= 16:
        return all_patterns(dtype)
    return np.concatenate([edges(dtype), random_patterns(dtype, random_count, seed)])


def blocks(dtype: str, random_count: int = 1 << 20, *, every: bool = False) -> Iterator[Bits]:
    """The patterns to try, at most :data:`BLOCK` at a time.

    They are the :func:`samples`, edges in the first block; with ``every``, all 2^32 of a
    type of 32 bits, ascending.
    """
    if every and WIDTHS[dtype] == 32:
        for start in range(0, 1 << 32, BLOCK):
            yield np.arange(start, start + BLOCK, dtype=bits_type(dtype))
    else:
        patterns = samples(dtype, random_count)
        for start in range(0, patterns.size, BLOCK):
            yield patterns[start : start + BLOCK]


def pattern_count(dtype: str, random_count: int = 1 << 20, *, every: bool = False) -> int:
    """How many patterns :func:`blocks` gives."""
    width = WIDTHS[dtype]
    if width <= 16 or (every and width == 32):
        return 1 << width
    return edges(dtype).size + random_count


def _encode(numerator: int, fmt: Format) -> int:
    """The pattern of ``numerator / 2``, which must need no more than p + 1 bits."""
    above = numerator.bit_length() - 1
    fraction = (numerator << (fmt.fraction_bits - above)) - (1 << fmt.fraction_bits)
    return ((fmt.bias + above - 1) << fmt.fraction_bits) + fraction


def _around(pattern: int, ulps: int) -> range:
    return range(pattern - ulps, pattern + ulps + 1)


def _near_powers_of_two(fmt: Format) -> set[int]:
    """1/4 to 2^(p+2), each with neighbours: 2^(p-1) ends the quarters, 2^p the halves."""
    p = fmt.fraction_bits
    fields = range(fmt.bias - 2, fmt.bias + p + 3)
    return {m for field in fields for m in _around(field << p, 8)}


def _near_halves(fmt: Format) -> set[int]:
    """Each k + 1/2 and its neighbours: small k, and k of every length that has a half."""
    p = fmt.fraction_bits
    draw = random.Random(p)
    small = range(1, 130, 2)
    long = (2 * draw.getrandbits(bits) + 1 for bits in range(1, p) for _ in range(16))
    numerators = (n for n in (*small, *long) if n < 1 << (p + 1))
    return {m for n in numerators for m in _around(_encode(n, fmt), 3)}


def _near_the_last_fraction(fmt: Format) -> set[int]:
    """[2^(p-1), 2^p), where halves end, and [2^p, 2^(p+1)), whose odd integers must not move."""
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
    infinity = fmt.sign_bit - (1 << p)
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
    """Zero, the ends, and powers of two with neighbours: what narrower types and floats lose."""
    width = WIDTHS[dtype]
    near = {0, *(power + by for power in (1 << n for n in range(width)) for by in (-1, 0, 1))}
    negated = {(1 << width) - n for n in near if n}
    return np.array(sorted(near | negated), dtype=bits_type(dtype))
