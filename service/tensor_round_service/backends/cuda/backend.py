"""The CuPy backend: CUDA devices in turn, NumPy for small tensors and as a fallback."""

from __future__ import annotations

import itertools
import logging
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType

import numpy as np

from tensor_round.contract.call import Call
from tensor_round.contract.dtypes import ROUNDABLE, DType
from tensor_round.contract.errors import DeviceOutOfMemory
from tensor_round.contract.rounding import Rounding

from .. import DEVICE_EVENTS, Bytes, Round
from ..cpu.backend import NumpyBackend
from ..devices import DeviceBuffer, DeviceFailed, OutOfDeviceMemory
from ..proof import DeviceRound, prove
from .device import Device, Stream
from .memory import PinnedMemory
from .parameters import can_run, upload
from .pipeline import Pipeline, SourceCorrupted, round_resident

logger = logging.getLogger(__name__)

#: The measured sizes in bytes. The device always gets tensors of the last size and more, so that
#: the cores stay free for sockets.
SIZES = tuple(1 << power for power in range(14, 25))
#: Repetitions, of which the fastest counts.
TRIES = 5


@dataclass(frozen=True, slots=True)
class OffloadPolicy:
    """The choice of the tensors that NumPy rounds instead of the devices.

    ``min_bytes``: the smallest tensor for a device, by dtype, 0 for a missing dtype.
    ``falls_back``: whether NumPy rounds a tensor for which the device has no memory.
    """

    min_bytes: Mapping[DType, int] = field(default_factory=lambda: MappingProxyType({}))
    falls_back: bool = True


