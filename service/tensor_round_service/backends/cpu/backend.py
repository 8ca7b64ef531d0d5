"""The NumPy backend, which uses all cores of the CPU."""

from __future__ import annotations

import contextlib
import mmap
import os
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor, wait
from copy import copy
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from tensor_round.contract.call import Call
from tensor_round.contract.dtypes import DType
from tensor_round.contract.functions import Function
from tensor_round.contract.layout import Layout

from .. import Bytes, Round
from .loops import LOOPS, Loop, loop
from .quantization import SPLIT_BYTES, Linear, Stage
from .strided import copy_strided, run_strided

#: Parts of a run for different threads begin at multiples of this.
PAGE = 4096
#: Buffers from this size on are mapped, not allocated on the heap.
MAPPED_BYTES = 1 << 20


def usable_cores() -> int:
    """The number of cores that this process may use."""
    try:
        return len(os.sched_getaffinity(0))
    except AttributeError:  # not on macOS or Windows
        return os.cpu_count() or 1


def map_pages(nbytes: int) -> mmap.mmap:
    """Map anonymous memory, with huge pages if possible. Raises :class:`MemoryError`."""
    try:
        pages = mmap.mmap(-1, nbytes)
    except OSError as error:
        raise MemoryError(f"cannot map {nbytes} bytes") from error
    if hasattr(mmap, "MADV_HUGEPAGE"):
        with contextlib.suppress(OSError):  # a kernel without huge pages
            pages.madvise(mmap.MADV_HUGEPAGE)
    return pages


class Kernels(Protocol):
    """Kernels that are faster than NumPy, with the same bits."""

    def get(self, function: Function, source: DType, target: DType) -> Loop | None:
        """The kernel for a function and its types; None if there is none, or not yet."""

    def stage(self, function: Function, source: DType, scale: DType, target: DType) -> Stage | None:
        """The kernel of linear quantization, likewise."""

    def ask(self, function: Function, *types: DType) -> None:
        """Have a kernel made that is missing, if there can be one."""

    def wait(self) -> None:
        """Wait until all kernels are compiled and proved."""


