"""A caller's tensors for a descriptor: bytes in its layout, or arrays of its dtype and shape.

An array has its own strides and byte order. No I/O here.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from numpy.lib.array_utils import byte_bounds
from numpy.lib.stride_tricks import as_strided

from ..arrays.tiles import PackedSink, StagedSink, StridedSink, TensorSink, raw_bytes
from ..contract.array_forms import read_array, read_out
from ..contract.call import Call
from ..contract.errors import InvalidArgument
from ..contract.host_memory import (
    Array,
    bits,
    check_writable,
    elements,
    is_masked,
    pack,
    strided_view,
)
from ..contract.layout import Layout, span
from ..contract.operators.operator import PreparedDescriptor

Bytes = npt.NDArray[np.uint8]
#: A buffer or an array, by one of the protocols of :func:`.read_array`, which no type expresses.
Exporter = Any

#: The buffer protocol's formats of single bytes.
_BYTE_FORMATS = ("B", "b", "c")


@dataclass(frozen=True, slots=True)
class Tensor:
    """A tensor in a caller's memory.

    ``elements`` have the layout's dtype, in either byte order, and its shape. ``memory`` are all
    bytes of the layout, gaps and padding included; None if the caller gave an array. Elements of 4
    bits are a copy of those in ``memory``.
    """

    layout: Layout
    elements: Array
    memory: Bytes | None

    @property
    def has_stated_layout(self) -> bool:
        """Whether the elements are little-endian and have the layout's strides."""
        dtype, steps = self.layout.dtype, self.elements.strides
        if dtype.is_sub_byte:
            return False
        if self.elements.dtype != dtype.numpy or any(step % dtype.itemsize for step in steps):
            return False
        return self.layout.lies_like([step // dtype.itemsize for step in steps])

    def extent(self) -> Bytes:
        """The memory from the first to the last element; call it if :attr:`has_stated_layout`."""
        itemsize = self.layout.dtype.itemsize
        if self.layout.element_count == 0:
            return np.empty(0, np.uint8)
        first = as_strided(bits(self.elements), (1,), (itemsize,)).view(np.uint8)
        nbytes = span(self.elements.shape, self.elements.strides) - 1 + itemsize
        return as_strided(first, (nbytes,), (1,))


def read_input(data: Exporter, call: Call) -> Tensor:
    """View a caller's data as the call's input.

    Raises :class:`PayloadSizeMismatch` for bytes of another length, and :class:`InvalidArgument`
    for an array of another dtype or shape, or a value that is neither.
    """
    memory = _single_bytes(data, call.input)
    if memory is None:
        return Tensor(call.input, _array(data, "data", call.input, "input"), None)
    if memory.size not in call.lengths:
        raise call.wrong_size(memory.size)
    memory = np.ascontiguousarray(memory)
    return Tensor(call.input, elements(memory, call.input), memory)


def read_output(out: Exporter, call: Call) -> Tensor:
    """View a caller's ``out`` as the call's output.

    Raises :class:`InvalidArgument` unless it has the layout's length, or its dtype and shape, and
    is writable without overlap.
    """
    memory = _single_bytes(out, call.output)
    if memory is None:
        array = _array(out, "out", call.output, "output")
        check_writable(array)
        return Tensor(call.output, array, None)
    check_writable(memory)
    if memory.size != call.output.byte_length or not memory.flags.c_contiguous:
        raise InvalidArgument(
            f"out must have the {call.output.byte_length} bytes of the descriptor's output, "
            f"in a row, got {memory.size}"
        )
    return Tensor(call.output, elements(memory, call.output), memory)


def allocate(layout: Layout) -> Tensor:
    """New, uninitialised memory for an output."""
    memory = _allocated(layout, np.empty)
    return Tensor(layout, elements(memory, layout), memory)


def payload(source: Tensor, call: Call) -> memoryview:
    """The bytes to send: the caller's own memory if it has the stated layout, else a copy.

    Raises :class:`InvalidArgument` if elements differ that the layout puts in one place.
    """
    if source.memory is not None:
        return source.memory.data
    if source.has_stated_layout:
        extent = source.extent()
        if extent.size in (call.input.byte_length, call.shortest_input):
            return extent.data
    memory = _allocated(source.layout, np.zeros)
    if source.layout.dtype.is_sub_byte:
        memory[: source.layout.element_bytes] = pack(source.elements)
        return memory.data
    copied = bits(strided_view(memory, source.layout))
    copied[...] = bits(source.elements)
    if not source.layout.is_free_of_overlap and not np.array_equal(copied, bits(source.elements)):
        raise InvalidArgument(
            "data has different elements where the descriptor's strides repeat one: "
            f"{list(source.layout.strides)}"
        )
    return memory.data


def is_in_place(source: Tensor, target: Tensor) -> bool:
    """Whether the output is the input's own memory.

    By DirectML's rule of aliasing both must then have the same sizes, strides, length and address.
    Raises :class:`InvalidArgument` for any other overlap.
    """
    read, written = _memory(source), _memory(target)
    if not np.may_share_memory(read, written):
        return False
    if (
        byte_bounds(read) != byte_bounds(written)
        or source.elements.dtype != target.elements.dtype
        or _effective_strides(source.elements) != _effective_strides(target.elements)
        or not source.layout.lies_like(target.layout.strides)
        or source.layout.byte_length != target.layout.byte_length
    ):
        raise InvalidArgument(
            "out overlaps the input: it may be the input's memory only where both have the same "
            "sizes, strides, total size and address"
        )
    return True


def sink(target: Tensor, *, in_place: bool, verified: bool) -> TensorSink:
    """The sink of an output; it never writes between the elements of a caller's array."""
    memory = target.memory
    if memory is None and target.layout.is_dense and target.has_stated_layout:
        # Padding behind the last element is dropped.
        memory = target.extent()
    if memory is not None:
        return StagedSink(memory, hold=verified) if in_place else TensorSink(raw_bytes(memory))
    if target.layout.dtype.is_sub_byte:
        return PackedSink(target.elements)
    if target.layout.is_packed:
        return StagedSink(bits(target.elements), hold=verified)
    return StridedSink(bits(target.elements), target.layout)


@dataclass(slots=True)
class WholeTensor:
    """A whole tensor, gaps included, to send as one tile; see :class:`.Tile`.

    ``bytes`` are its payload. Memory for a ``target`` that is None is allocated once the service
    has accepted the tensor.
    """

    prepared: PreparedDescriptor
    bytes: memoryview
    target: Tensor | None
    in_place: bool

    @property
    def nbytes(self) -> int:
        """Bytes of the payload."""
        return len(self.bytes)

    def payload(self) -> memoryview:
        """The payload."""
        return self.bytes

    def allocated(self) -> Tensor:
        """The target, allocated now if it was not yet."""
        self.target = self.target or allocate(self.prepared.call.output)
        return self.target

    def sink(self, *, verified: bool, can_tear: bool) -> TensorSink:
        """The sink of the output."""
        return sink(self.allocated(), in_place=self.in_place, verified=verified)


def _allocated(layout: Layout, make: Callable[[int, type[np.uint8]], Bytes]) -> Bytes:
    try:
        return make(layout.byte_length, np.uint8)
    except (MemoryError, ValueError, OverflowError):
        raise InvalidArgument(
            f"the {layout.byte_length} bytes of the layout cannot be allocated"
        ) from None


def _single_bytes(x: Exporter, layout: Layout) -> Bytes | None:
    """A buffer of single bytes as an array; None for anything else."""
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
    if is_masked(x):
        raise InvalidArgument(f"{name} is masked, and a descriptor has no mask: give {name}.data")
    operand = read_out(x) if name == "out" else read_array(x, name)
    if operand.dtype != layout.dtype.name:
        raise InvalidArgument(
            f"{name} has dtype {operand.dtype}, the descriptor's {side} {layout.dtype.name}"
        )
    if operand.array.shape != layout.shape:
        raise InvalidArgument(
            f"{name} has shape {operand.array.shape}, the descriptor's {side} {layout.shape}"
        )
    return operand.array


def _memory(tensor: Tensor) -> Array:
    return tensor.elements if tensor.memory is None else tensor.memory


def _effective_strides(array: Array) -> list[int]:
    """The strides in bytes, without those of dimensions of size 1."""
    return [step for step, size in zip(array.strides, array.shape, strict=True) if size > 1]


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
        """The elements as an array with the output's strides; ``out`` itself if it is an array.

        Elements of 4 bits, which have a byte each in an array, are copied from the output's bytes.
        """
        tensor = self._tensor
        if tensor.memory is not None and tensor.layout.dtype.is_sub_byte:
            return elements(tensor.memory, tensor.layout)
        return tensor.elements

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
        if tensor.layout.dtype.is_sub_byte:
            memory[: tensor.layout.element_bytes] = pack(tensor.elements)
            return memory
        bits(strided_view(memory, tensor.layout))[...] = bits(tensor.elements)
        return memory

    def __repr__(self) -> str:
        dtype, shape, strides, byte_length = self.layout
        return (
            f"<Output dtype={dtype.name} shape={shape} strides={strides} byte_length={byte_length}>"
        )
