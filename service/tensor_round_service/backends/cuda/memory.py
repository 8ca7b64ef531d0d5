"""Host memory that the device copies from and to by itself: page-locked, without a wait for it.

Locking pages takes milliseconds, and the caller may be the event loop. So a buffer is
plain memory at first, and a thread locks it while a body is still being received into it.
Where that fails, or has not happened yet, the copy goes by way of a staging buffer:
slower, not different. Callers keep buffers for later requests, which find them locked.
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable
from functools import partial
from mmap import mmap
from queue import SimpleQueue
from typing import Any

import numpy as np

from .. import Bytes
from ..cpu.backend import MAPPED_BYTES, map_pages
from .device import Device


class LockedMemory:
    """Allocates host memory, and has it page-locked in the background."""

    def __init__(self, device: Device) -> None:
        self._device = device
        # A destructor may interrupt a put(), which of all queues only this one allows.
        self._jobs: SimpleQueue[Callable[[], object] | None] = SimpleQueue()
        self._locked: dict[int, Bytes] = {}
        self._thread = threading.Thread(target=self._work, name="tensor-round-lock", daemon=True)
        self._thread.start()

    def allocate(self, nbytes: int) -> Bytes:
        """Uninitialised memory; the smaller, which is not locked, is soon copied."""
        if nbytes < MAPPED_BYTES:
            return np.empty(nbytes, np.uint8)
        block = _Block(nbytes)
        self._jobs.put(partial(self._lock, block.pages))
        # The pages outlive the block until they are unlocked: the job refers to them.
        finalizer = weakref.finalize(block, self._jobs.put, partial(self._unlock, block.pages))
        finalizer.atexit = False
        return np.asarray(block)

    def settle(self) -> None:
        """Wait until what was allocated is locked, and what was forgotten unlocked."""
        settled = threading.Event()
        self._jobs.put(settled.set)
        settled.wait()

    def close(self) -> None:
        """Lock no more. What is locked stays so until the process ends."""
        self._jobs.put(None)
        self._thread.join()

    def _work(self) -> None:
        while (job := self._jobs.get()) is not None:
            job()
            # It may be the last to refer to a gigabyte.
            del job

    def _lock(self, pages: mmap) -> None:
        memory = np.frombuffer(pages, np.uint8)
        if self._device.pin(memory):
            self._locked[id(pages)] = memory

    def _unlock(self, pages: mmap) -> None:
        memory = self._locked.pop(id(pages), None)
        if memory is not None:
            self._device.unpin(memory)


class _Block:
    """Whole pages as an array's memory; an object that can be told to have been forgotten."""

    def __init__(self, nbytes: int) -> None:
        self.pages = map_pages(nbytes)
        self.__array_interface__: dict[str, Any] = {
            "data": (np.frombuffer(self.pages, np.uint8).ctypes.data, False),
            "shape": (nbytes,),
            "typestr": "|u1",
            "version": 3,
        }
