"""Host tensors through one device: cut in pieces, so that copies and kernels overlap.

A lane is a stream with device memory to round in and page-locked memory to copy by. While
one lane's piece comes in, another's is rounded and a third's goes out: the link to the
device carries data both ways at once. All memory of a lane is taken at start, so a packed
tensor of any size never meets a full device.
"""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import contextmanager, suppress
from functools import partial
from queue import SimpleQueue

from tensor_round.call import RoundCall

from .. import Bytes
from .device import Device, DeviceFailed, OutOfDeviceMemory, Span, Stream
from .resident import round_resident

#: Lanes of a device: three would do if none ever waited for its thread.
LANES = 4
#: Bytes of a piece, at most: a copy takes many times what it takes to ask for one.
PIECE_BYTES = 16 << 20
#: And at least, where there are more pieces than one: copies and kernels still overlap.
LEAST_PIECE_BYTES = 1 << 20


class SourceLost(DeviceFailed):
    """The device failed while it wrote a result over its source, which may be torn now."""


class Lane:
    """A stream, and what one piece at a time needs."""

    def __init__(self, device: Device) -> None:
        self.stream: Stream = device.stream()
        self._device = device
        self._scratch: Span = device.allocate(PIECE_BYTES)
        self._staging: Bytes = device.staging(PIECE_BYTES)

    def round(self, call: RoundCall, source: Bytes, target: Bytes) -> None:
        """Round a run of whole elements, at most a piece, into ``target`` or over itself."""
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
                # Once the kernel is known to have run there is little left to fail.
                stream.wait()
                _copy_over(stream, scratch, target)
            else:
                stream.copy_out(scratch, target)
                stream.wait()

    def rearrange(self, call: RoundCall, source: Bytes, target: Bytes) -> None:
        """A call with strides: all of it on the device at once, in memory of its own."""
        with self.stream as stream, _drained(stream):
            given = self._device.allocate(source.size)
            result = self._device.allocate(target.size)
            stream.copy_in(source, given)
            round_resident(stream, self._device.allocate, call, given, result)
            stream.copy_out(result, target)
            stream.wait()

    def copy_in(self, source: Bytes, target: Span) -> None:
        """Host to device, from any memory."""
        with self.stream as stream, _drained(stream):
            stream.copy_in(source, target)
            stream.wait()

    def copy_out(self, source: Span, target: Bytes) -> None:
        """Device to host, to any memory."""
        with self.stream as stream, _drained(stream):
            stream.copy_out(source, target)
            stream.wait()

    def resident(self, call: RoundCall, source: Span, target: Span) -> None:
        """A call on tensors in the device's memory."""
        with self.stream as stream, _drained(stream):
            round_resident(stream, self._device.allocate, call, source, target)
            stream.wait()


class Pipeline:
    """One device's lanes, and the threads that share a large tensor among them."""

    def __init__(self, device: Device) -> None:
        self.device = device
        self._lanes: SimpleQueue[Lane] = SimpleQueue()
        for _ in range(LANES):
            self._lanes.put(Lane(device))
        self._threads = ThreadPoolExecutor(LANES, "tensor-round-cuda")

    @contextmanager
    def lane(self) -> Iterator[Lane]:
        """A lane of one's own, once one is free."""
        lane = self._lanes.get()
        try:
            yield lane
        finally:
            self._lanes.put(lane)

    def round(self, call: RoundCall, source: Bytes, target: Bytes) -> None:
        """The call on host memory, of which :class:`~.Backend` says how it may lie.

        Raises :class:`OutOfDeviceMemory`, :class:`DeviceFailed` and :class:`SourceLost`;
        but for the last the source is as it was, or rounded in part where it is the target.
        """
        if not (call.input.is_dense and call.input.lies_like(call.output.strides)):
            with self.lane() as lane:
                lane.rearrange(call, source, target)
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
            # Nobody returns while the device still writes into the caller's memory.
            wait(pending)
        failures = [failure for future in pending if (failure := future.exception())]
        # A torn source weighs most: the others leave it whole.
        for failure in sorted(failures, key=lambda f: not isinstance(f, SourceLost)):
            raise failure

    def _round_piece(self, call: RoundCall, source: Bytes, target: Bytes) -> None:
        with self.lane() as lane:
            lane.round(call, source, target)

    def close(self) -> None:
        """Stop the threads and give the device's memory back."""
        self._threads.shutdown()
        self._lanes = SimpleQueue()
        with suppress(DeviceFailed):  # a device that is lost has nothing to give
            self.device.close()


def cut(nbytes: int) -> list[slice]:
    """The pieces of a run: two a lane for an even flow, unless they become too small or large."""
    share = -(-nbytes // (2 * LANES))
    # Elements and pages stay whole.
    step = -(-min(max(share, LEAST_PIECE_BYTES), PIECE_BYTES) // 4096) * 4096
    return [slice(start, min(start + step, nbytes)) for start in range(0, nbytes, step)]


def _copy_over(stream: Stream, result: Span, source: Bytes) -> None:
    """Copy a result over what it came from."""
    try:
        stream.copy_out(result, source)
        stream.wait()
    except DeviceFailed as failure:
        raise SourceLost("the device failed while it wrote over its source") from failure


@contextmanager
def _drained(stream: Stream) -> Iterator[None]:
    """See to it that no work is left in the queue when a piece fails half-way."""
    try:
        yield
    except BaseException:
        with suppress(DeviceFailed, OutOfDeviceMemory):
            stream.wait()
        raise
