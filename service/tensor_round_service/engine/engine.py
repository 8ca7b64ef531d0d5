"""The engine: executes calls on a backend, in place or not, inline or on a thread."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import Callable
from typing import TypeVar

from tensor_round.contract.call import Call
from tensor_round.contract.errors import BackendFailed, DeviceOutOfMemory, RequestRefused
from tensor_round.contract.progress import Pause, no_pause

from ..backends import Backend, Bytes, in_place
from ..backends.cpu.backend import usable_cores
from ..backends.devices import DeviceBuffer, DeviceMemory
from .job import Job
from .memory import Memory, memory_limit
from .overlap import Overlap, is_worthwhile
from .threads import Threads

#: Tensors up to this size are rounded on the event loop: passing them to a thread takes longer
#: than rounding them.
INLINE_BYTES = 256 << 10
#: The cost of work that is never done on the event loop.
ON_A_THREAD = INLINE_BYTES + 1

#: Time after which unused pooled buffers are returned to the system.
IDLE_SECONDS = 3.0

#: Time limit of asking devices for their memory.
DEVICE_SECONDS = 1.0

#: Default limit of one input or output tensor.
MAX_TENSOR_BYTES = 1 << 30

#: Bytes of a tensor that are rounded in the time that one byte of JSON takes.
JSON_COST = 16

T = TypeVar("T")

logger = logging.getLogger(__name__)


class Engine:
    """Executes calls on a backend; long ones on a thread beside the event loop.

    ``max_bytes_in_flight`` is the memory budget of all requests together, by default half of
    the memory that this process may use.
    """

    def __init__(self, backend: Backend, max_bytes_in_flight: int | None = None) -> None:
        self.backend = backend
        limit = memory_limit() // 2 if max_bytes_in_flight is None else max_bytes_in_flight
        self.memory = Memory(backend.allocate, limit)
        #: The last question for it, of which there is only one at a time.
        self._device_memory_info: asyncio.Future[dict[str, tuple[int, int]]] | None = None
        self._threads = Threads(usable_cores())

    async def release_idle_memory(self) -> None:
        """Return idle pooled buffers to the system periodically, until cancelled."""
        while True:
            await asyncio.sleep(IDLE_SECONDS / 2)
            self.memory.drop_idle(IDLE_SECONDS)

    def round(self, call: Call, source: Bytes, job: Job, target: Bytes | None = None) -> Bytes:
        """Round ``source`` and return the output's bytes.

        The output is ``target`` if given, else the beginning of ``source`` if the call is in
        place, else new memory of the job. ``target`` must be that of a call in place, or share no
        byte with ``source``. Raises :class:`DeviceOutOfMemory` or :class:`BackendFailed` if the
        backend fails, and :class:`MemoryError` if the output cannot be allocated.
        """
        if target is None:
            if call.is_in_place:
                is_whole = call.keeps_width and call.parameters is None
                target = source if is_whole else in_place(call, source)
            else:
                target = job.allocate(call.output.byte_length)
        try:
            if job.overlap is None:
                job.executed_by = self.backend.round(call, source, target)
            else:
                job.executed_by = job.overlap.finish()
        except (MemoryError, RuntimeError) as error:
            raise _refusal(error) from None
        return target

    def overlap(self, call: Call, source: Bytes, job: Job) -> Callable[[int], None] | None:
        """Prepare to round ``source`` in place while it is being received.

        Returns the progress callback for the reader, or None if overlap is not worthwhile.
        :meth:`round` then rounds the rest; it must be called without a target.
        """
        if not is_worthwhile(self.backend, call):
            return None
        job.overlap = Overlap(self.backend, call, source, job.other_bytes)
        return job.overlap.progress

    def round_resident(
        self,
        device: int,
        call: Call,
        source: DeviceBuffer,
        target: DeviceBuffer,
        given: Bytes,
        job: Job,
    ) -> None:
        """Round within a device's memory, with the bytes of parameters that are given.

        Raises as :meth:`round` does.
        """
        memory = self.device_memory
        try:
            job.executed_by = memory.round_resident(device, call, source, target, given)
        except (MemoryError, RuntimeError) as error:
            raise _refusal(error) from None

    @property
    def device_memory(self) -> DeviceMemory:
        """The memory of the backend's devices; :class:`BackendFailed` if there are none."""
        memory = self.backend.device_memory
        if memory is None:
            raise BackendFailed("no device is available", retry_after=1)
        return memory

    async def device_memory_info(self) -> dict[str, tuple[int, int]]:
        """Used and total bytes of each device's memory; empty if a device does not respond.

        On a thread: the driver may be locked for as long as memory is being page-locked.
        """
        if self.backend.device_memory is None:
            return {}
        info = self._device_memory_info
        if info is None or info.done():
            loop = asyncio.get_running_loop()
            info = loop.run_in_executor(None, self.backend.device_memory_info)
            self._device_memory_info = info
        await asyncio.wait([info], timeout=DEVICE_SECONDS)
        return info.result() if info.done() and info.exception() is None else {}

    async def run(
        self,
        work: Callable[[], T],
        nbytes: int,
        cost: int | None = None,
        job: Job | None = None,
    ) -> T:
        """Run ``work`` on ``nbytes`` bytes: inline if it is short, else on a thread.

        ``cost`` is the number of bytes of a narrow type that take as long, by default
        ``nbytes``. The queueing and execution times are stored in ``job``. Raises
        :class:`ClientDisconnected` if the job's caller goes before a thread is free.
        """
        queued = began = time.perf_counter()
        try:
            if (nbytes if cost is None else cost) <= INLINE_BYTES and (
                nbytes <= self.backend.inline_bytes
            ):
                return work()

            result, began = await self._threads.round(work, None if job is None else job.caller)
            return result
        finally:
            if job is not None:
                job.queue_seconds = began - queued
                job.execute_seconds += time.perf_counter() - began

    async def run_slowly(
        self, work: Callable[[Pause], T], cost: int, job: Job, *, is_timed: bool = False
    ) -> T:
        """Run slow work: inline if it is short, else on threads for it, by turns.

        ``work`` gets its pause. ``cost`` is as for :meth:`run`. With ``is_timed`` the times are
        stored in ``job``. Raises :class:`ClientDisconnected` if the caller goes meanwhile.
        """
        queued = began = time.perf_counter()
        if cost <= min(INLINE_BYTES, self.backend.inline_bytes):
            result = work(no_pause)
        else:
            result, began = await self._threads.slow(work, job.caller)
        if is_timed:
            job.queue_seconds = began - queued
            job.execute_seconds += time.perf_counter() - began
        return result

    def submit(self, work: Callable[[], None]) -> None:
        """Run ``work`` on a thread as soon as one is free, which may be late or never."""
        with contextlib.suppress(RuntimeError):  # no thread can be started
            self._threads.submit(work)

    def close(self) -> None:
        """Stop the threads and release the device."""
        self._threads.close()
        self.backend.close()


def _refusal(error: MemoryError | RuntimeError) -> RequestRefused:
    """The refusal for a backend's failure on a valid call."""
    if isinstance(error, MemoryError):  # the base class of CuPy's OutOfMemoryError
        logger.warning("the device is out of memory: %s", error)
        return DeviceOutOfMemory("the device is out of memory", retry_after=1)
    logger.error("the backend failed", exc_info=error)
    return BackendFailed("the backend failed on this tensor", retry_after=1)