class CupyBackend:
    """Rounds on CUDA devices; see :class:`~tensor_round_service.backends.Backend`.

    The constructor raises :class:`OutOfDeviceMemory` or :class:`DeviceFailed` if a device
    cannot be used, and :class:`~..proof.WrongBits` if its results differ from NumPy's.
    """

    name = "cupy"

    def __init__(self, devices: Sequence[Device], host: NumpyBackend) -> None:
        self._host = host
        self._turns = itertools.count()
        self._memory = PinnedMemory(devices[0])
        self._lost = False
        #: See :class:`~tensor_round_service.backends.Backend`.
        self.device_events: Counter[tuple[str, str]] = Counter()
        self._counting = threading.Lock()
        self._pipelines: list[Pipeline] = []
        self.policy = OffloadPolicy()
        try:
            for device in devices:
                self._pipelines.append(Pipeline(device))
                self.device_events.update({(device.name, event): 0 for event in DEVICE_EVENTS})
                # This compiles kernels, so that few requests wait for a compiler.
                prove(self._pipelines[-1].round, host.round)
        except Exception:  # the caller may continue without devices
            self._release()
            raise

    def __str__(self) -> str:
        names = ", ".join(self.devices)
        sizes = ", ".join(
            f"{dtype.name} {nbytes}"
            for dtype, nbytes in self.policy.min_bytes.items()
            if dtype.is_float
        )
        return f"{self.name} on {names}" + (f", minimum bytes: {sizes}" if sizes else "")

    @property
    def devices(self) -> list[str]:
        """The GPUs, with their numbers."""
        return [pipeline.device.name for pipeline in self._pipelines]

    @property
    def is_healthy(self) -> bool:
        """False after a device was lost; only a new process can use it again."""
        return not self._lost

    @property
    def inline_bytes(self) -> int:
        """NumPy rounds tensors up to this size, so they never wait for a device."""
        return min(self.policy.min_bytes.get(d, 0) for d in ROUNDABLE if d.is_float) - 1

    def allocate(self, nbytes: int) -> Bytes:
        """Uninitialized memory; a large buffer is page-locked in the background."""
        return self._memory.allocate(nbytes)

    def wait_until_pinned(self) -> None:
        """Wait until all memory allocated so far is page-locked or cannot be."""
        self._memory.wait_until_pinned()

    def round(self, call: Call, source: Bytes, target: Bytes) -> str:
        """Round ``source`` into ``target`` on a device, or with NumPy by :attr:`policy`.

        Raises :class:`DeviceOutOfMemory` if the policy has no fallback, and
        :class:`~.pipeline.SourceCorrupted` if no fallback is possible.
        """
        if self._is_for_host(call, source):
            return self._host.round(call, source, target)
        pipeline = self._next_pipeline()
        try:
            self._run(lambda pipeline: pipeline.round(call, source, target), pipeline)
        except OutOfDeviceMemory as error:
            if not self.policy.falls_back:
                raise DeviceOutOfMemory("the device is out of memory", retry_after=1) from error
            logger.warning("the device is out of memory; NumPy rounds the tensor")
        except SourceCorrupted:
            raise
        except DeviceFailed:
            # In place, some operands may be rounded already: rounding again does not change them.
            logger.warning("the device failed; NumPy rounds the tensor", exc_info=True)
        else:
            return self.name
        self._count(pipeline, "fallback")
        return self._host.round(call, source, target)

    def round_on_device(self, call: Call, source: Bytes, target: Bytes) -> str:
        """:meth:`round` on a device if that has a kernel, without regard to the policy."""
        if not can_run(call, source[call.input.byte_length :]):
            return self._host.round(call, source, target)
        self._run(lambda pipeline: pipeline.round(call, source, target), self._next_pipeline())
        return self.name

    def device_memory_info(self) -> dict[str, tuple[int, int]]:
        """Used and total bytes of each device's memory; none of a lost device."""
        if self._lost:
            return {}
        devices = [pipeline.device for pipeline in self._pipelines]
        return {device.name: device.memory_info() for device in devices}

    @property
    def device_memory(self) -> CupyBackend | None:
        """This backend; None after a device was lost."""
        return None if self._lost else self

    def import_memory(self, device: int, handle: bytes) -> DeviceBuffer:
        """Map the whole allocation of another process that an IPC handle refers to.

        It stays mapped as long as the buffer's owner is referenced. Raises :class:`LookupError` for
        a device that this backend does not use, and :class:`DeviceFailed`, as the next methods do.
        """
        return self._pipeline(device).device.import_memory(handle)

    def can_run_resident(self, call: Call, given: Bytes) -> bool:
        """See :class:`~..devices.DeviceMemory`."""
        return can_run(call, given)

    def round_resident(
        self,
        device: int,
        call: Call,
        source: DeviceBuffer,
        target: DeviceBuffer,
        given: Bytes,
    ) -> str:
        """:meth:`round` within a device's memory, with parameters from the host's."""
        allocate = self._pipeline(device).device.allocate

        def work(stream: Stream) -> None:
            parameters = upload(stream, allocate, call, given)
            round_resident(stream, allocate, call, source, target, parameters)
            if parameters is not None:
                stream.wait()  # their memory must not be allocated again before

        self._on_stream(device, work)
        return self.name

    def download(self, device: int, source: DeviceBuffer, target: Bytes) -> None:
        """Copy from a device to host memory, page-locked or not."""
        self._on_stream(device, lambda stream: stream.copy_out(source, target))

    def upload(self, device: int, source: Bytes, target: DeviceBuffer) -> None:
        """Copy to a device from host memory, page-locked or not."""
        self._on_stream(device, lambda stream: stream.copy_in(source, target))

    def arithmetics(self) -> Mapping[str, Round]:
        """The arithmetics that may be used, by their names in ``Execution-Backend``."""
        on_host = self._host.arithmetics()
        return on_host if self._lost else {self.name: self.round_on_device, **on_host}

    def measure_min_bytes(self) -> dict[DType, int]:
        """Measure the ``min_bytes`` of :class:`OffloadPolicy` for this machine."""
        memory = self.allocate(SIZES[-1])
        self.wait_until_pinned()
        return _min_bytes(self.round_on_device, self._host.round, memory)

    def close(self) -> None:
        """Stop the threads and release the devices."""
        self._release()
        self._host.close()

    def _release(self) -> None:
        self._memory.close()
        for pipeline in self._pipelines:
            pipeline.close()

    def _is_for_host(self, call: Call, payload: Bytes) -> bool:
        # The host copies faster, as integers are that are rounded.
        if self._lost or call.is_copy:
            return True
        nbytes = max(call.input.byte_length, call.output.byte_length)
        least = self.policy.min_bytes
        if nbytes < least.get(call.input.dtype, max(least.values(), default=0)):
            return True
        return not can_run(call, payload[call.input.byte_length :])

    def _next_pipeline(self) -> Pipeline:
        return self._pipelines[next(self._turns) % len(self._pipelines)]

    def _count(self, pipeline: Pipeline, event: str) -> None:
        with self._counting:
            self.device_events[pipeline.device.name, event] += 1

    def _pipeline(self, device: int) -> Pipeline:
        """The pipeline of a device; raises :class:`LookupError`."""
        for pipeline in self._pipelines:
            if pipeline.device.number == device:
                return pipeline
        raise LookupError(f"this service does not use device {device}")

    def _on_stream(self, device: int, work: Callable[[Stream], None]) -> None:
        def run(pipeline: Pipeline) -> None:
            with pipeline.slot() as slot, slot.queue() as stream:
                work(stream)

        self._run(run, self._pipeline(device))

    def _run(self, work: Callable[[Pipeline], None], pipeline: Pipeline) -> None:
        """Run ``work``; if the device is out of memory, free its cache and retry once."""
        try:
            try:
                work(pipeline)
            except OutOfDeviceMemory:
                self._count(pipeline, "out_of_memory")
                pipeline.device.trim()
                work(pipeline)
        except DeviceFailed:
            self._count(pipeline, "failed")
            is_lost = not self._lost and not _is_alive(pipeline.round)
            with self._counting:  # requests fail together, and a device is lost once
                self.device_events[pipeline.device.name, "lost"] += is_lost and not self._lost
                self._lost = self._lost or is_lost
            if self._lost:
                logger.critical("device lost: %s; a new process is needed", pipeline.device.name)
            raise


