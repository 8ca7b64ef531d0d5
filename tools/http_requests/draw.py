"""How the tensors of requests are drawn."""

from __future__ import annotations

import random

from support.cases.drawn_tensors import PERIOD, DrawnTensor
from tensor_round_verify.reference import ROUNDINGS, WIDTHS

#: Sizes in bytes that come often.
_COMMON = (4, 16, 40, 64, 1024, 4096, 12_000)
_ABOUT_64_KIB = (60 << 10, (64 << 10) - 4, 64 << 10, (64 << 10) + 4, 70 << 10)
_LARGE = (100 << 10, 160 << 10, 300 << 10, 1 << 20)


class Source(random.Random):
    """Random numbers from a seed, and the bytes of the largest tensor drawn by them."""

    max_bytes = 1 << 20


def tensor(
    source: Source, max_bytes: int = 1 << 62, dtypes: tuple[str, ...] = tuple(WIDTHS)
) -> DrawnTensor:
    """Any tensor of at most so many bytes; half of them of float32, if that is one of the types."""
    common = "float32" in dtypes and source.random() < 0.5
    dtype = "float32" if common else source.choice(dtypes)
    rounding = source.choice(("ties_to_even",) * 5 + ROUNDINGS)
    return of(source, dtype, rounding, size(source, max_bytes) * 8 // WIDTHS[dtype])


def of(source: Source, dtype: str, rounding: str, count: int) -> DrawnTensor:
    """A tensor of so many elements."""
    return DrawnTensor.of(dtype, rounding, count, source.randrange(PERIOD))


def size(source: Source, max_bytes: int = 1 << 62) -> int:
    """A number of bytes: small sizes and common ones are drawn more often than others."""
    kind = source.random()
    if kind < 0.72:
        drawn = source.choice(_COMMON) if kind < 0.6 else source.randrange(8, 20_000, 8)
    elif kind < 0.9:
        drawn = source.choice(_ABOUT_64_KIB) if kind < 0.87 else source.randrange(60_000, 70_000, 8)
    elif kind < 0.98:
        drawn = source.choice(_LARGE)
    else:
        drawn = int(source.max_bytes ** source.random()) & ~7
    return min(drawn, max_bytes, source.max_bytes)
