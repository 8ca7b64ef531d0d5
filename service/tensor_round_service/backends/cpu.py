"""The NumPy backend: on every machine, on all its cores."""

from __future__ import annotations

import contextlib
import mmap
import os
import sys
from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor, wait
from functools import partial
from typing import Any

import numpy as np

from tensor_round.call import RoundCall
from tensor_round.dtypes import DType
from tensor_round.layout import Layout
from tensor_round.rounding import Rounding

from . import Bytes, Round
from .floats import Kernel, flags_tell, kernel, round_floats
from .tables import pair_table, table

#: Buffers start on a page: sockets, DMA and vector units all like that.
PAGE = 4096
#: Buffers from this size on are mapped, not taken from the heap.
MAPPED_BYTES = 1 << 20
#: Bytes below which a second thread costs more than it brings.
SPLIT_BYTES = 1 << 20
#: Elements looked up at a time: NumPy widens the indices, and these stay in cache.
TABLE_BLOCK = 64 << 10


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


class NumpyBackend:
    """Rounds with NumPy; see :class:`~tensor_round_service.backends.Backend`."""

    name = "numpy"

    def __init__(self, threads: int | None = None) -> None:
        self._threads = usable_cores() if threads is None else threads
        # The calling thread works too.
        self._pool = ThreadPoolExecutor(max(self._threads - 1, 1), "tensor-round-numpy")
        self._suspicious = not flags_tell()

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

    def arithmetics(self) -> Mapping[str, Round]:
        """NumPy's alone."""
        return {self.name: self.round}

    def round(self, call: RoundCall, source: Bytes, target: Bytes) -> str:
        """Round ``source`` into ``target``, the same memory only where ``call.is_in_place``."""
        dtype = call.input.dtype
        if call.is_in_place:
            length = call.input.element_count * dtype.itemsize
            self._round_flat(call, source[:length], None if target is source else target[:length])
        else:
            spread(call, source, target)
            # Gaps are zeros, and zeros round to zeros: the whole run is rounded flat.
            length = target.size // dtype.itemsize * dtype.itemsize
            self._round_flat(call, target[:length], None)
        target[length:] = 0
        return self.name

    def _round_flat(self, call: RoundCall, source: Bytes, target: Bytes | None) -> None:
        """Round a run of whole elements, in place where ``target`` is None."""
        dtype = call.input.dtype
        if not dtype.is_float:
            if target is not None:
                target[:] = source
            return
        work = self._work(dtype, call.rounding)
        if source.size < SPLIT_BYTES or self._threads == 1:
            work(source, target)
            return
        # A whole number of pages each, so that no element is cut.
        step = -(-source.size // self._threads // PAGE) * PAGE
        parts = [slice(start, start + step) for start in range(0, source.size, step)]
        pending: list[Future[None]] = []
        try:
            for part in parts[1:]:
                into = None if target is None else target[part]
                pending.append(self._pool.submit(work, source[part], into))
            work(source[parts[0]], None if target is None else target[parts[0]])
        finally:
            # Nobody returns while a thread still writes into the caller's memory.
            wait(pending)
        for future in pending:
            future.result()

    def _work(self, dtype: DType, rounding: Rounding) -> Callable[[Bytes, Bytes | None], None]:
        """What rounds one part of a run."""
        if dtype.itemsize > 2:
            run = kernel(dtype, rounding)
            return partial(_round_wide, dtype, run, self._suspicious)
        return partial(_look_up, dtype, rounding)

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


def _round_wide(
    dtype: DType, run: Kernel, suspicious: bool, source: Bytes, target: Bytes | None
) -> None:
    values = source.view(dtype.numpy)
    round_floats(
        values, None if target is None else target.view(dtype.numpy), run, suspicious=suspicious
    )


def _look_up(dtype: DType, rounding: Rounding, source: Bytes, target: Bytes | None) -> None:
    """Round an 8- or 16-bit type by table, 16 bits at a time."""
    target = source if target is None else target
    entries = table(dtype, rounding)
    if dtype.itemsize == 1:
        even = source.size & ~1
        # A last odd one alone; the rest two by two.
        target[even:] = entries[source[even:]]
        source, target, entries = source[:even], target[:even], pair_table(dtype, rounding)
    patterns, results = source.view("<u2"), target.view("<u2")
    for start in range(0, patterns.size, TABLE_BLOCK):
        block = slice(start, start + TABLE_BLOCK)
        # "wrap" looks no index up twice and writes straight into its output; none is out of range.
        np.take(entries, patterns[block], out=results[block], mode="wrap")
