"""The NumPy backend: on every machine, on all its cores."""

from __future__ import annotations

import contextlib
import mmap
import os
import sys
from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from functools import cache, partial
from typing import Any

import numpy as np

from tensor_round.call import RoundCall
from tensor_round.dtypes import DType
from tensor_round.layout import Layout
from tensor_round.rounding import Rounding

from . import Bytes, Round
from .floats import kernel, round_floats
from .lanes import KERNELS, round_lanes
from .tables import entries_of_16_bits, look_up

#: Buffers start on a page: sockets, DMA and vector units all like that.
PAGE = 4096
#: Buffers from this size on are mapped, not taken from the heap.
MAPPED_BYTES = 1 << 20


def usable_cores() -> int:
    """The cores this process may run on."""
    try:
        return len(os.sched_getaffinity(0))
    except AttributeError:  # not on macOS or Windows
        return os.cpu_count() or 1


def map_pages(nbytes: int) -> mmap.mmap:
    """Memory of its own, in huge pages where the system has them; or :class:`MemoryError`."""
    try:
        pages = mmap.mmap(-1, nbytes)
    except OSError as error:
        raise MemoryError(f"no pages for {nbytes} bytes") from error
    if hasattr(mmap, "MADV_HUGEPAGE"):
        with contextlib.suppress(OSError):  # a kernel without huge pages
            pages.madvise(mmap.MADV_HUGEPAGE)
    return pages


@dataclass(frozen=True, slots=True)
class Rounder:
    """What rounds a run of whole elements in place, and from how many bytes on threads share it.

    That is after some 200 us of work: a core that sleeps takes 40 us to wake, and threads
    meet at the interpreter's lock between NumPy's calls, where one may fall asleep again.
    """

    round: Callable[[Bytes], None]
    split_bytes: int


@cache
def rounder(dtype: DType, rounding: Rounding) -> Rounder:
    """The fastest way that there is for a type and a direction."""
    if dtype.itemsize > 2:
        return Rounder(partial(round_floats, dtype.numpy, kernel(dtype, rounding)), 16 << 20)
    entries = entries_of_16_bits(dtype, rounding)
    if lanes := KERNELS.get((dtype, rounding)):
        return Rounder(partial(round_lanes, lanes, entries), 2 << 20)
    return Rounder(partial(look_up, entries), 1 << 20)


class NumpyBackend:
    """Rounds with NumPy; see :class:`~tensor_round_service.backends.Backend`."""

    name = "numpy"

    def __init__(self, threads: int | None = None) -> None:
        self._threads = usable_cores() if threads is None else threads
        # The calling thread works too.
        self._pool = ThreadPoolExecutor(max(self._threads - 1, 1), "tensor-round-numpy")

    def allocate(self, nbytes: int) -> Bytes:
        """Memory of its own pages where it is large, which go back to the system with it.

        The heap would keep them: a burst of large requests would be paid for ever after.
        Raises :class:`MemoryError`.
        """
        if nbytes < MAPPED_BYTES:
            return np.empty(nbytes, np.uint8)
        return np.frombuffer(map_pages(nbytes), np.uint8)

    @property
    def inline_bytes(self) -> int:
        """Any size: this waits for nobody."""
        return sys.maxsize

    @property
    def is_healthy(self) -> bool:
        """Always: there is nothing to lose."""
        return True

    @property
    def device_memory(self) -> None:
        """There is no device."""
        return None

    def arithmetics(self) -> Mapping[str, Round]:
        """NumPy's alone."""
        return {self.name: self.round}

    def round(self, call: RoundCall, source: Bytes, target: Bytes) -> str:
        """Round ``source`` into ``target``, the same memory only where ``call.is_in_place``."""
        dtype = call.input.dtype
        if call.is_in_place:
            length = call.input.element_count * dtype.itemsize
            if target is not source:
                target[:length] = source[:length]
        else:
            spread(call, source, target)
            # Gaps are zeros, and zeros round to zeros: the whole run is rounded flat.
            length = target.size // dtype.itemsize * dtype.itemsize
        if dtype.is_float:
            run = target if length == target.size else target[:length]
            self._round_run(rounder(dtype, call.rounding), run)
        if length < target.size:
            target[length:] = 0
        return self.name

    def _round_run(self, rounder: Rounder, run: Bytes) -> None:
        """Round a run of whole elements in place, on all cores if it is long."""
        if run.size < rounder.split_bytes or self._threads == 1:
            rounder.round(run)
            return
        # A whole number of pages each, so that no element is cut.
        step = -(-run.size // self._threads // PAGE) * PAGE
        own, *others = [run[start : start + step] for start in range(0, run.size, step)]
        pending: list[Future[None]] = []
        try:
            for part in others:
                pending.append(self._pool.submit(rounder.round, part))
            rounder.round(own)
        finally:
            # Nobody returns while a thread still writes into the caller's memory.
            wait(pending)
        for future in pending:
            future.result()

    def close(self) -> None:
        """Stop the threads."""
        self._pool.shutdown()


def spread(call: RoundCall, source: Bytes, target: Bytes) -> None:
    """Copy the input's elements to where the output has them, and zeros between."""
    output = call.output
    # A dense output has no gaps, but may have padding behind its elements.
    covered = output.element_count * output.dtype.itemsize if output.is_dense else 0
    target[covered:] = 0
    if call.input.element_count:
        np.copyto(_elements(call.output, target), _elements(call.input, source))


def _elements(layout: Layout, memory: Bytes) -> np.ndarray[Any, np.dtype[Any]]:
    """The elements as bit patterns, by the layout's strides."""
    itemsize = layout.dtype.itemsize
    strides = tuple(
        stride * itemsize if size > 1 else itemsize
        for size, stride in zip(layout.shape, layout.strides, strict=True)
    )
    return np.ndarray(layout.shape, layout.dtype.bits, memory, strides=strides)
