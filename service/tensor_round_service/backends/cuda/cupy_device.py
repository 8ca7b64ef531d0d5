"""CUDA devices through CuPy. No other module imports CuPy."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import cache
from typing import Any, Self
from weakref import WeakValueDictionary

import cupy
import cupyx
from cupy.cuda import compiler, memory, nvrtc, runtime

from tensor_round.contract.dtypes import DType
from tensor_round.contract.functions import Function

from .. import Bytes
from ..devices import DeviceBuffer, DeviceFailed, DeviceMissing, OutOfDeviceMemory
from .device import DeviceParameters
from .kernels import STRIDED_COPY_KERNELS, KernelSource
from .launches import launch_of

#: Default memory limit, as a fraction of the device's memory.
POOL_FRACTION = 0.5

#: cudaErrorMemoryAllocation, and the driver's CUDA_ERROR_OUT_OF_MEMORY.
_OUT_OF_MEMORY = 2
_MISSING = {
    35: "the NVIDIA driver is missing or too old for this CuPy",  # cudaErrorInsufficientDriver
    100: "no NVIDIA device is visible",  # cudaErrorNoDevice
}
#: cudaHostRegisterPortable: pages locked for one device are locked for all.
_PORTABLE = 1


def open_devices(numbers: Sequence[int] | None, pool_bytes: int | None) -> list[CupyDevice]:
    """Open the devices with these numbers, by default all.

    ``pool_bytes`` is the memory limit on each device. Raises :class:`DeviceMissing`.
    """
    try:
        count = runtime.getDeviceCount()
    except runtime.CUDARuntimeError as error:
        raise DeviceMissing(_MISSING.get(error.status, str(error))) from error
    wanted = range(count) if numbers is None else numbers
    if not count or not wanted:
        raise DeviceMissing("no NVIDIA device is visible")
    if wrong := [number for number in wanted if not 0 <= number < count]:
        raise DeviceMissing(f"there is no device {wrong[0]}; the devices are 0 to {count - 1}")
    try:
        nvrtc.getVersion()
    except RuntimeError as error:
        raise DeviceMissing("NVRTC is missing; install the extra cuda12 or cuda13") from error
    return [CupyDevice(number, pool_bytes) for number in wanted]


@contextmanager
def _failures() -> Iterator[None]:
    """Translate CuPy's exceptions into those of :mod:`.device`."""
    try:
        yield
    except (OutOfDeviceMemory, DeviceFailed):
        raise
    except memory.OutOfMemoryError as error:
        raise OutOfDeviceMemory(str(error)) from error
    except (RuntimeError, compiler.CompileException) as error:
        if getattr(error, "status", None) == _OUT_OF_MEMORY:
            raise OutOfDeviceMemory(str(error)) from error
        raise DeviceFailed(str(error)) from error


class CupyDevice:
    """One CUDA device; see :class:`.device.Device`."""

    def __init__(self, number: int, pool_bytes: int | None = None) -> None:
        self.number = number
        #: Mapped allocations of other processes, by handle: CUDA maps each only once.
        self._imported: WeakValueDictionary[bytes, _Imported] = WeakValueDictionary()
        with _failures(), self._current():
            self.name = f"{runtime.getDeviceProperties(number)['name'].decode()} ({number})"
            self.total_bytes: int = runtime.memGetInfo()[1]
            self._pool = cupy.cuda.MemoryPool()
            if pool_bytes is None:
                self._pool.set_limit(fraction=POOL_FRACTION)
            else:
                self._pool.set_limit(size=pool_bytes)

    def _current(self) -> Any:
        # A new object each time: it stores the previous current device.
        return cupy.cuda.Device(self.number)

    def stream(self) -> CupyStream:
        """A new stream, which does not synchronize with the legacy default stream."""
        with _failures(), self._current():
            return CupyStream(self.number, cupy.cuda.Stream(non_blocking=True))

    def allocate(self, nbytes: int) -> DeviceBuffer:
        """Allocate from the pool."""
        with _failures(), self._current():
            pointer = self._pool.malloc(nbytes)
            return DeviceBuffer(pointer.ptr, nbytes, pointer)

    def memory_info(self) -> tuple[int, int]:
        """The driver's figures."""
        with _failures(), self._current():
            free, total = runtime.memGetInfo()
        return total - free, total

    def import_memory(self, handle: bytes) -> DeviceBuffer:
        """Map an allocation of another process by CUDA IPC."""
        imported = self._imported.get(handle)
        if imported is None:
            with _failures(), self._current():
                imported = self._imported[handle] = _Imported(self.number, handle)
        return DeviceBuffer(imported.address, imported.nbytes, imported)

    def trim(self) -> None:
        """Free the unused blocks of the pool."""
        with _failures(), self._current():
            self._pool.free_all_blocks()

    def staging(self, nbytes: int) -> Bytes:
        """Allocate page-locked host memory."""
        with _failures(), self._current():
            found: Bytes = cupyx.empty_pinned(nbytes, cupy.uint8)
            return found

    def pin(self, memory: Bytes) -> bool:
        """Page-lock memory; return False if the system forbids it."""
        try:
            with self._current():
                runtime.hostRegister(memory.ctypes.data, memory.size, _PORTABLE)
        except RuntimeError:
            return False
        return True

    def unpin(self, memory: Bytes) -> None:
        """Undo :meth:`pin`; errors of a lost device are ignored."""
        with suppress(RuntimeError), self._current():
            runtime.hostUnregister(memory.ctypes.data)

    def is_pinned(self, memory: Bytes) -> bool:
        """Whether the first and the last byte are page-locked."""
        first = memory.ctypes.data
        with _failures():
            return all(
                runtime.pointerGetAttributes(address).type == runtime.memoryTypeHost
                for address in (first, first + memory.size - 1)
            )


