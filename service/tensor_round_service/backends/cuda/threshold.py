"""Measurement of the tensor size from which on a device is faster than NumPy, copies included."""

from __future__ import annotations

import time

import numpy as np

from tensor_round.contract.call import RoundCall
from tensor_round.contract.dtypes import DTYPES, DType
from tensor_round.contract.layout import Layout
from tensor_round.contract.rounding import Rounding

from .. import Bytes, Round

#: The measured sizes in bytes. The device always gets tensors of the last size and more, so that
#: the cores stay free for sockets.
SIZES = tuple(1 << power for power in range(14, 25))
#: Repetitions, of which the fastest counts.
TRIES = 5


def min_bytes(device_round: Round, host_round: Round, memory: Bytes) -> dict[DType, int]:
    """For each float dtype, the smallest size from which on the device is faster than the host.

    ``memory`` is used for the measurement; its size is the largest of :data:`SIZES`.
    """
    memory[:] = 0  # zero in every dtype: rounding does not change it
    return {
        dtype: _crossover(device_round, host_round, dtype, memory)
        for dtype in DTYPES
        if dtype.is_float
    }


def _crossover(device_round: Round, host_round: Round, dtype: DType, memory: Bytes) -> int:
    crossover = SIZES[-1]
    for size in reversed(SIZES[:-1]):
        part = memory[:size]
        if _seconds(device_round, dtype, part) > _seconds(host_round, dtype, part):
            break
        crossover = size
    return crossover


def _seconds(round_: Round, dtype: DType, memory: Bytes) -> float:
    layout = Layout.of(dtype, (memory.size // dtype.itemsize,))
    call = RoundCall.packed_output(Rounding.TIES_TO_EVEN, layout)
    best = np.inf
    for _ in range(TRIES):
        began = time.perf_counter()
        round_(call, memory, memory)
        best = min(best, time.perf_counter() - began)
    return float(best)
