"""CUDA devices by way of CuPy: the one module that knows it."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from contextlib import suppress
from functools import cache
from types import TracebackType
from typing import Any, Self
from weakref import WeakValueDictionary

import cupy
import cupyx
from cupy.cuda import compiler, memory, nvrtc, runtime

from tensor_round.dtypes import DType
from tensor_round.rounding import Rounding

from .. import Bytes
from .device import DeviceFailed, DeviceMissing, OutOfDeviceMemory, Span
from .kernels import ROUND_KERNELS, SPREAD_KERNELS, KernelSource, run_size

#: The part of a device's memory that is taken at most, where nothing else is said.
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
    """The devices of these numbers, or all there are.

    ``pool_bytes`` bounds the memory taken of each. Raises :class:`DeviceMissing`.
    """
    try:
        count = runtime.getDeviceCount()
    except runtime.CUDARuntimeError as error:
        raise DeviceMissing(_MISSING.get(error.status, str(error))) from error
    wanted = range(count) if numbers is None else numbers
    if not count or not wanted:
        raise DeviceMissing("no NVIDIA device is visible")
    if wrong := [number for number in wanted if not 0 <= number < count]:
        raise DeviceMissing(f"there is no device {wrong[0]}; devices count from 0, and are {count}")
    try:
        nvrtc.getVersion()
    except RuntimeError as error:
        raise DeviceMissing("NVRTC is missing; the extras cuda12 and cuda13 have it") from error
    return [CupyDevice(number, pool_bytes) for number in wanted]


class _Failures:
    """Tells CuPy's exceptions as this package's own."""

    def __enter__(self) -> None:
        pass

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        match error:
            case None | OutOfDeviceMemory() | DeviceFailed():
                return
            case memory.OutOfMemoryError():
                raise OutOfDeviceMemory(str(error)) from error
            case RuntimeError() | compiler.CompileException():
                if getattr(error, "status", None) == _OUT_OF_MEMORY:
                    raise OutOfDeviceMemory(str(error)) from error
                raise DeviceFailed(str(error)) from error


_failures = _Failures()


class CupyDevice:
    """One CUDA device; see :class:`~.cuda_device.Device`."""

    def __init__(self, number: int, pool_bytes: int | None = None) -> None:
        self.number = number
        #: What is mapped of other processes, by handle: a second mapping is the first.
        self._imported: WeakValueDictionary[bytes, _Imported] = WeakValueDictionary()
        with _failures, self._current():
            self.name = f"{runtime.getDeviceProperties(number)['name'].decode()} ({number})"
            self.total_bytes: int = runtime.memGetInfo()[1]
            self._pool = cupy.cuda.MemoryPool()
            if pool_bytes is None:
                self._pool.set_limit(fraction=POOL_FRACTION)
            else:
                self._pool.set_limit(size=pool_bytes)

    def _current(self) -> Any:
        # One of its own each time: these objects remember what was current before them.
        return cupy.cuda.Device(self.number)

    def stream(self) -> CupyStream:
        """A stream that the legacy default stream does not wait for, nor it for that."""
        with _failures, self._current():
            return CupyStream(self.number, cupy.cuda.Stream(non_blocking=True))

    def allocate(self, nbytes: int) -> Span:
        """Memory of the pool."""
        with _failures, self._current():
            pointer = self._pool.malloc(nbytes)
            return Span(pointer.ptr, nbytes, pointer)

    def import_memory(self, handle: bytes) -> Span:
        """Map by CUDA IPC."""
        imported = self._imported.get(handle)
        if imported is None:
            with _failures, self._current():
                imported = self._imported[handle] = _Imported(self.number, handle)
        return Span(imported.address, imported.nbytes, imported)

    def trim(self) -> None:
        """Empty the pool of what is unused."""
        with _failures, self._current():
            self._pool.free_all_blocks()

    def staging(self, nbytes: int) -> Bytes:
        """Page-locked memory from CUDA."""
        with _failures, self._current():
            found: Bytes = cupyx.empty_pinned(nbytes, cupy.uint8)
            return found

    def pin(self, memory: Bytes) -> bool:
        """Register memory with CUDA; False where it may not be locked."""
        try:
            with self._current():
                runtime.hostRegister(memory.ctypes.data, memory.size, _PORTABLE)
        except RuntimeError:
            return False
        return True

    def unpin(self, memory: Bytes) -> None:
        """Unregister memory; where the device is lost there is nothing left to undo."""
        with suppress(RuntimeError), self._current():
            runtime.hostUnregister(memory.ctypes.data)

    def is_pinned(self, memory: Bytes) -> bool:
        """Whether CUDA knows the first and the last byte as host memory of its own."""
        first = memory.ctypes.data
        with _failures:
            return all(
                runtime.pointerGetAttributes(address).type == runtime.memoryTypeHost
                for address in (first, first + memory.size - 1)
            )

    def close(self) -> None:
        """Give the pool's memory back."""
        self.trim()


