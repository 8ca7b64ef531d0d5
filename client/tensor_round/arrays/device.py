"""Arrays in a GPU's memory, of each library that the client knows.

A library is used only if the program has imported it: this module imports none.
"""

from __future__ import annotations

import sys
from typing import Any

from ..contract.dtypes import dtype_name


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

    def empty_like(self, x: Any) -> Any:
        """A new packed array of the same shape and dtype on the same device."""
        with x.device:
            return sys.modules[self.module].empty(x.shape, x.dtype)

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
        return str(x.dtype).removeprefix("torch.")

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

    def empty_like(self, x: Any) -> Any:
        torch = sys.modules[self.module]
        return torch.empty_like(x.detach(), memory_format=torch.contiguous_format)

    def assign(self, target: Any, x: Any) -> None:
        target.detach().copy_(x)


ArrayLibrary = _Cupy | _Torch
LIBRARIES: tuple[ArrayLibrary, ...] = (_Cupy(), _Torch())


def library_of(x: Any) -> ArrayLibrary | None:
    """The library of an array on a GPU; None for anything else."""
    for library in LIBRARIES:
        if library.module in sys.modules and library.owns(x):
            return library
    return None
