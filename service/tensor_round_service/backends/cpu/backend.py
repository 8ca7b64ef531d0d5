"""The NumPy backend, which uses all cores of the CPU."""

from __future__ import annotations

import contextlib
import mmap
import os
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from functools import cache, partial
from typing import Protocol

import numpy as np

from tensor_round.contract import host_memory
from tensor_round.contract.call import Call
from tensor_round.contract.dtypes import DType
from tensor_round.contract.layout import Layout
from tensor_round.contract.rounding import Rounding

from .. import Bytes, Round
from .floats import BLOCK_BYTES, kernel, round_floats
from .narrow_floats import KERNELS, entries_of_16_bits, look_up, round_lanes

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


@dataclass(frozen=True, slots=True)
class Rounder:
    """A function that rounds a run of whole elements, in place or into another run.

    Runs of ``split_bytes`` and more are split among threads: about 200 us of work. Waking a
    sleeping core takes 40 us, and between NumPy's calls threads contend for the GIL.
    """

    round: Callable[[Bytes, Bytes], None]
    split_bytes: int


class Kernels(Protocol):
    """Kernels that are faster than NumPy, with the same bits."""

    def get(self, dtype: DType, rounding: Rounding) -> Rounder | None:
        """The kernel for a type and rounding; None if there is none, or not yet."""

    def wait(self) -> None:
        """Wait until all kernels are compiled and proved."""


@cache
def rounder(dtype: DType, rounding: Rounding) -> Rounder:
    """The fastest way to round a type with NumPy."""
    if dtype.itemsize > 2:
        return _copying(partial(round_floats, dtype.numpy, kernel(dtype, rounding)), 16 << 20)
    entries = entries_of_16_bits(dtype, rounding)
    if lanes := KERNELS.get((dtype, rounding)):
        return _copying(partial(round_lanes, lanes, entries), 2 << 20)
    return _copying(partial(look_up, entries), 1 << 20)


def _copying(in_place: Callable[[Bytes], None], split_bytes: int) -> Rounder:
    """Make a rounder of a function that rounds in place, by copying block by block."""

    def round_(source: Bytes, target: Bytes) -> None:
        if source is target:
            in_place(target)
            return
        for start in range(0, target.size, BLOCK_BYTES):
            block = target[start : start + BLOCK_BYTES]
            block[:] = source[start : start + BLOCK_BYTES]
            in_place(block)

    return Rounder(round_, split_bytes)


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
        """The only arithmetic is that of :meth:`round`."""
        return {self.name: self.round}

    def round(self, call: Call, source: Bytes, target: Bytes) -> str:
        """Round ``source`` into ``target``; see :meth:`.Backend.round`."""
        dtype = call.input.dtype
        if call.is_in_place:
            length = call.input.element_bytes
        else:
            copy_strided(call, source, target)
            source = target
            # Gaps are zeros, and zero rounds to zero: round the whole run, gaps included.
            length = dtype.nbytes(dtype.count(target.size))
        run = target if length == target.size else target[:length]
        operands = run if source is target else source[:length]
        if dtype.is_float:
            found = self._kernels.get(dtype, call.rounding) if self._kernels else None
            by = found or rounder(dtype, call.rounding)
            if run.size < by.split_bytes or self._threads == 1:
                by.round(operands, run)
            else:
                self._round_on_all_cores(by, operands, run)
        elif source is not target:
            run[:] = operands
        if length < target.size:
            target[length:] = 0
        if call.output.has_spare_bits:
            clear_spare_bits(target, call.output)
        return self.name

    def _round_on_all_cores(self, rounder: Rounder, source: Bytes, target: Bytes) -> None:
        """Round a long run of whole elements."""
        # A multiple of the page size, so that no element is divided.
        step = -(-target.size // self._threads // PAGE) * PAGE
        (own_source, own_target), *others = _parts(source, target, step)
        pending: list[Future[None]] = []
        try:
            for part in others:
                pending.append(self._pool.submit(rounder.round, *part))
            rounder.round(own_source, own_target)
        finally:
            # Return only when no thread writes into the caller's memory any more.
            wait(pending)
        for future in pending:
            future.result()

    def close(self) -> None:
        """Stop the threads."""
        self._pool.shutdown()


def _parts(source: Bytes, target: Bytes, step: int) -> Iterator[tuple[Bytes, Bytes]]:
    """Both runs in parts of ``step`` bytes; an in-place call has identical parts."""
    for start in range(0, target.size, step):
        part = target[start : start + step]
        yield (part if source is target else source[start : start + step]), part


def clear_spare_bits(target: Bytes, layout: Layout) -> None:
    """Clear the high half of the last byte, which no element has."""
    target[layout.element_bytes - 1] &= 0x0F


def copy_strided(call: Call, source: Bytes, target: Bytes) -> None:
    """Copy the elements from the input's layout to the output's, and zeros into the gaps."""
    output = call.output
    # A dense output has no gaps, but may have padding after its elements.
    covered = output.element_bytes if output.is_dense else 0
    target[covered:] = 0
    if call.input.dtype.is_sub_byte:  # packed on both sides
        target[:covered] = source[:covered]
    elif call.input.element_count:
        elements = host_memory.bits(host_memory.strided_view(source, call.input))
        np.copyto(host_memory.bits(host_memory.strided_view(target, output)), elements)