class _Imported:
    """Another process's allocation, mapped here until this is forgotten."""

    def __init__(self, number: int, handle: bytes) -> None:
        self._number = number
        self.address: int = runtime.ipcOpenMemHandle(handle)
        base, nbytes = ctypes.c_uint64(), ctypes.c_size_t()
        # CuPy has no name for the one call that knows where an allocation ends. Behind it an
        # access would cost this process its device.
        status = ctypes.CDLL("libcuda.so.1").cuMemGetAddressRange_v2(
            ctypes.byref(base), ctypes.byref(nbytes), ctypes.c_uint64(self.address)
        )
        self.nbytes = 0 if status else base.value + nbytes.value - self.address

    def __del__(self) -> None:
        # It may never have been opened, or its device be lost.
        with suppress(RuntimeError, AttributeError), cupy.cuda.Device(self._number):
            runtime.ipcCloseMemHandle(self.address)


class CupyStream:
    """A CUDA stream; see :class:`~.cuda_device.Stream`."""

    def __init__(self, number: int, stream: Any) -> None:
        self._number = number
        self._stream = stream
        self._device: Any = None

    def __enter__(self) -> Self:
        with _failures:
            self._device = cupy.cuda.Device(self._number)
            self._device.__enter__()
            self._stream.__enter__()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        with _failures:
            self._stream.__exit__(kind, error, traceback)
            self._device.__exit__(kind, error, traceback)

    def copy_in(self, source: Bytes, target: Span) -> None:
        """Host to device."""
        self._copy(target.address, source.ctypes.data, source.size, runtime.memcpyHostToDevice)

    def copy_out(self, source: Span, target: Bytes) -> None:
        """Device to host."""
        self._copy(target.ctypes.data, source.address, target.size, runtime.memcpyDeviceToHost)

    def copy(self, source: Span, target: Span) -> None:
        """Device to device."""
        self._copy(target.address, source.address, target.nbytes, runtime.memcpyDeviceToDevice)

    def _copy(self, target: int, source: int, nbytes: int, kind: int) -> None:
        if nbytes:
            with _failures:
                runtime.memcpyAsync(target, source, nbytes, kind, self._stream.ptr)

    def clear(self, target: Span) -> None:
        """Fill with zeros."""
        if target.nbytes:
            with _failures:
                runtime.memsetAsync(target.address, 0, target.nbytes, self._stream.ptr)

    def round(self, dtype: DType, rounding: Rounding, source: Span, target: Span) -> None:
        """Launch a rounding kernel on the current stream, which is this one."""
        with _failures:
            _compiled(ROUND_KERNELS[dtype, rounding])(
                self._array(source),
                source.nbytes,
                self._array(target),
                size=run_size(source.nbytes),
            )

    def spread(
        self, itemsize: int, source: Span, target: Span, dims: Span, first: int, count: int
    ) -> None:
        """Launch a copying kernel on the current stream, which is this one."""
        with _failures:
            _compiled(SPREAD_KERNELS[itemsize])(
                self._array(source),
                self._array(dims, cupy.int64),
                dims.nbytes // (3 * 8),
                first,
                self._array(target),
                size=count,
            )

    def _array(self, span: Span, dtype: Any = cupy.uint8) -> Any:
        # Of one element, whatever the span's length: kernels need its address alone, and
        # larger arrays would have them compiled anew for 64-bit indices.
        held = cupy.cuda.UnownedMemory(span.address, span.nbytes, span.owner, self._number)
        return cupy.ndarray((1,), dtype, cupy.cuda.MemoryPointer(held, 0))

    def wait(self) -> None:
        """Until the stream is empty."""
        with _failures:
            self._stream.synchronize()


@cache
def _compiled(kernel: KernelSource) -> Any:
    """The kernel; CuPy compiles it for each device at its first launch there."""
    return cupy.ElementwiseKernel(
        kernel.inputs,
        kernel.outputs,
        kernel.operation,
        kernel.name,
        preamble=kernel.preamble,
        no_return=True,
    )
