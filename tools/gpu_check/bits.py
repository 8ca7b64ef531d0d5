"""Every pattern through the GPU, against NumPy."""

from __future__ import annotations

import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

import numpy as np

from tensor_round.call import RoundCall
from tensor_round.conformance.patterns import random_patterns
from tensor_round.conformance.reference import Bits, bits_type
from tensor_round.dtypes import BY_NAME
from tensor_round.layout import Layout
from tensor_round.rounding import Rounding
from tensor_round_service.backends.cpu.backend import NumpyBackend, usable_cores
from tensor_round_service.backends.cuda.backend import CupyBackend

#: Patterns tried at a time.
CHUNK = 1 << 21
#: Of float64, whose patterns nobody can try; seeded, half of them where rounding has work to do.
FLOAT64_COUNT = 1 << 26

#: By dtype and direction; None where time ran out.
Mismatches = dict[str, dict[str, int | None]]


def exhaustive(backend: CupyBackend, dtypes: Sequence[str], deadline: float) -> Mismatches:
    """How many results differ from NumPy's, of all patterns; of float64, of many."""
    host = NumpyBackend(threads=1)  # the chunks share the cores
    found: Mismatches = {}
    for dtype in dtypes:
        found[dtype] = {}
        for rounding in Rounding:
            found[dtype][rounding] = _sweep(backend, host, dtype, rounding, deadline)
    host.close()
    return found


def _sweep(
    backend: CupyBackend, host: NumpyBackend, dtype: str, rounding: Rounding, deadline: float
) -> int | None:
    count = FLOAT64_COUNT if dtype == "float64" else 1 << (8 * BY_NAME[dtype].itemsize)

    def differing(start: int) -> int | None:
        if time.monotonic() > deadline:
            return None
        patterns = _patterns(dtype, start, min(CHUNK, count - start))
        layout = Layout.of(BY_NAME[dtype], (patterns.size,))
        call = RoundCall.packed_output(rounding, layout)
        there, here = np.empty_like(patterns), np.empty_like(patterns)
        backend.round_on_device(call, patterns.view(np.uint8), there.view(np.uint8))
        host.round(call, patterns.view(np.uint8), here.view(np.uint8))
        return int(np.count_nonzero(there != here))

    with ThreadPoolExecutor(usable_cores()) as workers:
        counts = list(workers.map(differing, range(0, count, CHUNK)))
    finished = [differ for differ in counts if differ is not None]
    return sum(finished) if len(finished) == len(counts) else None


def _patterns(dtype: str, start: int, count: int) -> Bits:
    if dtype == "float64":
        return random_patterns(dtype, count, seed=start)
    return np.arange(start, start + count, dtype=bits_type(dtype))
