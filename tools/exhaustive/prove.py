"""Every float32 pattern in every direction, and many float64 ones, against a C reference.

    python tools/exhaustive/prove.py LIBRARY [--float64 COUNT]

LIBRARY is reference.c as a shared library. Before it judges the product, the C
reference is itself held against the tests' Python reference. Exit status 1 on any
mismatch.
"""

from __future__ import annotations

import argparse
import ctypes
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np

from tensor_round.call import RoundCall
from tensor_round.conformance.patterns import random_patterns, samples
from tensor_round.conformance.reference import ROUNDINGS, Bits, bits_type, rounded
from tensor_round.dtypes import BY_NAME
from tensor_round.layout import Layout
from tensor_round.rounding import Rounding
from tensor_round_service.backends.cpu.backend import NumpyBackend, usable_cores
from tensor_round_service.backends.select import compiled_kernels

#: Patterns tried at a time: all arrays of a chunk stay in the caches.
CHUNK = 1 << 18

RoundBits = Callable[[str, str, Bits], Bits]


def c_reference(library: Path) -> RoundBits:
    """The C functions; they release the interpreter while they run."""
    functions = ctypes.CDLL(str(library.resolve()))

    def run(dtype: str, rounding: str, patterns: Bits) -> Bits:
        results = np.empty_like(patterns)
        function = functions.round_32 if dtype == "float32" else functions.round_64
        function(
            ctypes.c_int(ROUNDINGS.index(rounding)),
            ctypes.c_size_t(patterns.size),
            ctypes.c_void_p(patterns.ctypes.data),
            ctypes.c_void_p(results.ctypes.data),
        )
        return results

    return run


def product(backend: NumpyBackend) -> RoundBits:
    """The product's answers."""

    def run(dtype: str, rounding: str, patterns: Bits) -> Bits:
        call = RoundCall.packed_output(
            Rounding(rounding), Layout.of(BY_NAME[dtype], [patterns.size])
        )
        results = np.empty_like(patterns)
        backend.round(call, patterns.view(np.uint8), results.view(np.uint8))
        return results

    return run


def mismatches(
    judged: RoundBits, judge: RoundBits, dtype: str, rounding: str, patterns: Bits
) -> int:
    """How many answers differ; the first of each chunk is shown."""
    answers, right = judged(dtype, rounding, patterns), judge(dtype, rounding, patterns)
    if np.array_equal(answers, right):
        return 0
    wrong = np.flatnonzero(answers != right)
    first = wrong[0]
    print(
        f"{dtype} {rounding}: {patterns[first]:#x} -> {answers[first]:#x}, not {right[first]:#x}",
        file=sys.stderr,
    )
    return wrong.size


def sweep(
    judged: RoundBits, judge: RoundBits, dtype: str, rounding: str, count: int
) -> tuple[int, float]:
    """Mismatches and seconds over ``count`` patterns: ascending ones, or random ones of float64."""

    def chunk(start: int) -> int:
        if dtype == "float32":
            patterns: Bits = np.arange(start, start + CHUNK, dtype=bits_type(dtype))
        else:
            patterns = random_patterns(dtype, CHUNK, seed=start)
        return mismatches(judged, judge, dtype, rounding, patterns)

    began = time.perf_counter()
    with ThreadPoolExecutor(usable_cores()) as workers:
        total = sum(workers.map(chunk, range(0, count, CHUNK)))
    return total, time.perf_counter() - began


def backends() -> dict[str, NumpyBackend]:
    """Every way of rounding on CPUs: NumPy's, and LLVM's where llvmlite is installed."""
    # The chunks share the cores; a backend that split them further would only be in the way.
    found = {"numpy": NumpyBackend(threads=1)}
    kernels = compiled_kernels()
    if kernels is None:
        print("compiled kernels: not tried, llvmlite is not installed")
    else:
        kernels.wait()
        found["compiled"] = NumpyBackend(threads=1, kernels=kernels)
    return found


def main() -> int:
    """Judge the reference, then the product."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("library", type=Path, help="reference.c as a shared library")
    parser.add_argument(
        "--float64", type=int, default=1 << 30, metavar="COUNT", help="random float64 patterns"
    )
    options = parser.parse_args()
    judge = c_reference(options.library)

    total = 0
    for dtype in ("float32", "float64"):
        sample = samples(dtype, random_count=1 << 20)
        for rounding in ROUNDINGS:
            total += mismatches(judge, lambda d, r, p: rounded(p, d, r), dtype, rounding, sample)
    print(f"C reference against Python reference: {total} mismatches")

    began = time.perf_counter()
    for name, backend in backends().items():
        judged = product(backend)
        for dtype, count in (("float32", 1 << 32), ("float64", options.float64)):
            for rounding in ROUNDINGS:
                wrong, seconds = sweep(judged, judge, dtype, rounding, count)
                total += wrong
                print(
                    f"{name:<8}  {dtype}  {rounding:<15}  {count} patterns  "
                    f"{wrong} mismatches  {seconds:.1f} s",
                    flush=True,
                )
    seconds = time.perf_counter() - began
    print(f"exhaustive: {total} mismatches in {seconds:.0f} s")
    return 1 if total else 0


if __name__ == "__main__":
    sys.exit(main())
