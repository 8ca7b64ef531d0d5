"""Rounding of host tensors on one device, in pieces, with copies and kernels in parallel.

A slot has a stream, a buffer in device memory, and a page-locked staging buffer. While the piece of
one slot is copied to the device, the piece of another is rounded and that of a third is copied
back: the link works in both directions at once. A slot allocates its memory at start, so packed
tensors of any size need no further device memory.
"""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import contextmanager, suppress
from functools import partial
from queue import SimpleQueue

from tensor_round.contract.call import RoundCall

from .. import Bytes
from .device import Device, DeviceBuffer, DeviceFailed, OutOfDeviceMemory, Stream
from .resident import round_resident

#: Slots of a device. Three would be enough if threads were never delayed.
SLOTS = 4
#: Maximum size of a piece: copying it takes much longer than launching the copy.
PIECE_BYTES = 16 << 20
#: Minimum size of a piece, except the only or last one.
MIN_PIECE_BYTES = 1 << 20


class SourceCorrupted(DeviceFailed):
    """The device failed while it overwrote the source with the result; the source is lost."""


class PipelineSlot:
    """A stream with the buffers for one piece."""

    def __init__(self, device: Device) -> None:
        self.stream: Stream = device.stream()
        self._device = device
        self._scratch: DeviceBuffer = device.allocate(PIECE_BYTES)
        self._staging: Bytes = device.staging(PIECE_BYTES)

    def round(self, call: RoundCall, source: Bytes, target: Bytes) -> None:
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

    def rearrange(self, call: RoundCall, source: Bytes, target: Bytes) -> None:
        """Execute a call with strides, with the whole tensor in newly allocated device memory."""
        with self.stream as stream, _drained(stream):
            operand = self._device.allocate(source.size)
            result = self._device.allocate(target.size)
            stream.copy_in(source, operand)
            round_resident(stream, self._device.allocate, call, operand, result)
            stream.copy_out(result, target)
            stream.wait()

    def copy_in(self, source: Bytes, target: DeviceBuffer) -> None:
        """Copy from host memory, page-locked or not, to the device."""
        with self.stream as stream, _drained(stream):
            stream.copy_in(source, target)
            stream.wait()

    def copy_out(self, source: DeviceBuffer, target: Bytes) -> None:
        """Copy from the device to host memory, page-locked or not."""
        with self.stream as stream, _drained(stream):
            stream.copy_out(source, target)
            stream.wait()

    def resident(self, call: RoundCall, source: DeviceBuffer, target: DeviceBuffer) -> None:
        """Execute a call on tensors in the device's memory."""
        with self.stream as stream, _drained(stream):
            round_resident(stream, self._device.allocate, call, source, target)
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

    def round(self, call: RoundCall, source: Bytes, target: Bytes) -> None:
        """Execute a call on host memory; see :meth:`.Backend.round`.

        Raises :class:`OutOfDeviceMemory`, :class:`DeviceFailed` and :class:`SourceCorrupted`.
        After the first two the source is unchanged, or partly rounded if it is the target.
        """
        if not (call.input.is_dense and call.input.lies_like(call.output.strides)):
            with self.slot() as slot:
                slot.rearrange(call, source, target)
            return
        length = call.input.element_count * call.input.dtype.itemsize
        self._round_run(call, source[:length], target[:length])
        target[length:] = 0

    def _round_run(self, call: RoundCall, source: Bytes, target: Bytes) -> None:
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

    def _round_piece(self, call: RoundCall, source: Bytes, target: Bytes) -> None:
        with self.slot() as slot:
            slot.round(call, source, target)

    def close(self) -> None:
        """Stop the threads and free the device's memory."""
        self._threads.shutdown()
        self._slots = SimpleQueue()
        with suppress(DeviceFailed):  # the device may be lost
            self.device.close()


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
