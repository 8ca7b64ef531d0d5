"""The patterns on which arithmetic is proved before it serves."""

from __future__ import annotations

from functools import cache

import numpy as np

from tensor_round.dtypes import DType

from . import Bytes


@cache
def patterns(dtype: DType) -> Bytes:
    """All patterns of 8 and 16 bits; of wider types every sign, exponent and leading bits.

    In front of each of the latter's tails: zeros, ones, and two that are neither.
    """
    count = 1 << min(8 * dtype.itemsize, 16)
    heads = np.arange(count, dtype=dtype.bits)
    below = 8 * dtype.itemsize - 16
    if below <= 0:
        return heads.view(np.uint8)
    ones = (1 << below) - 1
    tails = [0, ones, 1, 1 << (below - 1)]
    return np.concatenate(
        [(heads << dtype.bits.type(below)) | dtype.bits.type(tail) for tail in tails]
    ).view(np.uint8)
