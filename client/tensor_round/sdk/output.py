"""The output of an executed descriptor."""

from __future__ import annotations

from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from ..contract.host import Array, bits, strided_view
from .tensors import Bytes, Tensor


class OutputLayout(NamedTuple):
    """An output's layout: ``strides`` in elements; ``byte_length`` with gaps and padding."""

    dtype: np.dtype[Any]
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    byte_length: int


class Output:
    """The output of an executed descriptor: its bytes and their layout."""

    def __init__(self, tensor: Tensor) -> None:
        self._tensor = tensor

    @property
    def layout(self) -> OutputLayout:
        """Dtype, shape, strides (in elements) and length (in bytes)."""
        stated = self._tensor.layout
        return OutputLayout(stated.dtype.numpy, stated.shape, stated.strides, stated.byte_length)

    @property
    def data(self) -> memoryview:
        """The output's ``layout.byte_length`` bytes; bytes that no element covers are zero.

        They are the memory of ``out``, if it has this layout.
        """
        return self._memory.data

    def numpy(self) -> Array:
        """The elements as an array with the output's strides; ``out`` itself if it is an array."""
        return self._tensor.elements

    @cached_property
    def _memory(self) -> Bytes:
        tensor = self._tensor
        if tensor.memory is not None:
            return tensor.memory
        if tensor.layout.is_dense and tensor.has_stated_layout:
            extent = tensor.extent()
            if extent.size == tensor.layout.byte_length:
                return extent
        memory = np.zeros(tensor.layout.byte_length, np.uint8)
        bits(strided_view(memory, tensor.layout))[...] = bits(tensor.elements)
        return memory

    def __repr__(self) -> str:
        dtype, shape, strides, byte_length = self.layout
        return (
            f"<Output dtype={dtype.name} shape={shape} strides={strides} byte_length={byte_length}>"
        )
