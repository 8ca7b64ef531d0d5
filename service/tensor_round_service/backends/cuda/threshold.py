"""How large a tensor must be for a device to be worth its way there and back."""

from __future__ import annotations

import time

import numpy as np

from tensor_round.call import RoundCall
from tensor_round.dtypes import DTYPES, DType
from tensor_round.layout import Layout
from tensor_round.rounding import Rounding

from .. import Bytes, Round

#: Sizes tried. From the last on tensors are the device's whatever is measured: the cores have
#: sockets to serve.
SIZES = tuple(1 << power for power in range(14, 25))
#: Tries of each, of which the best counts.
TRIES = 5


def least_bytes(there: Round, here: Round, memory: Bytes) -> dict[DType, int]:
    """For each float dtype the smallest size from which on ``there`` is faster than ``here``.

    ``memory`` is what they try it on, of the largest of :data:`SIZES`.
    """
    # Zeros in any of the dtypes, so that one use of the memory does not bear on the next.
    memory[:] = 0
    return {dtype: _crossing(there, here, dtype, memory) for dtype in DTYPES if dtype.is_float}


def _crossing(there: Round, here: Round, dtype: DType, memory: Bytes) -> int:
    least = SIZES[-1]
    for size in reversed(SIZES[:-1]):
        if _seconds(there, dtype, memory[:size]) > _seconds(here, dtype, memory[:size]):
            break
        least = size
    return least


def _seconds(round_: Round, dtype: DType, memory: Bytes) -> float:
    layout = Layout.of(dtype, (memory.size // dtype.itemsize,))
    call = RoundCall.packed_output(Rounding.TIES_TO_EVEN, layout)
    best = np.inf
    for _ in range(TRIES):
        began = time.perf_counter()
        round_(call, memory, memory)
        best = min(best, time.perf_counter() - began)
    return float(best)
