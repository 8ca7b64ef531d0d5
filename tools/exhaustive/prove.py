"""Patterns through everything that rounds, chunk by chunk, against a reference."""

from __future__ import annotations

import math
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np

from tensor_round_service.backends.cpu.backend import usable_cores
from tensor_round_verify.patterns import random_patterns
from tensor_round_verify.reference import WIDTHS, Bits, bits_type

from .targets import RoundBits

#: Patterns tried at a time: on CPUs all arrays of a chunk stay in the caches, a GPU is kept busy.
CHUNK, DEVICE_CHUNK = 1 << 18, 1 << 21


@dataclass(frozen=True)
class Sweep:
    """The patterns of a dtype and rounding, tried; None are the mismatches of an unfinished one."""

    dtype: str
    rounding: str
    count: int
    mismatches: int | None
    seconds: float

    def __str__(self) -> str:
        found = "not finished" if self.mismatches is None else f"{self.mismatches} mismatches"
        return (
            f"{self.dtype}  {self.rounding}  {self.count} patterns  {found}  {self.seconds:.1f} s"
        )


def mismatches(
    tried: RoundBits, reference: RoundBits, dtype: str, rounding: str, patterns: Bits
) -> int:
    """How many results differ; the first of each chunk is shown."""
    results, right = tried(dtype, rounding, patterns), reference(dtype, rounding, patterns)
    if np.array_equal(results, right):
        return 0
    wrong = np.flatnonzero(results != right)
    first = wrong[0]
    print(
        f"{dtype} {rounding}: {patterns[first]:#x} -> {results[first]:#x}, not {right[first]:#x}",
        file=sys.stderr,
    )
    return wrong.size


def sweep(
    tried: RoundBits,
    reference: RoundBits,
    dtype: str,
    rounding: str,
    *,
    float64: int,
    chunk: int = CHUNK,
    deadline: float = math.inf,
) -> Sweep:
    """Every pattern; of float64, so many seeded random ones, half of them where there is work."""
    count = float64 if dtype == "float64" else 1 << WIDTHS[dtype]

    def run(start: int) -> int | None:
        if time.monotonic() > deadline:
            return None
        size = min(chunk, count - start)
        patterns: Bits
        if dtype == "float64":
            patterns = random_patterns(dtype, size, seed=start)
        else:
            patterns = np.arange(start, start + size, dtype=bits_type(dtype))
        return mismatches(tried, reference, dtype, rounding, patterns)

    began = time.monotonic()
    with ThreadPoolExecutor(usable_cores()) as workers:
        found = list(workers.map(run, range(0, count, chunk)))
    finished = [differing for differing in found if differing is not None]
    total = sum(finished) if len(finished) == len(found) else None
    return Sweep(dtype, rounding, count, total, time.monotonic() - began)
