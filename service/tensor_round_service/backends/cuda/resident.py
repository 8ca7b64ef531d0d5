"""A call on tensors that are in the device's memory already, at its memory's speed."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from tensor_round.call import RoundCall

from .. import Bytes
from .device import Span, Stream
from .kernels import CARRIER_BYTES

#: The most bytes, or elements, of one launch: below 2^31 a kernel needs no second variant.
LAUNCH = 1 << 30
#: Dimensions that a call may have.
MAX_RANK = 32
#: Bytes that describe them to the device.
DIMS_BYTES = MAX_RANK * 3 * 8

#: Memory on the device; raises :class:`~.cuda_device.OutOfDeviceMemory`.
Allocate = Callable[[int], Span]


def round_resident(
    stream: Stream, allocate: Allocate, call: RoundCall, source: Span, target: Span
) -> None:
    """Round ``source`` into ``target``; it has happened once the stream is waited for.

    They are the input's and the output's bytes. They are the same only where
    ``call.is_in_place``, and otherwise share nothing.
    """
    # Off their borders threads could not load elements; such memory is moved to a border.
    if source.address % CARRIER_BYTES or target.address % CARRIER_BYTES:
        aligned = allocate(source.nbytes)
        stream.copy(source, aligned)
        result = aligned if call.is_in_place else allocate(target.nbytes)
        round_resident(stream, allocate, call, aligned, result)
        stream.copy(result, target)
        # Whoever allocates next must not find this memory while it is still worked on.
        stream.wait()
        return
    length = call.input.element_count * call.input.dtype.itemsize
    if call.input.is_dense and call.input.lies_like(call.output.strides):
        _round_run(stream, call, source.part(0, length), target.part(0, length))
    else:
        stream.clear(target)
        _spread(stream, allocate, call, source, target)
        # Gaps are zeros, and zeros round to zeros: the whole run is rounded flat.
        length = target.nbytes // call.input.dtype.itemsize * call.input.dtype.itemsize
        _round_run(stream, call, target.part(0, length), target.part(0, length))
    stream.clear(target.part(length, target.nbytes))


def _round_run(stream: Stream, call: RoundCall, source: Span, target: Span) -> None:
    dtype = call.input.dtype
    for start in range(0, source.nbytes, LAUNCH):
        piece = start, min(start + LAUNCH, source.nbytes)
        if dtype.is_float:
            stream.round(dtype, call.rounding, source.part(*piece), target.part(*piece))
        elif source.address != target.address:
            stream.copy(source.part(*piece), target.part(*piece))


def _spread(
    stream: Stream, allocate: Allocate, call: RoundCall, source: Span, target: Span
) -> None:
    """Copy the elements from where the input has them to where the output does."""
    count = call.input.element_count
    if not count:
        return
    triples = dims(call)
    described = allocate(DIMS_BYTES).part(0, triples.size)
    stream.copy_in(triples, described)
    for first in range(0, count, LAUNCH):
        stream.spread(
            call.input.dtype.itemsize,
            source,
            target,
            described,
            first,
            min(LAUNCH, count - first),
        )
    # Both descriptions, here and there, must stay until they were read.
    stream.wait()


def dims(call: RoundCall) -> Bytes:
    """Size, input stride and output stride of each dimension, the innermost first, as int64.

    Those that move nothing are left out, and neighbours that one stride serves are one.
    """
    triples = [
        triple
        for triple in zip(call.input.shape, call.input.strides, call.output.strides, strict=True)
        if triple[0] != 1
    ]
    folded: list[tuple[int, int, int]] = []
    # By the output's strides: threads side by side then write side by side.
    for size, given, result in sorted(triples, key=lambda triple: triple[2]):
        if folded:
            inner, inner_given, inner_result = folded[-1]
            if (given, result) == (inner * inner_given, inner * inner_result):
                folded[-1] = (inner * size, inner_given, inner_result)
                continue
        folded.append((size, given, result))
    return np.array(folded or [(1, 0, 0)], "<i8").reshape(-1).view(np.uint8)
