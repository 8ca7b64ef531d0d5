"""A call on a buffer: in place or not, on which thread, on which backend. No HTTP here."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from tensor_round.call import RoundCall
from tensor_round.errors import BackendFailed, DeviceOutOfMemory, RequestRefused

from ..backends import Backend, Bytes, DeviceMemory
from ..backends.cpu.backend import usable_cores
from ..backends.cuda.device import Span
from .job import Job
from .memory import Memory, memory_limit
from .overlap import Overlap, suits

#: Tensors up to this size are rounded where the request is: handing one to a thread costs
#: more than rounding it, and nobody else waits long.
INLINE_BYTES = 256 << 10
#: How many times as much of the types that have instructions of their own takes as long.
WIDE_SPEED = 4

#: How long used memory waits for the next request before the system has it back.
IDLE_SECONDS = 3.0

#: The largest tensor, in or out, where nothing else is said.
MAX_TENSOR_BYTES = 1 << 30

#: Text costs about this many times what its bytes would; decides where it is worked on.
JSON_WEIGHT = 16

T = TypeVar("T")

logger = logging.getLogger(__name__)


class Engine:
    """Rounds buffers on a backend, off the event loop where it takes long.

    ``max_bytes_in_flight`` bounds what all requests hold together; half of the memory
    this process may use if it is not given.
    """

    def __init__(self, backend: Backend, max_bytes_in_flight: int | None = None) -> None:
        self.backend = backend
        limit = memory_limit() // 2 if max_bytes_in_flight is None else max_bytes_in_flight
        self.memory = Memory(backend.allocate, limit)
        # As many tensors at once as there are cores; a backend's own threads are its own.
        self._threads = ThreadPoolExecutor(usable_cores(), "tensor-round-engine")

    async def tidy(self) -> None:
        """Give idle memory back to the system, for as long as this runs."""
        while True:
            await asyncio.sleep(IDLE_SECONDS / 2)
            self.memory.drop_idle(IDLE_SECONDS)

    def round(self, call: RoundCall, source: Bytes, job: Job, target: Bytes | None = None) -> Bytes:
        """The output's bytes: ``source`` itself where the call is in place, or further memory.

        A ``target`` that is given has them instead; it is ``source`` itself, and the call in
        place, or shares nothing with it. Raises :class:`DeviceOutOfMemory` or
        :class:`BackendFailed` where the backend fails on a sound call, and
        :class:`MemoryError` where there is no room for the output.
        """
        if target is None:
            target = source if call.is_in_place else job.allocate(call.output.byte_length)
        try:
            if job.overlap is None:
                job.executed_by = self.backend.round(call, source, target)
            else:
                rest, left = job.overlap.rest()
                job.executed_by = self.backend.round(rest, left, left)
        except (MemoryError, RuntimeError) as error:
            raise _refusal(error) from None
        return target

    def overlap(self, call: RoundCall, source: Bytes, job: Job) -> Callable[[int], None] | None:
        """Begin to round in place what comes into ``source``; call this with how much is to come.

        :meth:`round` does the rest then, without a target of its own. None where that is not
        worth it.
        """
        if not suits(self.backend, call):
            return None
        job.overlap = Overlap(self.backend, call, source, job)
        return job.overlap.progress

    def round_resident(
        self, device: int, call: RoundCall, source: Span, target: Span, job: Job
    ) -> None:
        """Round within a device's memory; refuses as :meth:`round` does."""
        memory = self.device_memory
        try:
            job.executed_by = memory.round_resident(device, call, source, target)
        except (MemoryError, RuntimeError) as error:
            raise _refusal(error) from None

    @property
    def device_memory(self) -> DeviceMemory:
        """The memory of the backend's devices; :class:`BackendFailed` where it has none now."""
        memory = self.backend.device_memory
        if memory is None:
            raise BackendFailed("there is no device now", retry_after=1)
        return memory

    async def run(
        self,
        work: Callable[[], T],
        nbytes: int,
        effort: int | None = None,
        job: Job | None = None,
    ) -> T:
        """Do work on that many bytes: here if it is little, else on a thread.

        ``effort`` is how many bytes would take as long, where it is not as many. A ``job`` that
        is given has the times.
        """
        asked = began = time.perf_counter()
        try:
            if (nbytes if effort is None else effort) <= INLINE_BYTES and (
                nbytes <= self.backend.inline_bytes
            ):
                return work()

            def begin() -> T:
                nonlocal began
                began = time.perf_counter()
                return work()

            return await asyncio.get_running_loop().run_in_executor(self._threads, begin)
        finally:
            if job is not None:
                job.queue_seconds = began - asked
                job.execute_seconds = time.perf_counter() - began

    def have_done(self, work: Callable[[], None]) -> None:
        """Have a thread do this too, once one is free.

        It may begin late or never: whoever asks must get along without it.
        """
        with contextlib.suppress(RuntimeError):  # there is no thread to be had
            self._threads.submit(work)

    def close(self) -> None:
        """Stop the threads and release the device."""
        self._threads.shutdown()
        self.backend.close()


def effort(call: RoundCall) -> int:
    """The bytes of a narrow type that would take as long to round."""
    return call.nbytes if call.input.dtype.itemsize <= 2 else call.nbytes // WIDE_SPEED


def _refusal(error: MemoryError | RuntimeError) -> RequestRefused:
    """What tells of a backend's failure on a sound call."""
    if isinstance(error, MemoryError):  # CuPy's OutOfMemoryError is one
        logger.warning("the device is out of memory: %s", error)
        return DeviceOutOfMemory("the device has no memory for it now", retry_after=1)
    logger.error("the backend failed", exc_info=error)
    return BackendFailed("the backend failed on this tensor", retry_after=1)
