"""The CUDA driver: IPC handles of memory, and copies between GPU and host.

The driver is below every array library, so this module needs none of them.
"""

from __future__ import annotations

import contextlib
import ctypes
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt

#: CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL.
_DEVICE_ORDINAL = 9
_HANDLE_BYTES = 64

Bytes = npt.NDArray[np.uint8]


class DriverFailed(Exception):
    """A driver call failed; the message names it."""


@dataclass(frozen=True, slots=True)
class Export:
    """A device address that another process can map: an allocation's handle, and an offset."""

    handle: bytes
    device: int
    nbytes: int
    offset: int


@cache
def open_driver() -> CudaDriver:
    """The CUDA driver of this machine; raises :class:`DriverFailed`."""
    try:
        return CudaDriver(ctypes.CDLL("libcuda.so.1"))
    except OSError as error:
        raise DriverFailed("there is no CUDA driver here") from error


class CudaDriver:
    """libcuda, used in the primary context of each address's device.

    All calls raise :class:`DriverFailed`.
    """

    def __init__(self, library: Any) -> None:
        self._library = library

    def export(self, address: int) -> Export:
        """The handle and the offset of an address; fails for memory that cannot be shared."""
        base, nbytes = ctypes.c_uint64(), ctypes.c_size_t()
        handle = ctypes.create_string_buffer(_HANDLE_BYTES)
        at = ctypes.c_uint64(address)
        with self._context(address) as device:
            self._call("cuIpcGetMemHandle", handle, at)
            range_of = (ctypes.byref(base), ctypes.byref(nbytes), at)
            self._call("cuMemGetAddressRange_v2", *range_of)
        return Export(handle.raw, device, nbytes.value, address - base.value)

    def wait(self, address: int) -> None:
        """Wait for all work that this process has queued on the address's device."""
        with self._context(address):
            self._call("cuCtxSynchronize")

    def read(self, address: int, target: Bytes) -> None:
        """Copy from the device to the host."""
        with self._context(address):
            pointer = ctypes.c_void_p(target.ctypes.data)
            size = ctypes.c_size_t(target.size)
            self._call("cuMemcpyDtoH_v2", pointer, ctypes.c_uint64(address), size)

    def write(self, source: Bytes, address: int) -> None:
        """Copy from the host to the device."""
        with self._context(address):
            pointer = ctypes.c_void_p(source.ctypes.data)
            size = ctypes.c_size_t(source.size)
            self._call("cuMemcpyHtoD_v2", ctypes.c_uint64(address), pointer, size)

    @contextlib.contextmanager
    def _context(self, address: int) -> Iterator[int]:
        """Enter the device's primary context, which array libraries use; yield its number."""
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
