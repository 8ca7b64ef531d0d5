"""Arrays in a GPU's memory: what the client must know of each library that has them."""

from __future__ import annotations

import sys
from typing import Any, Protocol

from ..dtypes import from_numpy


class Kind(Protocol):
    """A library's arrays."""

    #: The module that has them.
    module: str

    def is_one(self, x: Any) -> bool:
        """Whether ``x`` is such an array, and on a GPU."""

    def dtype(self, x: Any) -> str:
        """The canonical name, or the library's own for a type that nothing here rounds."""

    def address(self, x: Any) -> int:
        """Where a packed array's first element is."""

    def nbytes(self, x: Any) -> int:
        """Bytes of all elements."""

    def is_packed(self, x: Any) -> bool:
        """Whether its elements lie in C order without gaps."""

    def packed_copy(self, x: Any) -> Any:
        """A copy whose elements do, on the same device."""

    def like(self, x: Any) -> Any:
        """A fresh packed array of the same shape and dtype on the same device."""

    def assign(self, target: Any, x: Any) -> None:
        """Copy ``x`` into ``target``, whatever strides that has."""


class CupyKind:
    """CuPy's."""

    module = "cupy"

    def is_one(self, x: Any) -> bool:
        """Whether it is a ``cupy.ndarray``."""
        return isinstance(x, sys.modules[self.module].ndarray)

    def dtype(self, x: Any) -> str:
        """By the NumPy type."""
        row = from_numpy(x.dtype)
        return str(x.dtype.name) if row is None else row.name

    def address(self, x: Any) -> int:
        """Of its data."""
        return int(x.data.ptr)

    def nbytes(self, x: Any) -> int:
        """As CuPy counts."""
        return int(x.nbytes)

    def is_packed(self, x: Any) -> bool:
        """As CuPy says."""
        return bool(x.flags.c_contiguous)

    def packed_copy(self, x: Any) -> Any:
        """In C order."""
        with x.device:
            return x.copy(order="C")

    def like(self, x: Any) -> Any:
        """On its device."""
        with x.device:
            return sys.modules[self.module].empty(x.shape, x.dtype)

    def assign(self, target: Any, x: Any) -> None:
        """On its device."""
        with target.device:
            target[...] = x


class TorchKind:
    """PyTorch's tensors on CUDA."""

    module = "torch"

    def is_one(self, x: Any) -> bool:
        """Whether it is a strided tensor on CUDA."""
        torch = sys.modules[self.module]
        return isinstance(x, torch.Tensor) and x.is_cuda and x.layout is torch.strided

    def dtype(self, x: Any) -> str:
        """Torch's names are the canonical ones."""
        return str(x.dtype).removeprefix("torch.")

    def address(self, x: Any) -> int:
        """Of its data."""
        return int(x.data_ptr())

    def nbytes(self, x: Any) -> int:
        """Elements by their size."""
        return int(x.numel() * x.element_size())

    def is_packed(self, x: Any) -> bool:
        """A negative view's memory holds other values than its own."""
        return bool(x.is_contiguous() and not x.is_neg())

    def packed_copy(self, x: Any) -> Any:
        """Without its gradient's history."""
        torch = sys.modules[self.module]
        return x.detach().resolve_neg().clone(memory_format=torch.contiguous_format)

    def like(self, x: Any) -> Any:
        """On its device, without a gradient."""
        torch = sys.modules[self.module]
        return torch.empty_like(x.detach(), memory_format=torch.contiguous_format)

    def assign(self, target: Any, x: Any) -> None:
        """In place, past autograd."""
        target.detach().copy_(x)


KINDS: tuple[Kind, ...] = (CupyKind(), TorchKind())


def kind_of(x: Any) -> Kind | None:
    """The kind of an array on a GPU; None for all others. Imports nothing."""
    for kind in KINDS:
        if kind.module in sys.modules and kind.is_one(x):
            return kind
    return None
