"""What the client needs of CUDA: handles for memory, and copies where handles are of no use.

Of the driver itself, which every library's arrays have below them, so that none of them is
needed here.
"""

from __future__ import annotations

import contextlib
import ctypes
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

#: CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL.
_DEVICE_ORDINAL = 9
_HANDLE_BYTES = 64

Bytes = npt.NDArray[np.uint8]


class DriverFailed(Exception):
    """The driver refused; the message says what."""


@dataclass(frozen=True, slots=True)
class Export:
    """An allocation as another process can map it, by its handle; an address's place in it."""

    handle: bytes
    device: int
    nbytes: int
    offset: int


class Driver(Protocol):
    """Raises :class:`DriverFailed` throughout."""

    def export(self, address: int) -> Export:
        """The allocation that an address is in; some kinds of memory cannot be shared."""

    def wait(self, address: int) -> None:
        """Until all work on the address's device that this process has queued is done."""

    def read(self, address: int, target: Bytes) -> None:
        """Copy to the host."""

    def write(self, source: Bytes, address: int) -> None:
        """Copy from the host."""


@cache
def driver() -> Driver:
    """The CUDA driver of this machine; raises :class:`DriverFailed`."""
    try:
        return CudaDriver(ctypes.CDLL("libcuda.so.1"))
    except OSError as error:
        raise DriverFailed("there is no CUDA driver here") from error


class CudaDriver:
    """libcuda, in the primary context of whichever device an address is on."""

    def __init__(self, library: Any) -> None:
        self._library = library

    def export(self, address: int) -> Export:
        """By ``cuIpcGetMemHandle``, which gives the handle of a whole allocation."""
        base, nbytes = ctypes.c_uint64(), ctypes.c_size_t()
        handle = ctypes.create_string_buffer(_HANDLE_BYTES)
        at = ctypes.c_uint64(address)
        with self._context(address) as device:
            self._call("cuIpcGetMemHandle", handle, at)
            range_of = (ctypes.byref(base), ctypes.byref(nbytes), at)
            self._call("cuMemGetAddressRange_v2", *range_of)
        return Export(handle.raw, device, nbytes.value, address - base.value)

    def wait(self, address: int) -> None:
        """By ``cuCtxSynchronize``."""
        with self._context(address):
            self._call("cuCtxSynchronize")

    def read(self, address: int, target: Bytes) -> None:
        """By ``cuMemcpyDtoH``."""
        with self._context(address):
            to = ctypes.c_void_p(target.ctypes.data)
            size = ctypes.c_size_t(target.size)
            self._call("cuMemcpyDtoH_v2", to, ctypes.c_uint64(address), size)

    def write(self, source: Bytes, address: int) -> None:
        """By ``cuMemcpyHtoD``."""
        with self._context(address):
            given = ctypes.c_void_p(source.ctypes.data)
            size = ctypes.c_size_t(source.size)
            self._call("cuMemcpyHtoD_v2", ctypes.c_uint64(address), given, size)

    @contextlib.contextmanager
    def _context(self, address: int) -> Iterator[int]:
        """In the context that libraries use; the device's number."""
        device, context = ctypes.c_int(), ctypes.c_void_p()
        self._call("cuInit", 0)
        self._call(
            "cuPointerGetAttribute",
            ctypes.byref(device),
            ctypes.c_int(_DEVICE_ORDINAL),
            ctypes.c_uint64(address),
        )
        self._call("cuDevicePrimaryCtxRetain", ctypes.byref(context), device)
        try:
            self._call("cuCtxPushCurrent_v2", context)
            try:
                yield device.value
            finally:
                self._call("cuCtxPopCurrent_v2", ctypes.byref(context))
        finally:
            self._call("cuDevicePrimaryCtxRelease_v2", device)

    def _call(self, name: str, *arguments: Any) -> None:
        status = getattr(self._library, name)(*arguments)
        if status:
            raise DriverFailed(f"{name} failed with CUDA error {status}")
