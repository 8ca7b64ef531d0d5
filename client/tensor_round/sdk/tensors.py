"""A caller's tensors, as a descriptor's layouts describe them.

What a caller gives is either bytes that lie as the layout says, or an array of the
layout's dtype and shape, with strides and a byte order of its own. No I/O here.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from numpy.lib.array_utils import byte_bounds
from numpy.lib.stride_tricks import as_strided

from ..arrays import host as arrays
from ..arrays.host import Array, bits, laid_out
from ..arrays.sinks import DirectLanding, Landing, StagedLanding, StridedLanding
from ..call import RoundCall, wrong_size
from ..errors import InvalidArgument
from ..layout import Layout

Bytes = npt.NDArray[np.uint8]
#: What exports a buffer or an array, in one of the ways of :func:`.arrays.read`; no type says so.
Exporter = Any

#: How the buffer protocol marks single bytes.
_BYTE_FORMATS = ("B", "b", "c")


@dataclass(frozen=True, slots=True)
class Tensor:
    """The elements of a tensor in a caller's memory.

    ``elements`` have the layout's dtype, in either byte order, and its shape. ``memory``
    is all bytes of the layout, gaps and padding included, where the caller gave them.
    """

    layout: Layout
    elements: Array
    memory: Bytes | None

    @property
    def lies_as_stated(self) -> bool:
        """Whether the elements have the layout's strides and the byte order of the wire."""
        layout, itemsize = self.layout, self.layout.dtype.itemsize
        if self.elements.dtype != layout.dtype.numpy:
            return False
        steps = zip(self.elements.strides, layout.strides, layout.shape, strict=True)
        return layout.element_count == 0 or all(
            step == stride * itemsize for step, stride, size in steps if size > 1
        )

    def extent(self) -> Bytes:
        """The memory from the first element to the last, of elements that lie as stated."""
        itemsize = self.layout.dtype.itemsize
        if self.layout.element_count == 0:
            return np.empty(0, np.uint8)
        last = sum(
            (size - 1) * stride
            for size, stride in zip(self.elements.shape, self.elements.strides, strict=True)
        )
        first = as_strided(bits(self.elements), (1,), (itemsize,)).view(np.uint8)
        return as_strided(first, (last + itemsize,), (1,))


def read_input(data: Exporter, call: RoundCall) -> Tensor:
    """See what a caller gives as the call's input.

    Raises :class:`PayloadSizeMismatch` for bytes of another length, and
    :class:`InvalidArgument` for an array of another dtype or shape, and what is neither.
    """
    memory = _single_bytes(data, call.input)
    if memory is None:
        return Tensor(call.input, _array(data, "data", call.input, "input"), None)
    if memory.size not in call.lengths:
        raise wrong_size(memory.size, call.lengths)
    memory = np.ascontiguousarray(memory)
    return Tensor(call.input, laid_out(memory, call.input), memory)


def read_output(out: Exporter, call: RoundCall) -> Tensor:
    """See a caller's ``out`` as the call's output.

    Raises :class:`InvalidArgument` unless it has the layout's length, or its dtype and
    shape, and can be written element by element.
    """
    memory = _single_bytes(out, call.output)
    if memory is None:
        elements = _array(out, "out", call.output, "output")
        arrays.check_writable(elements)
        return Tensor(call.output, elements, None)
    arrays.check_writable(memory)
    if memory.size != call.output.byte_length or not memory.flags.c_contiguous:
        raise InvalidArgument(
            f"out must have the {call.output.byte_length} bytes of the descriptor's output, "
            f"in a row, got {memory.size}"
        )
    return Tensor(call.output, laid_out(memory, call.output), memory)


def fresh(layout: Layout) -> Tensor:
    """New memory for an output; what it holds is undefined."""
    memory = _allocated(layout, np.empty)
    return Tensor(layout, laid_out(memory, layout), memory)


