"""A device that is this CPU: the kernels themselves, real queues, memory of its own, real faults.

It stands in for CUDA where there is none, so that everything above
:mod:`tensor_round_service.backends.cuda.device` is run as it is. What CUDA leaves to its
callers it leaves to them too, and notices: work is done later, by another thread, on
whatever the memory holds by then; new memory is full of rubbish; freed memory stays taken
until it is trimmed; and after one fault nothing works any more.
"""

from __future__ import annotations

import ctypes
import mmap
import threading
import weakref
from collections.abc import Callable
from queue import SimpleQueue
from typing import Self

import numpy as np

from support.devices import host_kernels
from tensor_round.contract.dtypes import DType
from tensor_round.contract.functions import Function
from tensor_round_service.backends import Bytes
from tensor_round_service.backends.cuda.device import DeviceParameters
from tensor_round_service.backends.cuda.kernels import (
    CARRIER_BYTES,
    STRIDED_COPY_KERNELS,
    KernelSource,
)
from tensor_round_service.backends.cuda.launches import launch_of
from tensor_round_service.backends.devices import DeviceBuffer, DeviceFailed, OutOfDeviceMemory

RUBBISH = 0xAB

#: Hears of each operation by its name, and raises to have it fail.
Fault = Callable[[str], None]


def no_fault(_operation: str) -> None:
    """Nothing fails."""


class HostDevice:
    """See :class:`~tensor_round_service.backends.cuda.device.Device`.

    ``when_asked`` may fail an operation when it is asked for, which changes nothing else;
    ``when_done`` when its turn comes, and then, as on CUDA, everything after it.
    """

    def __init__(
        self, name: str = "host device", memory_bytes: int = 1 << 30, number: int = 0
    ) -> None:
        self.name = name
        self.number = number
        self.when_asked: Fault = no_fault
        self.when_done: Fault = no_fault
        self.can_pin = True
        self.is_lost = False
        self.memory_bytes = memory_bytes
        #: Bytes in use, and bytes that are free but not trimmed.
        self.used = self.kept = 0
        self.pinned: dict[int, int] = {}
        self.operations: list[str] = []
        #: The kernels of functions that were launched.
        self.launched: set[KernelSource] = set()
        self._lock = threading.Lock()

    def ask(self, operation: str) -> None:
        """An operation is asked for."""
        if self.is_lost:
            raise DeviceFailed("an earlier fault")
        self.operations.append(operation)
        self.when_asked(operation)

    def stream(self) -> HostStream:
        self.ask("stream")
        return HostStream(self)

    def allocate(self, nbytes: int) -> DeviceBuffer:
        self.ask("allocate")
        with self._lock:
            if self.used + self.kept + nbytes > self.memory_bytes:
                raise OutOfDeviceMemory(f"no {nbytes} bytes beside {self.used} + {self.kept}")
            self.used += nbytes
        memory = np.full(nbytes + 256, RUBBISH, np.uint8)
        weakref.finalize(memory, self._free, nbytes).atexit = False
        start = -memory.ctypes.data % 256
        return DeviceBuffer(memory.ctypes.data + start, nbytes, memory)

    def _free(self, nbytes: int) -> None:
        with self._lock:
            self.used -= nbytes
            self.kept += nbytes

    def memory_info(self) -> tuple[int, int]:
        return self.used + self.kept, self.memory_bytes

    def import_memory(self, handle: bytes) -> DeviceBuffer:
        """Map a POSIX shared memory object: what another process on this host can share."""
        self.ask("import")
        try:
            with open(b"/dev/shm/" + handle.rstrip(b"\0"), "r+b") as file:
                pages = mmap.mmap(file.fileno(), 0)
        except (OSError, ValueError) as error:
            raise DeviceFailed("invalid argument") from error
        memory = np.frombuffer(pages, np.uint8)
        return DeviceBuffer(memory.ctypes.data, memory.size, memory)

    def trim(self) -> None:
        self.ask("trim")
        with self._lock:
            self.kept = 0

    def staging(self, nbytes: int) -> Bytes:
        self.ask("staging")
        memory = np.full(nbytes, RUBBISH, np.uint8)
        self.pinned[memory.ctypes.data] = nbytes
        return memory

    def pin(self, memory: Bytes) -> bool:
        if self.can_pin:
            self.pinned[memory.ctypes.data] = memory.size
        return self.can_pin

    def unpin(self, memory: Bytes) -> None:
        del self.pinned[memory.ctypes.data]

    def is_pinned(self, memory: Bytes) -> bool:
        first = memory.ctypes.data
        return any(
            start <= first and first + memory.size <= start + nbytes
            for start, nbytes in list(self.pinned.items())
        )


