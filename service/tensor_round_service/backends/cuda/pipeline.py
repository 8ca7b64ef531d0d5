"""Rounding of host tensors on one device, in pieces, with copies and kernels in parallel.

A slot has a stream, a buffer in device memory, and a page-locked staging buffer. While the piece of
one slot is copied to the device, the piece of another is rounded and that of a third is copied
back: the link works in both directions at once. A slot allocates its memory at start, so packed
tensors of any size need no further device memory.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import contextmanager, suppress
from functools import partial
from queue import SimpleQueue

import numpy as np

from tensor_round.contract.call import Call

from .. import Bytes
from ..cpu.backend import clear_spare_bits
from ..devices import DeviceBuffer, DeviceFailed, OutOfDeviceMemory
from .device import Device, Stream
from .kernels import CARRIER_BYTES

#: Slots of a device. Three would be enough if threads were never delayed.
SLOTS = 4
#: Maximum size of a piece: copying it takes much longer than launching the copy.
PIECE_BYTES = 16 << 20
#: Minimum size of a piece, except the only or last one.
MIN_PIECE_BYTES = 1 << 20
#: Maximum of bytes, or elements, of one launch: below 2^31 a kernel needs 32-bit indices only.
LAUNCH = 1 << 30
#: Maximum rank of a call.
MAX_RANK = 32
#: Size of the description of the dimensions; see :func:`dims`.
DIMS_BYTES = MAX_RANK * 3 * 8

#: Allocates device memory; raises :class:`~.device.OutOfDeviceMemory`.
Allocate = Callable[[int], DeviceBuffer]


class SourceCorrupted(DeviceFailed):
    """The device failed while it overwrote the source with the result; the source is lost."""


class PipelineSlot:
    """A stream with the buffers for one piece."""

    def __init__(self, device: Device) -> None:
        self.stream: Stream = device.stream()
        self._device = device
        self._scratch: DeviceBuffer = device.allocate(PIECE_BYTES)
        self._staging: Bytes = device.staging(PIECE_BYTES)

    def round(self, call: Call, source: Bytes, target: Bytes) -> None:
        """Round a run of whole elements, one piece at most, into ``target`` or in place."""
        scratch = self._scratch.part(0, source.size)
        staging = self._staging[: source.size]
        in_place = target.ctypes.data == source.ctypes.data
        with self.stream as stream, _drained(stream):
            if self._device.is_pinned(source):
                stream.copy_in(source, scratch)
            else:
                staging[:] = source
                stream.copy_in(staging, scratch)
            if call.input.dtype.is_float:
                stream.round(call.input.dtype, call.rounding, scratch, scratch)
            if not self._device.is_pinned(target):
                stream.copy_out(scratch, staging)
                stream.wait()
                target[:] = staging
            elif in_place:
                # Overwrite the source only after the kernel has succeeded.
                stream.wait()
                _copy_over(stream, scratch, target)
            else:
                stream.copy_out(scratch, target)
                stream.wait()

    def rearrange(self, call: Call, source: Bytes, target: Bytes) -> None:
        """Execute a call with strides, with the whole tensor in newly allocated device memory."""
        with self.queue() as stream:
            operand = self._device.allocate(source.size)
            result = self._device.allocate(target.size)
            stream.copy_in(source, operand)
            round_resident(stream, self._device.allocate, call, operand, result)
            stream.copy_out(result, target)

    @contextmanager
    def queue(self) -> Iterator[Stream]:
        """The stream; at the end all queued operations have ended, after an exception too."""
        with self.stream as stream, _drained(stream):
            yield stream
            stream.wait()


class Pipeline:
    """The slots of one device, and the threads that process the pieces of a tensor."""

    def __init__(self, device: Device) -> None:
        self.device = device
        self._slots: SimpleQueue[PipelineSlot] = SimpleQueue()
        for _ in range(SLOTS):
            self._slots.put(PipelineSlot(device))
        self._threads = ThreadPoolExecutor(SLOTS, "tensor-round-cuda")

    @contextmanager
    def slot(self) -> Iterator[PipelineSlot]:
        """Wait for a free slot, and use it exclusively."""
        slot = self._slots.get()
        try:
            yield slot
        finally:
            self._slots.put(slot)

    def round(self, call: Call, source: Bytes, target: Bytes) -> None:
        """Execute a call on host memory; see :meth:`.Backend.round`.

        Raises :class:`OutOfDeviceMemory`, :class:`DeviceFailed` and :class:`SourceCorrupted`.
        After the first two the source is unchanged, or partly rounded if it is the target.
        """
        if not (call.input.is_dense and call.input.lies_like(call.output.strides)):
            with self.slot() as slot:
                slot.rearrange(call, source, target)
            return
        length = call.input.element_bytes
        self._round_run(call, source[:length], target[:length])
        target[length:] = 0
        if call.output.has_spare_bits:
            clear_spare_bits(target, call.output)

    def _round_run(self, call: Call, source: Bytes, target: Bytes) -> None:
        work = partial(self._round_piece, call)
        pieces = [(source[part], target[part]) for part in cut(source.size)]
        if len(pieces) == 1:
            work(*pieces[0])
            return
        pending: list[Future[None]] = []
        try:
            for piece in pieces:
                pending.append(self._threads.submit(work, *piece))
        finally:
            # Return only when the device does not write into the caller's memory any more.
            wait(pending)
        failures = [failure for future in pending if (failure := future.exception())]
        # SourceCorrupted first: after it no fallback is possible.
        for failure in sorted(failures, key=lambda f: not isinstance(f, SourceCorrupted)):
            raise failure

    def _round_piece(self, call: Call, source: Bytes, target: Bytes) -> None:
        with self.slot() as slot:
            slot.round(call, source, target)

    def close(self) -> None:
        """Stop the threads and free the device's memory."""
        self._threads.shutdown()
        self._slots = SimpleQueue()
        with suppress(DeviceFailed):  # the device may be lost
            self.device.trim()


