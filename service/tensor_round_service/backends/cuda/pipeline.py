"""Functions of host tensors on one device, in pieces, with copies and kernels in parallel.

A slot has a stream, a buffer in device memory, and a page-locked staging buffer. While the piece of
one slot is copied to the device, that of another is computed and that of a third is copied back:
the link works in both directions at once. A slot allocates its memory at start, so packed tensors
of any size need no further device memory, but for scales and zero points.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from queue import SimpleQueue
from threading import Event

import numpy as np

from tensor_round.contract.call import Call
from tensor_round.contract.functions import RoundToIntegral
from tensor_round.contract.layout import packed_strides

from .. import Bytes
from ..cpu.backend import clear_spare_bits
from ..devices import DeviceBuffer, DeviceFailed, OutOfDeviceMemory
from .device import Allocate, Device, DeviceParameters, Stream
from .kernels import CARRIER_BYTES
from .parameters import upload

#: Slots of a device. Three would be enough if threads were never delayed.
SLOTS = 4
#: Maximum size of a piece: copying it takes much longer than launching the copy.
PIECE_BYTES = 16 << 20
#: Minimum size of a piece, except the only or last one.
MIN_PIECE_BYTES = 1 << 20
#: Pieces begin at multiples of so many elements, or bytes.
PAGE = 4096
#: Maximum of bytes, or elements, of one launch: below 2^31 a kernel needs 32-bit indices only.
LAUNCH = 1 << 30
#: Maximum rank of a call.
MAX_RANK = 32
#: Size of the description of the dimensions; see :func:`dims`.
DIMS_BYTES = MAX_RANK * 3 * 8


class SourceCorrupted(DeviceFailed):
    """The device failed while it overwrote the source with the result; the source is lost."""


class Turns:
    """The order of pieces whose results overwrite operands.

    No piece is written before those before it are read: narrower results lie on their operands.
    """

    def __init__(self, count: int) -> None:
        self._read = [Event() for _ in range(count)]
        self._failed = False
        #: Whether operands may be lost.
        self.has_written = False

    def read(self, number: int) -> None:
        """A piece was read."""
        self._read[number].set()

    def fail(self) -> None:
        """A piece has failed: no further one may write."""
        self._failed = True
        for event in self._read:
            event.set()

    def write(self, number: int) -> None:
        """Wait until a piece may be written; raises :class:`DeviceFailed` if another has failed."""
        for event in self._read[:number]:
            event.wait()
        if self._failed:
            raise DeviceFailed("another piece of the tensor failed")
        self.has_written = True


@dataclass(frozen=True, slots=True)
class Piece:
    """Some elements of a run; ``turns`` are None if operands stay, or may be computed again.

    ``first`` is the number of its first element.
    """

    number: int
    first: int
    count: int
    source: Bytes
    target: Bytes
    turns: Turns | None


class PipelineSlot:
    """A stream with the buffers for one piece."""

    def __init__(self, device: Device) -> None:
        self.stream: Stream = device.stream()
        self._device = device
        self._scratch: DeviceBuffer = device.allocate(PIECE_BYTES)
        self._staging: Bytes = device.staging(PIECE_BYTES)

    def run(self, call: Call, piece: Piece, parameters: DeviceParameters | None) -> None:
        """Apply a call's function to a piece, into its target or in place."""
        source, target, turns = piece.source, piece.target, piece.turns
        operand = result = self._scratch.part(0, source.size)
        if not call.keeps_width:
            start = -(-source.size // CARRIER_BYTES) * CARRIER_BYTES
            result = self._scratch.part(start, start + target.size)
        in_place = target.ctypes.data == source.ctypes.data
        with self.stream as stream, _drained(stream):
            if self._device.is_pinned(source):
                stream.copy_in(source, operand)
            else:
                staged = self._staging[: source.size]
                staged[:] = source
                stream.copy_in(staged, operand)
            if not call.is_copy:
                dtypes = call.input.dtype, call.output.dtype
                run = call.function, *dtypes, operand, result, piece.count
                stream.run(*run, parameters, piece.first)
            if turns:
                stream.wait()
                turns.read(piece.number)
                turns.write(piece.number)
            if not self._device.is_pinned(target):
                staged = self._staging[: target.size]
                stream.copy_out(result, staged)
                stream.wait()
                target[:] = staged
            elif in_place:
                # Overwrite the source only after the kernel has succeeded.
                stream.wait()
                _copy_over(stream, result, target)
            else:
                stream.copy_out(result, target)
                stream.wait()

    def rearrange(
        self, call: Call, source: Bytes, target: Bytes, parameters: DeviceParameters | None
    ) -> None:
        """Execute a call with strides, with the whole tensor in newly allocated device memory."""
        operands = source[: call.input.byte_length]
        with self.queue() as stream:
            operand = self._device.allocate(operands.size)
            result = self._device.allocate(target.size)
            stream.copy_in(operands, operand)
            round_resident(stream, self._device.allocate, call, operand, result, parameters)
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
        parameters = None
        if call.parameters is not None:
            with self.slot() as slot, slot.queue() as stream:
                given = source[call.input.byte_length :]
                parameters = upload(stream, self.device.allocate, call, given)
        if not call.is_run:
            with self.slot() as slot:
                slot.rearrange(call, source, target, parameters)
            return
        self._run_pieces(call, source, target, parameters)
        target[call.output.element_bytes :] = 0
        if call.output.has_spare_bits:
            clear_spare_bits(target, call.output)

    def _run_pieces(
        self, call: Call, source: Bytes, target: Bytes, parameters: DeviceParameters | None
    ) -> None:
        dtype, into = call.input.dtype, call.output.dtype
        widths = dtype.width if call.keeps_width else dtype.width + into.width
        parts = cut(call.input.element_count, widths)
        # What is rounded already is not changed by rounding it again.
        is_lost = target.ctypes.data == source.ctypes.data and not isinstance(
            call.function, RoundToIntegral
        )
        turns = Turns(len(parts)) if is_lost and len(parts) > 1 else None
        pieces = [
            Piece(
                number,
                part.start,
                part.stop - part.start,
                source[dtype.nbytes(part.start) : dtype.nbytes(part.stop)],
                target[into.nbytes(part.start) : into.nbytes(part.stop)],
                turns,
            )
            for number, part in enumerate(parts)
        ]
        if len(pieces) == 1:
            self._run_piece(call, pieces[0], parameters)
            return
        pending: list[Future[None]] = []
        try:
            for piece in pieces:
                pending.append(self._threads.submit(self._run_piece, call, piece, parameters))
        finally:
            # Return only when the device does not write into the caller's memory any more.
            wait(pending)
        failures = [failure for future in pending if (failure := future.exception())]
        # SourceCorrupted first: after it no fallback is possible.
        for failure in sorted(failures, key=lambda f: not isinstance(f, SourceCorrupted)):
            if turns and turns.has_written:
                raise SourceCorrupted("some operands are overwritten already") from failure
            raise failure

    def _run_piece(self, call: Call, piece: Piece, parameters: DeviceParameters | None) -> None:
        try:
            with self.slot() as slot:
                slot.run(call, piece, parameters)
        except BaseException:
            if piece.turns:
                piece.turns.fail()
            raise

    def close(self) -> None:
        """Stop the threads and free the device's memory."""
        self._threads.shutdown()
        self._slots = SimpleQueue()
        with suppress(DeviceFailed):  # the device may be lost
            self.device.trim()


def cut(count: int, bits: int = 8) -> list[slice]:
    """The pieces of so many elements, each of ``bits`` bits, by default of as many bytes.

    There are two for each slot, within the limits of their size.
    """
    share = -(-count * bits // (2 * SLOTS * 8))
    least = -(-max(share, MIN_PIECE_BYTES) * 8 // bits)
    step = min(-(-least // PAGE), PIECE_BYTES * 8 // bits // PAGE) * PAGE
    return [slice(start, min(start + step, count)) for start in range(0, count, step)]


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
    stream: Stream,
    allocate: Allocate,
    call: Call,
    source: DeviceBuffer,
    target: DeviceBuffer,
    parameters: DeviceParameters | None = None,
) -> None:
    """Queue a call on ``source``, the input's bytes, into ``target``, the output's bytes.

    They begin at one address only if ``call.is_in_place``, and otherwise share no byte.
    """
    # Kernels need aligned memory: copy if it is not.
    if source.address % CARRIER_BYTES or target.address % CARRIER_BYTES:
        aligned = allocate(source.nbytes)
        stream.copy(source, aligned)
        is_one = call.is_in_place and call.keeps_width
        result = aligned if is_one else allocate(target.nbytes)
        round_resident(stream, allocate, call, aligned, result, parameters)
        stream.copy(result, target)
        # The temporary memory must not be allocated again before its use has ended.
        stream.wait()
        return
    input, output, count = call.input, call.output, call.input.element_count
    if call.is_run:
        _run(stream, allocate, call, source, target, count, parameters)
        stream.clear(target.part(output.element_bytes, target.nbytes))
        if output.has_spare_bits:
            _clear_spare_bits(stream, target.part(output.element_bytes - 1, output.element_bytes))
    elif isinstance(call.function, RoundToIntegral):
        stream.clear(target)
        copied = dims(input.shape, input.strides, output.strides)
        _copy_strided(stream, allocate, input.dtype.itemsize, copied, source, target)
        # Gaps are zeros, and zero rounds to zero: round the whole run, gaps included.
        whole = target.nbytes * 8 // output.dtype.width
        _run(stream, allocate, call, target, target, whole)
        stream.clear(target.part(output.dtype.nbytes(whole), target.nbytes))
    else:
        _convert_strided(stream, allocate, call, source, target, parameters)


def _clear_spare_bits(stream: Stream, last: DeviceBuffer) -> None:
    """Clear the upper half of the last byte, which has one element of 4 bits."""
    byte = np.empty(1, np.uint8)
    stream.copy_out(last, byte)
    stream.wait()
    byte &= 0x0F
    stream.copy_in(byte, last)
    stream.wait()


def _convert_strided(
    stream: Stream,
    allocate: Allocate,
    call: Call,
    source: DeviceBuffer,
    target: DeviceBuffer,
    parameters: DeviceParameters | None,
) -> None:
    """Convert between packed elements, where one layout or both are not packed."""
    input, output, count = call.input, call.output, call.input.element_count
    packed = packed_strides(input.shape)
    operand, result = source, target
    if not input.is_packed:
        operand = allocate(input.dtype.nbytes(count))
        gathered = dims(input.shape, input.strides, packed)
        _copy_strided(stream, allocate, input.dtype.itemsize, gathered, source, operand)
    if not output.is_packed:
        result = allocate(output.dtype.nbytes(count))
    stream.clear(target)
    _run(stream, allocate, call, operand, result, count, parameters)
    if not output.is_packed:
        spread = dims(output.shape, packed, output.strides)
        _copy_strided(stream, allocate, output.dtype.itemsize, spread, result, target)
    stream.wait()


def _run(
    stream: Stream,
    allocate: Allocate,
    call: Call,
    source: DeviceBuffer,
    target: DeviceBuffer,
    count: int,
    parameters: DeviceParameters | None = None,
) -> None:
    """Apply the function to a run of elements."""
    dtype, into = call.input.dtype, call.output.dtype
    step = LAUNCH * 8 // max(dtype.width, into.width)
    result: DeviceBuffer | None = None
    if source.address == target.address and not call.keeps_width:
        # A result would overwrite the operands of other threads.
        result = allocate(into.nbytes(min(step, count)))
    for start in range(0, count, step):
        stop = min(start + step, count)
        operands = source.part(dtype.nbytes(start), dtype.nbytes(stop))
        results = target.part(into.nbytes(start), into.nbytes(stop))
        if call.is_copy:
            if source.address != target.address:
                stream.copy(operands, results)
            continue
        made = results if result is None else result.part(0, results.nbytes)
        stream.run(call.function, dtype, into, operands, made, stop - start, parameters, start)
        if result:
            stream.copy(made, results)
    if result:
        stream.wait()


def _copy_strided(
    stream: Stream,
    allocate: Allocate,
    itemsize: int,
    triples: Bytes,
    source: DeviceBuffer,
    target: DeviceBuffer,
) -> None:
    """Copy elements between layouts that :func:`dims` describes."""
    count = int(np.prod(triples.view("<i8")[::3]))
    if not count:
        return
    described = allocate(DIMS_BYTES).part(0, triples.size)
    stream.copy_in(triples, described)
    for first in range(0, count, LAUNCH):
        launched = min(LAUNCH, count - first)
        stream.copy_strided(itemsize, source, target, described, first, launched)
    # Both copies of the description must stay valid until the device has read them.
    stream.wait()


def dims(shape: Sequence[int], source: Sequence[int], target: Sequence[int]) -> Bytes:
    """Size, input stride and output stride of each dimension, the innermost one first, as int64.

    Dimensions of size 1 are left out, and contiguous dimensions are merged.
    """
    triples = [triple for triple in zip(shape, source, target, strict=True) if triple[0] != 1]
    merged: list[tuple[int, int, int]] = []
    # In the order of the output's strides: neighbouring threads write to neighbouring addresses.
    for size, step, into in sorted(triples, key=lambda triple: triple[2]):
        if merged:
            inner, inner_step, inner_into = merged[-1]
            if (step, into) == (inner * inner_step, inner * inner_into):
                merged[-1] = (inner * size, inner_step, inner_into)
                continue
        merged.append((size, step, into))
    return np.array(merged or [(1, 0, 0)], "<i8").reshape(-1).view(np.uint8)
