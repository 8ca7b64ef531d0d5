"""The bit patterns of a proof: kernels must round them correctly before they serve."""

from __future__ import annotations

from functools import cache

import numpy as np

from tensor_round.contract.dtypes import DType

from . import Bytes


@cache
def patterns(dtype: DType) -> Bytes:
    """All patterns of an 8- or 16-bit type; of a wider type all combinations of its upper 16 bits.

    The lower bits of a wider type are in turn all zeros, all ones, 0...01 and 10...0.
    """
    count = 1 << min(dtype.width, 16)
    upper = np.arange(count, dtype=dtype.bits)
    lower_bits = dtype.width - 16
    if lower_bits <= 0:
        return upper.view(np.uint8)
    lowers = [0, (1 << lower_bits) - 1, 1, 1 << (lower_bits - 1)]
    return np.concatenate(
        [(upper << dtype.bits.type(lower_bits)) | dtype.bits.type(lower) for lower in lowers]
    ).view(np.uint8)