def _is_alive(device_round: DeviceRound) -> bool:
    """Whether the device can still round a few values."""
    source = np.array([0.5, 1.5, -0.25, 7.0], np.float32)
    call = Call.packed(Rounding.TIES_TO_EVEN, "float32", source.shape)
    result = np.empty_like(source)
    try:
        device_round(call, source.view(np.uint8), result.view(np.uint8))
    except (DeviceFailed, OutOfDeviceMemory):
        return False
    return np.array_equal(result, np.rint(source))


def _min_bytes(device_round: Round, host_round: Round, memory: Bytes) -> dict[DType, int]:
    """For each float dtype, the smallest size from which on the device is faster than the host.

    ``memory`` is used for the measurement; its size is the largest of :data:`SIZES`.
    """
    memory[:] = 0  # zero in every dtype: rounding does not change it
    return {
        dtype: _crossover(device_round, host_round, dtype, memory)
        for dtype in ROUNDABLE
        if dtype.is_float
    }


def _crossover(device_round: Round, host_round: Round, dtype: DType, memory: Bytes) -> int:
    crossover = SIZES[-1]
    for size in reversed(SIZES[:-1]):
        part = memory[:size]
        if _seconds(device_round, dtype, part) > _seconds(host_round, dtype, part):
            break
        crossover = size
    return crossover


def _seconds(round_: Round, dtype: DType, memory: Bytes) -> float:
    call = Call.packed(Rounding.TIES_TO_EVEN, dtype.name, (memory.size // dtype.itemsize,))
    best = np.inf
    for _ in range(TRIES):
        began = time.perf_counter()
        round_(call, memory, memory)
        best = min(best, time.perf_counter() - began)
    return float(best)