class NumpyBackend:
    """Rounds on the CPU; see :class:`~tensor_round_service.backends.Backend`.

    Uses ``kernels`` for the types and roundings that they support, else NumPy.
    """

    name = "numpy"
    devices = ("CPU",)
    #: No limit: the calling thread never waits for a device.
    inline_bytes = sys.maxsize
    #: There is no device that can fail.
    is_healthy = True
    device_memory = None

    def __init__(self, threads: int | None = None, kernels: Kernels | None = None) -> None:
        self._kernels = kernels
        #: Whether kernels are made that are missing.
        self._asks = True
        self._threads = usable_cores() if threads is None else threads
        #: Empty: there is no device.
        self.device_events: Counter[tuple[str, str]] = Counter()
        # The calling thread works too.
        self._pool = ThreadPoolExecutor(max(self._threads - 1, 1), "tensor-round-numpy")

    def allocate(self, nbytes: int) -> Bytes:
        """Uninitialized memory; large buffers are mapped. Raises :class:`MemoryError`.

        Unmapping returns memory to the system at once. The heap would keep it after a burst of
        large requests.
        """
        if nbytes < MAPPED_BYTES:
            return np.empty(nbytes, np.uint8)
        return np.frombuffer(map_pages(nbytes), np.uint8)

    def device_memory_info(self) -> dict[str, tuple[int, int]]:
        """Empty: there is no device."""
        return {}

    def arithmetics(self) -> Mapping[str, Round]:
        """The only arithmetic is that of :meth:`round`, by the kernels that are compiled by now.

        A judge of all conversions would have thousands compiled.
        """
        if self._kernels is None:
            return {self.name: self.round}
        judged = copy(self)
        judged._asks = False
        return {self.name: judged.round}

    def round(self, call: Call, source: Bytes, target: Bytes) -> str:
        """Round ``source`` into ``target``; see :meth:`.Backend.round`."""
        output = call.output
        if call.parameters is not None:
            self._quantize(call, source, target)
        elif call.is_copy:
            if source is not target:
                copy_strided(call, source, target)
        elif call.is_flat:
            self._run(call, source, target, output.element_count, output.element_bytes)
        elif call.input.dtype is output.dtype:
            copy_strided(call, source, target)
            # Gaps are zeros, and zero becomes zero: compute the whole run, gaps included.
            count = target.size // output.dtype.itemsize
            self._run(call, target, target, count, count * output.dtype.itemsize)
        else:
            run = loop(call.function, call.input.dtype, output.dtype).run
            run_strided(lambda x, y, count, _: run(x, y, count), call, source, target)
        if call.is_flat and output.element_bytes < target.size:
            target[output.element_bytes :] = 0
        if output.has_spare_bits:
            clear_spare_bits(target, output)
        return self.name

    def _run(self, call: Call, source: Bytes, target: Bytes, count: int, nbytes: int) -> None:
        """Make the first ``count`` elements of ``target``, in ``nbytes``, from those of another."""
        of = call.function, call.input.dtype, call.output.dtype
        by = None if self._kernels is None else self._kernels.get(*of)
        if by is None:
            if self._kernels is not None and self._asks:
                self._kernels.ask(*of)
            by = LOOPS[type(call.function)](*of)
        if source.size >= by.split_bytes and self._threads > 1:
            self._run_on_all_cores(
                lambda part: by.run(part.operands, part.results, part.count),
                _parts(call, source, target, count, self._threads),
            )
            return
        results = target if nbytes == target.size else target[:nbytes]
        operands = results
        if source is not target:
            length = call.input.element_bytes
            operands = source if length == source.size else source[:length]
        by.run(operands, results, count)

    def _quantize(self, call: Call, source: Bytes, target: Bytes) -> None:
        """Make every element of ``target``, by the parameters behind the operands."""
        linear, count = Linear(call, source, self._stage(call)), call.output.element_count
        operands, results = source[: call.input.element_bytes], target[: call.output.element_bytes]
        if not call.is_run:
            run_strided(linear.run, call, source, target)
        elif operands.size >= SPLIT_BYTES and self._threads > 1:
            self._run_on_all_cores(
                lambda part: linear.run(part.operands, part.results, part.count, part.start),
                _parts(call, operands, results, count, self._threads),
            )
        else:
            linear.run(operands, results, count)

    def _stage(self, call: Call) -> Stage | None:
        """The compiled kernel of a quantization."""
        if self._kernels is None or call.parameters is None:
            return None
        types = call.input.dtype, call.parameters.scale.dtype, call.output.dtype
        found = self._kernels.stage(call.function, *types)
        if found is None and self._asks:
            self._kernels.ask(call.function, *types)
        return found

    def _run_on_all_cores(self, run: Callable[[_Part], object], parts: Iterator[_Part]) -> None:
        own, *others = parts
        pending: list[Future[object]] = []
        try:
            for part in others:
                pending.append(self._pool.submit(run, part))
            run(own)
        finally:
            # Return only when no thread writes into the caller's memory any more.
            wait(pending)
        for future in pending:
            future.result()
        for part in others:
            part.move()

    def close(self) -> None:
        """Stop the threads."""
        self._pool.shutdown()


@dataclass(frozen=True, slots=True)
class _Part:
    """A part of a call for one thread: its elements, and where its results belong."""

    operands: Bytes
    results: Bytes
    start: int
    count: int
    place: Bytes

    def move(self) -> None:
        """Put the results in their place, behind those of the parts before."""
        if self.place is not self.results:
            # Between memoryviews, an assignment that overlaps moves, without a copy.
            self.place.data[:] = self.results.data


def clear_spare_bits(target: Bytes, layout: Layout) -> None:
    """Clear the high half of the last byte, which no element has."""
    target[layout.element_bytes - 1] &= 0x0F


def _parts(call: Call, source: Bytes, target: Bytes, count: int, threads: int) -> Iterator[_Part]:
    """A call in parts for threads; ``operands`` of equal width in place are ``results``.

    Narrower results in place begin where their part's operands do, and are moved when all threads
    are done: else a thread would overwrite the operands of another.
    """
    source_type, target_type = call.input.dtype, call.output.dtype
    # With padding behind the results, they may be as long as the operands.
    is_narrowed = not call.keeps_width and np.may_share_memory(source, target)
    # A multiple of the page size, so that no element is divided.
    step = -(-count // threads // PAGE) * PAGE
    for start in range(0, count or 1, step or 1):
        stop = min(start + step, count)
        place = target[target_type.nbytes(start) : target_type.nbytes(stop)]
        if source is target and not is_narrowed:
            yield _Part(place, place, start, stop - start, place)
            continue
        operands = source[source_type.nbytes(start) : source_type.nbytes(stop)]
        results = operands[: place.size] if is_narrowed and start else place
        yield _Part(operands, results, start, stop - start, place)
