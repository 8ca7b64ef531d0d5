"""Patterns through everything that rounds, chunk by chunk, against a reference."""

from __future__ import annotations

import ctypes
import math
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from support.cases.array_cases import off_wire, on_wire
from support.devices import host_kernels
from tensor_round.contract.call import Call
from tensor_round.contract.dtypes import BY_NAME, ROUNDABLE
from tensor_round.contract.functions import RoundToIntegral
from tensor_round.contract.layout import Layout
from tensor_round.contract.rounding import Rounding
from tensor_round_service.backends.cpu.backend import NumpyBackend, usable_cores
from tensor_round_service.backends.cuda.kernels import ROUND_KERNELS, run_size
from tensor_round_service.backends.select import compiled_kernels
from tensor_round_verify.patterns import random_patterns
from tensor_round_verify.reference import ROUNDINGS, WIDTHS, Bits, bits_type, rounded

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


#: From a dtype, a rounding and patterns of the dtype to the patterns of the result.
RoundBits = Callable[[str, str, Bits], Bits]


class TargetMissing(Exception):
    """Something is not installed here; says what."""


def reference(library: Path) -> RoundBits:
    """The C reference for float32 and float64, that of the tests for narrow types."""
    functions = ctypes.CDLL(str(library.resolve()))
    wide = {"float32": functions.round_32, "float64": functions.round_64}

    def run(dtype: str, rounding: str, patterns: Bits) -> Bits:
        if dtype not in wide:
            return rounded(patterns, dtype, rounding)
        results = np.empty_like(patterns)
        # It releases the interpreter while it runs.
        wide[dtype](
            ctypes.c_int(ROUNDINGS.index(rounding)),
            ctypes.c_size_t(patterns.size),
            ctypes.c_void_p(patterns.ctypes.data),
            ctypes.c_void_p(results.ctypes.data),
        )
        return results

    return run


def by_backend(round_: Callable[[Call, Bits, Bits], object]) -> RoundBits:
    """A backend's results, by its method that rounds one run of bytes into another."""

    def run(dtype: str, rounding: str, patterns: Bits) -> Bits:
        row = BY_NAME[dtype]
        layout = Layout.of(row, (patterns.size,))
        call = Call.packed_output(RoundToIntegral(Rounding(rounding)), layout)
        operands = np.frombuffer(on_wire(patterns.view(row.numpy)), np.uint8).copy()
        results = np.empty_like(operands)
        round_(call, operands, results)
        return off_wire(results.tobytes(), dtype, patterns.size).view(patterns.dtype)

    return run


@contextmanager
def numpy() -> Iterator[RoundBits]:
    """NumPy's ways of rounding on CPUs; one thread, as chunks share the cores."""
    backend = NumpyBackend(threads=1)
    yield by_backend(backend.round)
    backend.close()


@contextmanager
def compiled() -> Iterator[RoundBits]:
    """The loops that LLVM compiles for CPUs."""
    kernels = compiled_kernels()
    if kernels is None:
        raise TargetMissing("llvmlite is not installed")
    for dtype in ROUNDABLE:
        kernels.ask(RoundToIntegral(Rounding.TIES_TO_EVEN), dtype, dtype)
    kernels.wait()
    backend = NumpyBackend(threads=1, kernels=kernels)
    yield by_backend(backend.round)
    backend.close()


@contextmanager
def cuda_text() -> Iterator[RoundBits]:
    """The GPU kernels' text on this CPU, with subnormal float32 flushed as on a GPU."""

    def run(dtype: str, rounding: str, patterns: Bits) -> Bits:
        results = np.empty_like(patterns)
        host_kernels.run(
            ROUND_KERNELS[BY_NAME[dtype], Rounding(rounding)],
            patterns.ctypes.data,
            patterns.nbytes,
            results.ctypes.data,
            run_size(patterns.nbytes),
            dtype != "float64",
        )
        return results

    yield run


@contextmanager
def device() -> Iterator[RoundBits]:
    """The GPU backend on this machine's first GPU."""
    try:
        from tensor_round_service.backends.cuda.backend import CupyBackend
        from tensor_round_service.backends.cuda.cupy_device import CupyDevice

        backend = CupyBackend([CupyDevice(0)], NumpyBackend())
    except Exception as error:  # CuPy's, the driver's
        raise TargetMissing(f"no device: {error}") from error
    yield by_backend(backend.round_on_device)
    backend.close()


TARGETS = {"numpy": numpy, "compiled": compiled, "cuda-text": cuda_text, "device": device}