class _Imported:
    """A mapped allocation of another process; unmapped with the last reference."""

    def __init__(self, number: int, handle: bytes) -> None:
        self._number = number
        self.address: int = runtime.ipcOpenMemHandle(handle)
        base, nbytes = ctypes.c_uint64(), ctypes.c_size_t()
        # CuPy lacks this function, which returns the size of the allocation. An access beyond
        # its end would make the device unusable for this process.
        status = ctypes.CDLL("libcuda.so.1").cuMemGetAddressRange_v2(
            ctypes.byref(base), ctypes.byref(nbytes), ctypes.c_uint64(self.address)
        )
        self.nbytes = 0 if status else base.value + nbytes.value - self.address

    def __del__(self) -> None:
        # The constructor may have failed, or the device may be lost.
        with suppress(RuntimeError, AttributeError), cupy.cuda.Device(self._number):
            runtime.ipcCloseMemHandle(self.address)


class CupyStream:
    """A CUDA stream; see :class:`.device.Stream`."""

    def __init__(self, number: int, stream: Any) -> None:
        self._number = number
        self._stream = stream
        self._device: Any = None

    def __enter__(self) -> Self:
        with _failures():
            self._device = cupy.cuda.Device(self._number)
            self._device.__enter__()
            self._stream.__enter__()
        return self

    def __exit__(self, *error: Any) -> None:
        with _failures():
            self._stream.__exit__(*error)
            self._device.__exit__(*error)

    def copy_in(self, source: Bytes, target: DeviceBuffer) -> None:
        """Host to device."""
        self._copy(target.address, source.ctypes.data, source.size, runtime.memcpyHostToDevice)

    def copy_out(self, source: DeviceBuffer, target: Bytes) -> None:
        """Device to host."""
        self._copy(target.ctypes.data, source.address, target.size, runtime.memcpyDeviceToHost)

    def copy(self, source: DeviceBuffer, target: DeviceBuffer) -> None:
        """Device to device."""
        self._copy(target.address, source.address, target.nbytes, runtime.memcpyDeviceToDevice)

    def _copy(self, target: int, source: int, nbytes: int, kind: int) -> None:
        if nbytes:
            with _failures():
                runtime.memcpyAsync(target, source, nbytes, kind, self._stream.ptr)

    def clear(self, target: DeviceBuffer) -> None:
        """Fill with zeros."""
        if target.nbytes:
            with _failures():
                runtime.memsetAsync(target.address, 0, target.nbytes, self._stream.ptr)

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
        """Launch a function's kernel on this stream, which must be the current one."""
        scale = None if parameters is None else parameters.scale
        launch = launch_of(function, source_dtype, target_dtype, count, scale)
        with _failures():
            inputs = [self._array(source), launch.length]
            if parameters is not None:
                inputs += [
                    self._array(parameters.scales, cupy.float32),
                    self._array(parameters.points, cupy.int32),
                    self._array(parameters.dims, cupy.uint32),
                    parameters.dims.nbytes // (3 * 4),
                    first,
                ]
            _compiled(launch.kernel)(*inputs, self._array(target), size=launch.threads)

    def copy_strided(
        self,
        itemsize: int,
        source: DeviceBuffer,
        target: DeviceBuffer,
        dims: DeviceBuffer,
        first: int,
        count: int,
    ) -> None:
        """Launch a strided copy on this stream, which must be the current one."""
        with _failures():
            _compiled(STRIDED_COPY_KERNELS[itemsize])(
                self._array(source),
                self._array(dims, cupy.int64),
                dims.nbytes // (3 * 8),
                first,
                self._array(target),
                size=count,
            )

    def _array(self, buffer: DeviceBuffer, dtype: Any = cupy.uint8) -> Any:
        # Kernels need the address only. The array has one element for any length, because CuPy
        # compiles a further variant with 64-bit indices for large arrays.
        memory = cupy.cuda.UnownedMemory(buffer.address, buffer.nbytes, buffer.owner, self._number)
        return cupy.ndarray((1,), dtype, cupy.cuda.MemoryPointer(memory, 0))

    def wait(self) -> None:
        """Wait until the stream is empty."""
        with _failures():
            self._stream.synchronize()


@cache
def _compiled(kernel: KernelSource) -> Any:
    """The CuPy kernel; CuPy compiles it at its first launch on each device."""
    return cupy.ElementwiseKernel(
        kernel.inputs,
        kernel.outputs,
        kernel.operation,
        kernel.name,
        preamble=kernel.preamble,
        no_return=True,
    )
