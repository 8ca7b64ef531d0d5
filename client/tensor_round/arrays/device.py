"""Arrays in a GPU's memory, of each library that the client knows, and the CUDA driver below them.

A library is used only if the program has imported it: this module imports none. The driver gives
IPC handles of memory, and copies between GPU and host.
"""

from __future__ import annotations

import contextlib
import ctypes
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt

from ..contract.array_forms import torch_dtype
from ..contract.dtypes import BY_NAME, dtype_name
from ..contract.errors import InvalidArgument


class _Cupy:
    """CuPy arrays."""

    module = "cupy"

    def owns(self, x: Any) -> bool:
        """Whether ``x`` is an array of this library on a GPU."""
        return isinstance(x, sys.modules[self.module].ndarray)

    def dtype(self, x: Any) -> str:
        """The canonical name of the dtype; the library's own name for an unsupported one."""
        return dtype_name(x.dtype)

    def address(self, x: Any) -> int:
        """The device address of a packed array's first element."""
        return int(x.data.ptr)

    def nbytes(self, x: Any) -> int:
        """Bytes of all elements."""
        return int(x.nbytes)

    def is_packed(self, x: Any) -> bool:
        """Whether the elements are in C order without gaps."""
        return bool(x.flags.c_contiguous)

    def packed_copy(self, x: Any) -> Any:
        """A copy in C order without gaps, on the same device."""
        with x.device:
            return x.copy(order="C")

    def empty_like(self, x: Any, dtype: str) -> Any:
        """A new packed array of the same shape on the same device.

        ``dtype`` is canonical; raises :class:`InvalidArgument` for one that the library lacks.
        """
        with x.device:
            try:
                return sys.modules[self.module].empty(x.shape, BY_NAME[dtype].numpy)
            except (TypeError, ValueError) as error:
                raise _lacking(self.module, dtype) from error

    def assign(self, target: Any, x: Any) -> None:
        """Copy the elements of ``x`` into ``target``, which may have any strides."""
        with target.device:
            target[...] = x


class _Torch:
    """PyTorch tensors on CUDA."""

    module = "torch"

    def owns(self, x: Any) -> bool:
        """Whether ``x`` is a strided tensor on CUDA."""
        torch = sys.modules[self.module]
        return isinstance(x, torch.Tensor) and x.is_cuda and x.layout is torch.strided

    def dtype(self, x: Any) -> str:
        return torch_dtype(x)

    def address(self, x: Any) -> int:
        return int(x.data_ptr())

    def nbytes(self, x: Any) -> int:
        return int(x.numel() * x.element_size())

    def is_packed(self, x: Any) -> bool:
        """Whether the tensor is contiguous, and not a lazily negated view, whose memory differs."""
        return bool(x.is_contiguous() and not x.is_neg())

    def packed_copy(self, x: Any) -> Any:
        torch = sys.modules[self.module]
        return x.detach().resolve_neg().clone(memory_format=torch.contiguous_format)

    def empty_like(self, x: Any, dtype: str) -> Any:
        torch = sys.modules[self.module]
        own = getattr(torch, dtype, None)
        if own is None:
            raise _lacking(self.module, dtype)
        return torch.empty_like(x.detach(), dtype=own, memory_format=torch.contiguous_format)

    def assign(self, target: Any, x: Any) -> None:
        target.detach().copy_(x)


def _lacking(module: str, dtype: str) -> InvalidArgument:
    return InvalidArgument(f"{module} has no {dtype}: copy x to the CPU")


ArrayLibrary = _Cupy | _Torch
LIBRARIES: tuple[ArrayLibrary, ...] = (_Cupy(), _Torch())


def library_of(x: Any) -> ArrayLibrary | None:
    """The library of an array on a GPU; None for anything else."""
    for library in LIBRARIES:
        if library.module in sys.modules and library.owns(x):
            return library
    return None


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
