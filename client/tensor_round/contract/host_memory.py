"""NumPy arrays in host memory: results and where they may be written, layouts, runs, patterns."""

from __future__ import annotations

import math
import sys
from collections.abc import Iterator
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

from .errors import InvalidArgument
from .layout import Layout, are_distinct

Array = npt.NDArray[Any]


def is_masked(x: Any) -> bool:
    """Whether this is a masked array; ``numpy.ma``, which NumPy imports late, is not imported."""
    masked = sys.modules.get("numpy.ma")
    return masked is not None and isinstance(x, masked.MaskedArray)


def refuse_loss_of_mask(x: Any, out: Any) -> None:
    """Raise :class:`InvalidArgument` for an ``out`` that would lose the mask of ``x``."""
    if out is not x and (is_masked(x) or is_masked(out)):
        raise InvalidArgument("a masked array is rounded into itself or a fresh one: out must be x")


def refuse_loss_of_gradient(x: Any, name: str = "x") -> None:
    """Raise :class:`InvalidArgument` for a tensor whose graph the result would not continue."""
    if getattr(x, "requires_grad", False):
        rule = f"{name} requires a gradient, and rounding has none: pass {name}.detach()"
        raise InvalidArgument(rule)


def check_writable(out: Array) -> None:
    """Raise :class:`InvalidArgument` for a read-only array, or one whose elements overlap."""
    if not out.flags.writeable:
        raise InvalidArgument("out is read-only")
    # Its bytes, as one more dimension: strides of NumPy need not be multiples of an element.
    shape, strides = (*out.shape, out.itemsize), (*map(abs, out.strides), 1)
    if out.size and not are_distinct(shape, strides):
        raise InvalidArgument("out has elements that share memory with each other")


def elements(memory: npt.NDArray[np.uint8], layout: Layout) -> Array:
    """The elements of a layout in its bytes: a view, or a copy of those of 4 bits."""
    if not layout.dtype.is_sub_byte:
        return strided_view(memory, layout)
    copied = np.empty(layout.shape, layout.dtype.numpy)
    unpack(memory[: layout.element_bytes], copied)
    return copied


def strided_view(memory: npt.NDArray[np.uint8], layout: Layout) -> Array:
    """The elements of a layout, as a view of its bytes; trailing padding may be missing.

    A type of 4 bits has none: see :func:`elements`.
    """
    if layout.element_count == 0:
        return np.empty(layout.shape, layout.dtype.numpy)
    steps = [
        stride * layout.dtype.itemsize if size > 1 else 0
        for stride, size in zip(layout.strides, layout.shape, strict=True)
    ]
    return np.ndarray(layout.shape, layout.dtype.numpy, memory, strides=steps)


def pack(elements: Array) -> npt.NDArray[np.uint8]:
    """The bytes on the wire of elements of 4 bits, in C order; NumPy's have a byte each."""
    flat = np.ascontiguousarray(elements).reshape(-1).view(np.uint8)
    packed = flat[::2] & np.uint8(0x0F)
    packed[: flat.size // 2] |= flat[1::2] << np.uint8(4)
    return packed


def unpack(packed: npt.NDArray[np.uint8], out: Array) -> None:
    """Fill elements of 4 bits, in C order, from their bytes on the wire."""
    is_run = out.flags.c_contiguous
    flat = out.reshape(-1).view(np.uint8) if is_run else np.empty(out.size, np.uint8)
    np.bitwise_and(packed, 0x0F, out=flat[::2])
    np.right_shift(packed[: flat.size // 2], 4, out=flat[1::2])
    if not is_run:
        bits(out)[...] = flat.reshape(out.shape)


def bits(array: Array) -> npt.NDArray[np.unsignedinteger[Any]]:
    """The elements as patterns, a view in the same byte order."""
    return array.view(_unsigned(array.dtype))


def runs(array: Array, limit: int) -> Iterator[Array]:
    """The elements in C order, as views of at most ``limit``; equal shapes give equal cuts."""
    if array.size <= limit:
        yield array
    else:
        yield from (array[box] for box in boxes(array.shape, limit))


def patterns(array: Array, limit: int) -> Iterator[npt.NDArray[np.unsignedinteger[Any]]]:
    """The elements in C order, as runs of at most ``limit`` little-endian patterns."""
    for part in map(bits, runs(array, limit)):
        yield np.ascontiguousarray(part, part.dtype.newbyteorder("<")).reshape(-1)


def boxes(shape: tuple[int, ...], limit: int) -> Iterator[tuple[Any, ...]]:
    """Index boxes that cover a shape in C order, each of at most ``limit`` elements."""
    axis = len(shape) - 1
    inner = 1
    while inner * shape[axis] <= limit:
        inner *= shape[axis]
        axis -= 1
    pieces = math.ceil(shape[axis] / (limit // inner))
    rows = math.ceil(shape[axis] / pieces)
    for outer in np.ndindex(shape[:axis]):
        for start in range(0, shape[axis], rows):
            yield (*outer, slice(start, start + rows))


@lru_cache(maxsize=64)
def _unsigned(dtype: np.dtype[Any]) -> np.dtype[np.unsignedinteger[Any]]:
    return np.dtype(f"u{dtype.itemsize}").newbyteorder(dtype.byteorder)
