"""The NumPy backend: on every machine, on all its cores."""

from __future__ import annotations

import contextlib
import mmap
import os
import sys
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from functools import cache, partial
from typing import Any, Protocol

import numpy as np

from tensor_round.call import RoundCall
from tensor_round.dtypes import DType
from tensor_round.layout import Layout
from tensor_round.rounding import Rounding

from .. import Bytes, Round
from .floats import BLOCK_BYTES, kernel, round_floats
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
    """What rounds one run of whole elements into another of its size, or in place.

    From ``split_bytes`` on threads share a run: that is after some 200 us of work. A core
    that sleeps takes 40 us to wake, and threads meet at the interpreter's lock between
    NumPy's calls, where one may fall asleep again.
    """

    round: Callable[[Bytes, Bytes], None]
    split_bytes: int


class Kernels(Protocol):
    """Faster ways than NumPy's, with the same bits."""

    def get(self, dtype: DType, rounding: Rounding) -> Rounder | None:
        """The way for a type and a direction, if there is one by now."""

    def wait(self) -> None:
        """Return when all of them are there that ever will be."""


@cache
def rounder(dtype: DType, rounding: Rounding) -> Rounder:
    """NumPy's fastest way for a type and a direction."""
    if dtype.itemsize > 2:
        return _copying(partial(round_floats, dtype.numpy, kernel(dtype, rounding)), 16 << 20)
    entries = entries_of_16_bits(dtype, rounding)
    if lanes := KERNELS.get((dtype, rounding)):
        return _copying(partial(round_lanes, lanes, entries), 2 << 20)
    return _copying(partial(look_up, entries), 1 << 20)


def _copying(in_place: Callable[[Bytes], None], split_bytes: int) -> Rounder:
    """For what rounds in place alone: other runs are copied, block by block."""

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
    """Rounds with NumPy; see :class:`~tensor_round_service.backends.Backend`.

    ``kernels`` are taken where they have something, else NumPy's own.
    """

    name = "numpy"
    devices = ("CPU",)
    #: Any size: this waits for nobody.
    inline_bytes = sys.maxsize

    def __init__(self, threads: int | None = None, kernels: Kernels | None = None) -> None:
        self._kernels = kernels
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
        else:
            spread(call, source, target)
            source = target
            # Gaps are zeros, and zeros round to zeros: the whole run is rounded flat.
            length = target.size // dtype.itemsize * dtype.itemsize
        run = target if length == target.size else target[:length]
        from_run = run if source is target else source[:length]
        if dtype.is_float:
            found = self._kernels.get(dtype, call.rounding) if self._kernels else None
            self._round_run(found or rounder(dtype, call.rounding), from_run, run)
        elif source is not target:
            run[:] = from_run
        if length < target.size:
            target[length:] = 0
        return self.name

    def _round_run(self, rounder: Rounder, source: Bytes, target: Bytes) -> None:
        """Round a run of whole elements, in place or not, on all cores if it is long."""
        if target.size < rounder.split_bytes or self._threads == 1:
            rounder.round(source, target)
            return
        # A whole number of pages each, so that no element is cut.
        step = -(-target.size // self._threads // PAGE) * PAGE
        (own_source, own_target), *others = _parts(source, target, step)
        pending: list[Future[None]] = []
        try:
            for part in others:
                pending.append(self._pool.submit(rounder.round, *part))
            rounder.round(own_source, own_target)
        finally:
            # Nobody returns while a thread still writes into the caller's memory.
            wait(pending)
        for future in pending:
            future.result()

    def close(self) -> None:
        """Stop the threads."""
        self._pool.shutdown()


def _parts(source: Bytes, target: Bytes, step: int) -> Iterator[tuple[Bytes, Bytes]]:
    """Both runs, ``step`` bytes at a time; one and the same where they are."""
    for start in range(0, target.size, step):
        part = target[start : start + step]
        yield (part if source is target else source[start : start + step]), part


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
