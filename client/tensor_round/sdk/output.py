"""What an executed descriptor comes to."""

from __future__ import annotations

from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from ..arrays.host import Array, bits, laid_out
from .tensors import Bytes, Tensor


class OutputLayout(NamedTuple):
    """How an output lies: ``strides`` are in elements, ``byte_length`` has gaps and padding."""

    dtype: np.dtype[Any]
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    byte_length: int


class Output:
    """The output of an executed descriptor: its bytes, and how they lie."""

    def __init__(self, tensor: Tensor) -> None:
        self._tensor = tensor

    @property
    def layout(self) -> OutputLayout:
        """Dtype, shape, strides (in elements) and length (in bytes), as the response states."""
        stated = self._tensor.layout
        return OutputLayout(stated.dtype.numpy, stated.shape, stated.strides, stated.byte_length)

    @property
    def data(self) -> memoryview:
        """The output as it came: ``layout.byte_length`` bytes, zeros where no element is.

        It shares the memory of an ``out`` that lies so itself.
        """
        return self._memory.data

    def numpy(self) -> Array:
        """The elements as an array of the output's strides, on ``data``; ``out``, if it is one."""
        return self._tensor.elements

    @cached_property
    def _memory(self) -> Bytes:
        tensor = self._tensor
        if tensor.memory is not None:
            return tensor.memory
        if tensor.layout.is_dense and tensor.lies_as_stated:
            extent = tensor.extent()
            if extent.size == tensor.layout.byte_length:
                return extent
        memory = np.zeros(tensor.layout.byte_length, np.uint8)
        bits(laid_out(memory, tensor.layout))[...] = bits(tensor.elements)
        return memory

    def __repr__(self) -> str:
        dtype, shape, strides, byte_length = self.layout
        return (
            f"<Output dtype={dtype.name} shape={shape} strides={strides} byte_length={byte_length}>"
        )