class HostStream:
    """A queue with a thread that does what is in it; ends with the queue's last user."""

    def __init__(self, device: HostDevice) -> None:
        self._device = device
        self._work: SimpleQueue[Callable[[], None] | None] = SimpleQueue()
        self._failure: Exception | None = None
        self._entered = False
        work = self._work
        thread = threading.Thread(target=lambda: _do_all(work), name="host-stream", daemon=True)
        thread.start()
        weakref.finalize(self, self._work.put, None).atexit = False

    def __enter__(self) -> Self:
        assert not self._entered, "two threads in one stream"
        self._entered = True
        return self

    def __exit__(self, *fault: object) -> None:
        self._entered = False

    def _queue(self, operation: str, action: Callable[[], object]) -> None:
        assert self._entered
        self._raise_failure()
        self._device.ask(operation)

        def turn() -> None:
            if self._device.is_lost:
                self._failure = self._failure or DeviceFailed("an earlier fault")
                return
            try:
                self._device.when_done(operation)
                action()
            except Exception as failure:  # without a compiler, too: who waits must know
                self._device.is_lost = True
                self._failure = failure

        self._work.put(turn)

    def _raise_failure(self) -> None:
        if self._failure:
            raise DeviceFailed(str(self._failure)) from self._failure

    def copy_in(self, source: Bytes, target: DeviceBuffer) -> None:
        assert source.size == target.nbytes
        if not self._device.is_pinned(source):
            source = source.copy()  # as CUDA does
        held = source
        self._queue("copy in", lambda: _move(target.address, held.ctypes.data, held.size))

    def copy_out(self, source: DeviceBuffer, target: Bytes) -> None:
        assert source.nbytes == target.size
        self._queue("copy out", lambda: _move(target.ctypes.data, source.address, target.size))
        if not self._device.is_pinned(target):
            self.wait()

    def copy(self, source: DeviceBuffer, target: DeviceBuffer) -> None:
        assert source.nbytes == target.nbytes
        self._queue("copy", lambda: _move(target.address, source.address, target.nbytes))

    def clear(self, target: DeviceBuffer) -> None:
        self._queue("clear", lambda: ctypes.memset(target.address, 0, target.nbytes))

    def run(
        self,
        function: Function,
        source_dtype: DType,
        target_dtype: DType,
        source: DeviceBuffer,
        target: DeviceBuffer,
        count: int,
        parameters: DeviceParameters | None = None,
        first: int = 0,
    ) -> None:
        assert source.nbytes == source_dtype.nbytes(count)
        assert target.nbytes == target_dtype.nbytes(count)
        assert source.address % CARRIER_BYTES == target.address % CARRIER_BYTES == 0
        is_one = source.address == target.address and source.nbytes == target.nbytes
        is_before = source.address + source.nbytes <= target.address
        assert is_one or is_before or target.address + target.nbytes <= source.address
        scale = None if parameters is None else parameters.scale
        launch = launch_of(function, source_dtype, target_dtype, count, scale)
        self._device.launched.add(launch.kernel)
        given: list[int] = []
        if parameters is not None:
            buffers = parameters.scales, parameters.points, parameters.dims
            assert not any(buffer.address % CARRIER_BYTES for buffer in buffers)
            given = [*(buffer.address for buffer in buffers), parameters.dims.nbytes // 12, first]
        arguments = source.address, launch.length, *given, target.address, launch.threads
        # Of float32, kernels of quantization have only operations that are not flushed.
        flushed = source_dtype.itemsize < 8 and parameters is None
        self._queue("run", lambda: host_kernels.run(launch.kernel, *arguments, flushed=flushed))

    def copy_strided(
        self,
        itemsize: int,
        source: DeviceBuffer,
        target: DeviceBuffer,
        dims: DeviceBuffer,
        first: int,
        count: int,
    ) -> None:
        assert source.address % itemsize == target.address % itemsize == dims.address % 8 == 0
        kernel, rank = STRIDED_COPY_KERNELS[itemsize], dims.nbytes // 24
        self._queue(
            "copy_strided",
            lambda: host_kernels.run(
                kernel, source.address, dims.address, rank, first, target.address, count
            ),
        )

    def wait(self) -> None:
        done = threading.Event()
        self._work.put(done.set)
        done.wait()
        self._raise_failure()


def _do_all(work: SimpleQueue[Callable[[], None] | None]) -> None:
    while (turn := work.get()) is not None:
        turn()
        del turn


def _move(target: int, source: int, nbytes: int) -> None:
    ctypes.memmove(target, source, nbytes)
