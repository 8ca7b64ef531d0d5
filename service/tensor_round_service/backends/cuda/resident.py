"""Execution of a call on tensors in the device's memory."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from tensor_round.contract.call import RoundCall

from .. import Bytes
from .device import DeviceBuffer, Stream
from .kernels import CARRIER_BYTES

#: Maximum of bytes, or elements, of one launch: below 2^31 a kernel needs 32-bit indices only.
LAUNCH = 1 << 30
#: Maximum rank of a call.
MAX_RANK = 32
#: Size of the description of the dimensions; see :func:`dims`.
DIMS_BYTES = MAX_RANK * 3 * 8

#: Allocates device memory; raises :class:`~.device.OutOfDeviceMemory`.
Allocate = Callable[[int], DeviceBuffer]


def round_resident(
    stream: Stream, allocate: Allocate, call: RoundCall, source: DeviceBuffer, target: DeviceBuffer
) -> None:
    """Queue the rounding of ``source``, the input's bytes, into ``target``, the output's bytes.

    They are identical only if ``call.is_in_place``, and otherwise share no byte.
    """
    # Kernels need aligned memory: copy if it is not.
    if source.address % CARRIER_BYTES or target.address % CARRIER_BYTES:
        aligned = allocate(source.nbytes)
        stream.copy(source, aligned)
        result = aligned if call.is_in_place else allocate(target.nbytes)
        round_resident(stream, allocate, call, aligned, result)
        stream.copy(result, target)
        # The temporary memory must not be allocated again before its use has ended.
        stream.wait()
        return
    length = call.input.element_count * call.input.dtype.itemsize
    if call.input.is_dense and call.input.lies_like(call.output.strides):
        _round_run(stream, call, source.part(0, length), target.part(0, length))
    else:
        stream.clear(target)
        _copy_strided(stream, allocate, call, source, target)
        # Gaps are zeros, and zero rounds to zero: round the whole run, gaps included.
        length = target.nbytes // call.input.dtype.itemsize * call.input.dtype.itemsize
        _round_run(stream, call, target.part(0, length), target.part(0, length))
    stream.clear(target.part(length, target.nbytes))


def _round_run(stream: Stream, call: RoundCall, source: DeviceBuffer, target: DeviceBuffer) -> None:
    dtype = call.input.dtype
    for start in range(0, source.nbytes, LAUNCH):
        piece = start, min(start + LAUNCH, source.nbytes)
        if dtype.is_float:
            stream.round(dtype, call.rounding, source.part(*piece), target.part(*piece))
        elif source.address != target.address:
            stream.copy(source.part(*piece), target.part(*piece))


def _copy_strided(
    stream: Stream, allocate: Allocate, call: RoundCall, source: DeviceBuffer, target: DeviceBuffer
) -> None:
    """Copy the elements from the input's layout to the output's."""
    count = call.input.element_count
    if not count:
        return
    triples = dims(call)
    described = allocate(DIMS_BYTES).part(0, triples.size)
    stream.copy_in(triples, described)
    for first in range(0, count, LAUNCH):
        stream.copy_strided(
            call.input.dtype.itemsize,
            source,
            target,
            described,
            first,
            min(LAUNCH, count - first),
        )
    # Both copies of the description must stay valid until the device has read them.
    stream.wait()


def dims(call: RoundCall) -> Bytes:
    """Size, input stride and output stride of each dimension, the innermost one first, as int64.

    Dimensions of size 1 are left out, and contiguous dimensions are merged.
    """
    triples = [
        triple
        for triple in zip(call.input.shape, call.input.strides, call.output.strides, strict=True)
        if triple[0] != 1
    ]
    merged: list[tuple[int, int, int]] = []
    # In the order of the output's strides: neighbouring threads write to neighbouring addresses.
    for size, source, target in sorted(triples, key=lambda triple: triple[2]):
        if merged:
            inner, inner_source, inner_target = merged[-1]
            if (source, target) == (inner * inner_source, inner * inner_target):
                merged[-1] = (inner * size, inner_source, inner_target)
                continue
        merged.append((size, source, target))
    return np.array(merged or [(1, 0, 0)], "<i8").reshape(-1).view(np.uint8)