def cut(nbytes: int) -> list[slice]:
    """The pieces of a run: two for each slot, within the limits of their size."""
    share = -(-nbytes // (2 * SLOTS))
    # A multiple of the page size, so that no element is divided.
    step = -(-min(max(share, MIN_PIECE_BYTES), PIECE_BYTES) // 4096) * 4096
    return [slice(start, min(start + step, nbytes)) for start in range(0, nbytes, step)]


def _copy_over(stream: Stream, result: DeviceBuffer, source: Bytes) -> None:
    """Overwrite the source with the result."""
    try:
        stream.copy_out(result, source)
        stream.wait()
    except DeviceFailed as failure:
        raise SourceCorrupted("the device failed while it overwrote the source") from failure


@contextmanager
def _drained(stream: Stream) -> Iterator[None]:
    """After an exception, wait for the queued operations that use the caller's memory."""
    try:
        yield
    except BaseException:
        with suppress(DeviceFailed, OutOfDeviceMemory):
            stream.wait()
        raise


def round_resident(
    stream: Stream, allocate: Allocate, call: Call, source: DeviceBuffer, target: DeviceBuffer
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
    length = call.input.element_bytes
    if call.input.is_dense and call.input.lies_like(call.output.strides):
        _round_run(stream, call, source.part(0, length), target.part(0, length))
    else:
        stream.clear(target)
        _copy_strided(stream, allocate, call, source, target)
        # Gaps are zeros, and zero rounds to zero: round the whole run, gaps included.
        length = target.nbytes // call.input.dtype.itemsize * call.input.dtype.itemsize
        _round_run(stream, call, target.part(0, length), target.part(0, length))
    stream.clear(target.part(length, target.nbytes))
    if call.output.has_spare_bits:
        last, byte = target.part(length - 1, length), np.empty(1, np.uint8)
        stream.copy_out(last, byte)
        stream.wait()
        byte &= 0x0F
        stream.copy_in(byte, last)
        stream.wait()


def _round_run(stream: Stream, call: Call, source: DeviceBuffer, target: DeviceBuffer) -> None:
    dtype = call.input.dtype
    for start in range(0, source.nbytes, LAUNCH):
        piece = start, min(start + LAUNCH, source.nbytes)
        if dtype.is_float:
            stream.round(dtype, call.rounding, source.part(*piece), target.part(*piece))
        elif source.address != target.address:
            stream.copy(source.part(*piece), target.part(*piece))


def _copy_strided(
    stream: Stream, allocate: Allocate, call: Call, source: DeviceBuffer, target: DeviceBuffer
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


def dims(call: Call) -> Bytes:
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
