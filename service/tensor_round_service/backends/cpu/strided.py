"""Tensors with strides, and of types of less than a byte beside them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tensor_round.contract import host_memory
from tensor_round.contract.call import Call
from tensor_round.contract.layout import Layout

from .. import Bytes

#: Makes so many elements of the second run from those of the first, of which the first is number so
#: many of the tensor.
Run = Callable[[Bytes, Bytes, int, int], object]
#: Elements that are gathered, converted and put in their places at once.
BOX = 1 << 18


def copy_strided(call: Call, source: Bytes, target: Bytes) -> None:
    """Copy the elements from the input's layout to the output's, and zeros into the gaps."""
    output = call.output
    # A dense output has no gaps, but may have padding after its elements.
    covered = output.element_bytes if output.is_dense else 0
    target[covered:] = 0
    if call.input.dtype.is_sub_byte:  # packed on both sides
        target[:covered] = source[:covered]
    elif call.input.element_count:
        elements = host_memory.bits(host_memory.strided_view(source, call.input))
        np.copyto(host_memory.bits(host_memory.strided_view(target, output)), elements)


def run_strided(run: Run, call: Call, source: Bytes, target: Bytes) -> None:
    """Make the elements of the output's layout from the input's, and zeros in the gaps."""
    target[:] = 0
    count = call.input.element_count
    has_pairs = call.input.dtype.is_sub_byte or call.output.dtype.is_sub_byte
    start = 0
    for box in host_memory.boxes(call.input.shape, BOX) if count > BOX else [...]:
        size = _size(call.input.shape, box)
        # Elements of 4 bits that begin in the middle of a byte have the one before them along.
        before = start & 1 if has_pairs else 0
        operands = _gathered(source, call.input, box, start, size, before)
        results = np.empty(call.output.dtype.nbytes(before + size), np.uint8)
        run(operands, results, before + size, start - before)
        _put(results, target, call.output, box, start, before)
        start += size


def _size(shape: tuple[int, ...], box: Any) -> int:
    return int(np.broadcast_to(np.empty(()), shape)[box].size)


def _gathered(memory: Bytes, layout: Layout, box: Any, start: int, size: int, before: int) -> Bytes:
    dtype = layout.dtype
    if dtype.is_sub_byte:  # packed in C order, as the boxes are
        return memory[dtype.nbytes(start - before) : dtype.nbytes(start + size)]
    elements = host_memory.bits(host_memory.strided_view(memory, layout))[box]
    gathered = np.zeros(before + size, dtype.bits)
    gathered[before:].reshape(elements.shape)[...] = elements
    return gathered.view(np.uint8)


def _put(results: Bytes, memory: Bytes, layout: Layout, box: Any, start: int, before: int) -> None:
    dtype = layout.dtype
    if dtype.is_sub_byte:
        first = dtype.nbytes(start - before)
        if before:
            results[0] = results[0] & 0xF0 | memory[first] & 0x0F
        memory[first : first + results.size] = results
    else:
        elements = host_memory.bits(host_memory.strided_view(memory, layout))[box]
        elements[...] = results.view(dtype.bits)[before:].reshape(elements.shape)