def payload(source: Tensor, call: RoundCall) -> memoryview:
    """The bytes to send: the caller's own memory where it lies as stated, else a copy.

    Raises :class:`InvalidArgument` for an array that differs along a dimension that the
    layout repeats.
    """
    if source.memory is not None:
        return source.memory.data
    if source.lies_as_stated:
        extent = source.extent()
        if extent.size in (call.input.byte_length, call.shortest_input):
            return extent.data
    memory = _allocated(source.layout, np.zeros)
    laid = bits(laid_out(memory, source.layout))
    laid[...] = bits(source.elements)
    if not source.layout.is_free_of_overlap and not np.array_equal(laid, bits(source.elements)):
        raise InvalidArgument(
            "data has different elements where the descriptor's strides have one: "
            f"{list(source.layout.strides)}"
        )
    return memory.data


def is_in_place(source: Tensor, target: Tensor) -> bool:
    """Whether the output is the input's own memory, by DirectML's rule of aliasing.

    It may be, if both have the same sizes, strides, length and place; raises
    :class:`InvalidArgument` where they overlap in any other way.
    """
    place, other = _place(source), _place(target)
    if not np.may_share_memory(place, other):
        return False
    if (
        byte_bounds(place) != byte_bounds(other)
        or source.elements.dtype != target.elements.dtype
        or _steps(source.elements) != _steps(target.elements)
        or not source.layout.lies_like(target.layout.strides)
        or source.layout.byte_length != target.layout.byte_length
    ):
        raise InvalidArgument(
            "out overlaps the input: it may be the input's memory only where both have the same "
            "sizes, strides, total size and place"
        )
    return True


def landing(target: Tensor, *, in_place: bool, verified: bool) -> Landing:
    """Where the output comes down; what lies between a caller's elements is not touched."""
    memory = target.memory
    if memory is None and target.layout.is_dense and target.lies_as_stated:
        # Padding behind the last element is dropped.
        memory = target.extent()
    if memory is not None:
        return StagedLanding(memory, hold=verified) if in_place else DirectLanding(memory)
    if target.layout.is_packed:
        return StagedLanding(bits(target.elements), hold=verified)
    return StridedLanding(bits(target.elements), target.layout)


def _allocated(layout: Layout, make: Callable[[int, type[np.uint8]], Bytes]) -> Bytes:
    try:
        return make(layout.byte_length, np.uint8)
    except (MemoryError, ValueError, OverflowError):
        raise InvalidArgument(
            f"there is no memory for the {layout.byte_length} bytes of the layout"
        ) from None


def _single_bytes(x: Exporter, layout: Layout) -> Bytes | None:
    """A buffer of single bytes; None for an array, or anything else."""
    if isinstance(x, np.ndarray):
        if x.dtype != np.uint8 or x.ndim != 1:
            return None
        is_array = layout.dtype.name == "uint8" and layout.shape == x.shape
        return None if is_array else np.asarray(x)
    try:
        view = memoryview(x)
    except (TypeError, ValueError, BufferError):
        return None
    if view.format not in _BYTE_FORMATS or view.ndim != 1:
        return None
    return np.asarray(view).view(np.uint8)


def _array(x: Exporter, name: str, layout: Layout, side: str) -> Array:
    if isinstance(x, np.ma.MaskedArray):
        raise InvalidArgument(f"{name} is masked, and a descriptor has no mask: give {name}.data")
    operand = arrays.read(x, name)
    if operand.dtype != layout.dtype.name:
        raise InvalidArgument(
            f"{name} has dtype {operand.dtype}, the descriptor's {side} {layout.dtype.name}"
        )
    if operand.array.shape != layout.shape:
        raise InvalidArgument(
            f"{name} has shape {operand.array.shape}, the descriptor's {side} {layout.shape}"
        )
    return operand.array


def _place(tensor: Tensor) -> Array:
    return tensor.elements if tensor.memory is None else tensor.memory


def _steps(seen: Array) -> list[int]:
    """Steps in bytes along the dimensions that have any."""
    return [step for step, size in zip(seen.strides, seen.shape, strict=True) if size > 1]
