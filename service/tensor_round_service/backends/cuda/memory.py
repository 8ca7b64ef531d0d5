"""Page-locked (pinned) host memory, which a device copies from and to directly.

Locking pages takes milliseconds, and the caller may be the event loop. So a buffer is not locked
at first. A thread locks it while a body is being received into it. Until then, and if locking
fails, copies go through a staging buffer, which is slower. Pooled buffers stay locked for later
requests.
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


class PinnedMemory:
    """Allocates host memory, and page-locks it in the background."""

    def __init__(self, device: Device) -> None:
        self._device = device
        # A destructor may interrupt put(); only SimpleQueue.put is reentrant.
        self._tasks: SimpleQueue[Callable[[], object] | None] = SimpleQueue()
        self._pinned: dict[int, Bytes] = {}
        self._thread = threading.Thread(target=self._work, name="tensor-round-pin", daemon=True)
        self._thread.start()

    def allocate(self, nbytes: int) -> Bytes:
        """Uninitialized memory. Small buffers are not locked: copying them costs little."""
        if nbytes < MAPPED_BYTES:
            return np.empty(nbytes, np.uint8)
        block = _Block(nbytes)
        self._tasks.put(partial(self._pin, block.pages))
        # The task refers to the pages, so they stay mapped until they are unlocked.
        finalizer = weakref.finalize(block, self._tasks.put, partial(self._unpin, block.pages))
        finalizer.atexit = False
        return np.asarray(block)

    def wait_until_pinned(self) -> None:
        """Wait until all allocated memory is locked and all freed memory is unlocked."""
        done = threading.Event()
        self._tasks.put(done.set)
        done.wait()

    def close(self) -> None:
        """Stop the thread. Locked memory stays locked until the process ends."""
        self._tasks.put(None)
        self._thread.join()

    def _work(self) -> None:
        while (task := self._tasks.get()) is not None:
            task()
            # It may hold the last reference to a large buffer.
            del task

    def _pin(self, pages: mmap) -> None:
        memory = np.frombuffer(pages, np.uint8)
        if self._device.pin(memory):
            self._pinned[id(pages)] = memory

    def _unpin(self, pages: mmap) -> None:
        memory = self._pinned.pop(id(pages), None)
        if memory is not None:
            self._device.unpin(memory)


class _Block:
    """Whole pages as the memory of an array; weak references to it are possible."""

    def __init__(self, nbytes: int) -> None:
        self.pages = map_pages(nbytes)
        self.__array_interface__: dict[str, Any] = {
            "data": (np.frombuffer(self.pages, np.uint8).ctypes.data, False),
            "shape": (nbytes,),
            "typestr": "|u1",
            "version": 3,
        }
