"""Patterns through everything that rounds and converts, chunk by chunk, against a reference."""

from __future__ import annotations

import ctypes
import math
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import groupby, permutations
from pathlib import Path

import numpy as np

from support.cases.array_cases import off_wire, on_wire
from support.devices import host_kernels
from tensor_round.contract.call import Call
from tensor_round.contract.dtypes import BY_NAME, DTYPES, DType
from tensor_round.contract.functions import Convert, Function, RoundToIntegral
from tensor_round.contract.layout import Layout
from tensor_round.contract.rounding import Rounding
from tensor_round_service.backends.cpu.backend import NumpyBackend, usable_cores
from tensor_round_service.backends.cuda.conversions import conversion_kernel, distinct
from tensor_round_service.backends.cuda.launches import launch_of
from tensor_round_service.backends.select import compiled_kernels
from tensor_round_verify.conversions.reference import cast
from tensor_round_verify.patterns import random_patterns
from tensor_round_verify.reference import ROUNDINGS, Bits, rounded

#: Patterns tried at a time: on CPUs all arrays of a chunk stay in the caches, a GPU is kept busy.
CHUNK, DEVICE_CHUNK = 1 << 18, 1 << 21


@dataclass(frozen=True)
class Task:
    """A function of elements, with the types of its operands and its results."""

    function: Function
    source: DType
    target: DType

    @classmethod
    def rounding(cls, dtype: str, rounding: str) -> Task:
        """Rounding a type to integral values."""
        return cls(RoundToIntegral(Rounding(rounding)), BY_NAME[dtype], BY_NAME[dtype])

    def __str__(self) -> str:
        types = "  to ".join(dict.fromkeys((self.source.name, self.target.name)))
        saturates = isinstance(self.function, Convert) and self.function.saturates
        return f"{types}  {self.function.rounding}{', saturated' if saturates else ''}"


#: The conversions from types whose patterns are few, each in every direction, with saturation and
#: without, as far as that makes a difference.
CASTS = tuple(
    Task(function, source, target)
    for source, target in permutations(DTYPES, 2)
    if source.width <= 16
    for function in dict.fromkeys(
        distinct(Convert(rounding, saturates), source, target)
        for rounding in Rounding
        for saturates in (False, True)
    )
)


@dataclass(frozen=True)
class Sweep:
    """The patterns of a task, tried; None are the mismatches of an unfinished one."""

    task: Task
    count: int
    mismatches: int | None
    seconds: float

    def __str__(self) -> str:
        found = "not finished" if self.mismatches is None else f"{self.mismatches} mismatches"
        return f"{self.task}  {self.count} patterns  {found}  {self.seconds:.1f} s"


def mismatches(tried: Execute, reference: Execute, task: Task, patterns: Bits) -> int:
    """How many results differ; the first of each chunk is shown."""
    results, right = tried(task, patterns), reference(task, patterns)
    if np.array_equal(results, right):
        return 0
    wrong = np.flatnonzero(results != right)
    first = wrong[0]
    print(
        f"{task}: {patterns[first]:#x} -> {results[first]:#x}, not {right[first]:#x}",
        file=sys.stderr,
    )
    return wrong.size


def sweep(
    tried: Execute,
    reference: Execute,
    task: Task,
    *,
    float64: int,
    chunk: int = CHUNK,
    deadline: float = math.inf,
) -> Sweep:
    """Every pattern; of float64, so many seeded random ones, half of them where there is work."""
    source = task.source
    is_drawn = source.name == "float64"
    count = float64 if is_drawn else 1 << source.width

    def run(start: int) -> int | None:
        if time.monotonic() > deadline:
            return None
        size = min(chunk, count - start)
        patterns: Bits
        if is_drawn:
            patterns = random_patterns(source.name, size, seed=start)
        else:
            patterns = np.arange(start, start + size, dtype=source.bits)
        return mismatches(tried, reference, task, patterns)

    began = time.monotonic()
    with ThreadPoolExecutor(usable_cores()) as workers:
        found = list(workers.map(run, range(0, count, chunk)))
    finished = [differing for differing in found if differing is not None]
    total = sum(finished) if len(finished) == len(found) else None
    return Sweep(task, count, total, time.monotonic() - began)


#: From a task and patterns of its operands to the patterns of the results.
Execute = Callable[[Task, Bits], Bits]


class TargetMissing(Exception):
    """Something is not installed here; says what."""


def reference(library: Path) -> Execute:
    """The C reference for rounding float32 and float64, verify's for all else."""
    functions = ctypes.CDLL(str(library.resolve()))
    wide = {"float32": functions.round_32, "float64": functions.round_64}

    def run(task: Task, patterns: Bits) -> Bits:
        dtype, rounding = task.source.name, task.function.rounding.value
        if isinstance(task.function, Convert):
            saturates = task.function.saturates
            return cast(patterns, dtype, task.target.name, rounding, saturate=saturates)
        if dtype not in wide:
            return by_python(task, patterns)
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


def by_python(task: Task, patterns: Bits) -> Bits:
    """The reference of rounding that verify has."""
    return rounded(patterns, task.source.name, task.function.rounding.value)


def by_backend(round_: Callable[[Call, Bits, Bits], object]) -> Execute:
    """A backend's results, by its method that makes one run of bytes of another."""

    def run(task: Task, patterns: Bits) -> Bits:
        source, target = task.source, task.target
        layout = Layout.of(source, (patterns.size,))
        call = Call.packed_output(task.function, layout, target)
        operands = np.frombuffer(on_wire(patterns.view(source.numpy)), np.uint8).copy()
        results = np.empty(call.output.byte_length, np.uint8)
        round_(call, operands, results)
        return off_wire(results.tobytes(), target.name, patterns.size).view(target.bits)

    return run


@contextmanager
def numpy() -> Iterator[Execute]:
    """NumPy's ways of rounding on CPUs; one thread, as chunks share the cores."""
    backend = NumpyBackend(threads=1)
    yield by_backend(backend.round)
    backend.close()


@contextmanager
def compiled() -> Iterator[Execute]:
    """The loops that LLVM compiles for CPUs."""
    kernels = compiled_kernels()
    if kernels is None:
        raise TargetMissing("llvmlite is not installed")
    backend = NumpyBackend(threads=1, kernels=kernels)
    run = by_backend(backend.round)

    def execute(task: Task, patterns: Bits) -> Bits:
        kernels.ask(task.function, task.source, task.target)
        kernels.wait()
        return run(task, patterns)

    yield execute
    backend.close()


@contextmanager
def cuda_text() -> Iterator[Execute]:
    """The GPU kernels' text on this CPU, with subnormal float32 flushed as on a GPU."""
    for _, some in groupby(CASTS, key=lambda task: task.source):
        parts = ((task.function, task.source, task.target) for task in some)
        host_kernels.compile_together(conversion_kernel(*part) for part in parts)

    def run(call: Call, operands: Bits, results: Bits) -> None:
        of = call.function, call.input.dtype, call.output.dtype
        launch = launch_of(*of, call.input.element_count)
        host_kernels.run(
            launch.kernel,
            operands.ctypes.data,
            launch.length,
            results.ctypes.data,
            launch.threads,
            flushed=call.input.dtype.name != "float64",
        )

    yield by_backend(run)


@contextmanager
def device() -> Iterator[Execute]:
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
