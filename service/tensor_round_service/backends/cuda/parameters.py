"""The scales and zero points of a call in a device's memory, as kernels read them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tensor_round.contract import host_memory
from tensor_round.contract.call import Call

from .. import Bytes
from ..cpu.granularity import Numbers, merged
from ..cpu.parameters import memory_of
from ..cpu.quantization import has_linear_text
from ..devices import DeviceBuffer
from .device import Allocate, DeviceParameters, Stream
from .kernels import CARRIER_BYTES

#: Scales up to this size are copied to a device: more of them take long beside their operands.
MAX_SCALE_BYTES = 4 << 20
#: Kernels count elements, and find their parameters, in 32 bits.
MAX_ELEMENTS = 1 << 32


def can_run(call: Call, given: Bytes) -> bool:
    """Whether there is a kernel for a call; ``given`` are the bytes behind its operands."""
    parameters = call.parameters
    if parameters is None:
        return True
    scale, point = parameters.scale, parameters.zero_point
    types = call.input.dtype, scale.dtype, call.output.dtype
    has_kernel = has_linear_text(call.function, *types)
    count = call.input.element_count
    if not (has_kernel and 0 < count < MAX_ELEMENTS and scale.byte_length <= MAX_SCALE_BYTES):
        return False
    if point is None or not point.dtype.is_float:
        return True
    # A zero point of +0 is none.
    _, points = memory_of(call, given)
    return not host_memory.bits(host_memory.elements(points, point)).any()


def upload(stream: Stream, allocate: Allocate, call: Call, given: Bytes) -> DeviceParameters | None:
    """Copy the parameters of a call that :func:`can_run` into new memory; None without any."""
    parameters = call.parameters
    if parameters is None:
        return None
    scale, point = parameters.scale, parameters.zero_point
    scales, points = memory_of(call, given)
    with np.errstate(invalid="ignore"):  # a signalling NaN
        numbers = host_memory.elements(scales, scale).astype(np.float32)
    integers = np.zeros(scale.element_count, np.int32)
    if point is not None and not point.dtype.is_float:
        integers[:] = host_memory.elements(points, point).reshape(-1)
    places = _places(call.input.shape, parameters.blocks) if integers.size > 1 else []
    parts: list[Numbers] = [
        numbers,
        integers,
        np.array(places, np.uint32),
    ]
    packed = [np.ascontiguousarray(part).reshape(-1).view(np.uint8) for part in parts]
    ends = np.cumsum([-(-part.size // CARRIER_BYTES) * CARRIER_BYTES for part in packed])
    memory = np.zeros(ends[-1], np.uint8)
    found = allocate(memory.size)
    buffers: list[DeviceBuffer] = []
    for part, start in zip(packed, [0, *map(int, ends)], strict=False):
        memory[start : start + part.size] = part
        buffers.append(found.part(start, start + part.size))
    stream.copy_in(memory, found)
    # The memory here must stay valid until it is copied.
    stream.wait()
    return DeviceParameters(scale.dtype, *buffers)


def _places(shape: Sequence[int], blocks: Sequence[int]) -> list[tuple[int, int, int]]:
    """Of each dimension, the innermost first: size, block, and the step from block to block."""
    found, step = [], 1
    for size, block in reversed(merged(shape, blocks)):
        found.append((size, block, step))
        step *= -(-size // block)
    return found
