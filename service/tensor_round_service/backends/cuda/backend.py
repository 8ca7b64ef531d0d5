"""The CuPy backend: CUDA devices in turn, and NumPy for what they are not worth or cannot do."""

from __future__ import annotations

import itertools
import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType

from tensor_round.call import RoundCall
from tensor_round.dtypes import DTYPES, DType
from tensor_round.errors import DeviceOutOfMemory

from .. import Bytes, Round
from ..cpu.backend import NumpyBackend
from .device import Device, DeviceFailed, OutOfDeviceMemory, Span
from .memory import LockedMemory
from .pipeline import Lane, Pipeline, SourceLost
from .proof import is_alive, prove
from .threshold import SIZES, least_bytes

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Sharing:
    """What NumPy does beside the devices.

    ``least_bytes``: of each float dtype, the smallest tensor that a device is worth; 0
    where it is not named. ``spills``: whether NumPy takes what a device has no memory for.
    """

    least_bytes: Mapping[DType, int] = field(default_factory=lambda: MappingProxyType({}))
    spills: bool = True


class CupyBackend:
    """Rounds on CUDA devices; see :class:`~tensor_round_service.backends.Backend`.

    Raises :class:`OutOfDeviceMemory` or :class:`DeviceFailed` where a device cannot even
    begin, and :class:`~.cuda_proof.WrongBits` where one does not round as NumPy does.
    """

    name = "cupy"

    def __init__(self, devices: Sequence[Device], host: NumpyBackend) -> None:
        self._host = host
        self._turns = itertools.count()
        self._memory = LockedMemory(devices[0])
        self._lost = False
        self._pipelines: list[Pipeline] = []
        self.sharing = Sharing()
        try:
            for device in devices:
                self._pipelines.append(Pipeline(device))
                # Every kernel is compiled here, so that no request waits for that.
                prove(self._pipelines[-1].round, host)
        except Exception:  # the caller goes on without devices
            self._release()
            raise

    def __str__(self) -> str:
        names = ", ".join(self.devices)
        least = ", ".join(
            f"{dtype.name} {nbytes}"
            for dtype, nbytes in self.sharing.least_bytes.items()
            if dtype.is_float
        )
        return f"{self.name} on {names}" + (f" for tensors from bytes: {least}" if least else "")

    @property
    def devices(self) -> list[str]:
        """The GPUs, with their numbers."""
        return [pipeline.device.name for pipeline in self._pipelines]

    @property
    def is_healthy(self) -> bool:
        """False from when a device was lost; only a new process can have it back."""
        return not self._lost

    @property
    def inline_bytes(self) -> int:
        """Tensors up to this size are NumPy's, and so never wait for a device."""
        return min(self.sharing.least_bytes.get(d, 0) for d in DTYPES if d.is_float) - 1

    def allocate(self, nbytes: int) -> Bytes:
        """Memory that will soon be page-locked, if it is large."""
        return self._memory.allocate(nbytes)

    def settle(self) -> None:
        """Wait until what was allocated so far is page-locked, or cannot be."""
        self._memory.settle()

    def round(self, call: RoundCall, source: Bytes, target: Bytes) -> str:
        """Round ``source`` into ``target`` on a device, or with NumPy where that is better.

        Raises :class:`DeviceOutOfMemory` where NumPy does not help out, and
        :class:`~.cuda_pipeline.SourceLost` where it cannot.
        """
        if self._is_for_host(call):
            return self._host.round(call, source, target)
        try:
            self.round_on_device(call, source, target)
        except OutOfDeviceMemory as error:
            if not self.sharing.spills:
                raise DeviceOutOfMemory(
                    "the device has no memory for this tensor now", retry_after=1
                ) from error
            logger.warning("the device is out of memory; NumPy takes the tensor")
        except SourceLost:
            raise
        except DeviceFailed:
            # Where results have replaced operands already, they only stay what they are.
            logger.warning("the device failed; NumPy takes the tensor", exc_info=True)
        else:
            return self.name
        return self._host.round(call, source, target)

    def round_on_device(self, call: RoundCall, source: Bytes, target: Bytes) -> str:
        """The same on a device whatever the tensor, and nowhere else."""
        turn = next(self._turns) % len(self._pipelines)
        self._do(lambda pipeline: pipeline.round(call, source, target), self._pipelines[turn])
        return self.name

    @property
    def device_memory(self) -> CupyBackend | None:
        """This; None once a device was lost."""
        return None if self._lost else self

    def import_memory(self, device: int, handle: bytes) -> Span:
        """See :class:`~tensor_round_service.backends.DeviceMemory`, here and below."""
        return self._pipeline(device).device.import_memory(handle)

    def round_resident(self, device: int, call: RoundCall, source: Span, target: Span) -> str:
        """Round within the device's memory."""
        self._on_lane(device, lambda lane: lane.resident(call, source, target))
        return self.name

    def download(self, device: int, source: Span, target: Bytes) -> None:
        """Copy from the device."""
        self._on_lane(device, lambda lane: lane.copy_out(source, target))

    def upload(self, device: int, source: Bytes, target: Span) -> None:
        """Copy to the device."""
        self._on_lane(device, lambda lane: lane.copy_in(source, target))

    def arithmetics(self) -> Mapping[str, Round]:
        """Whatever may round a tensor, by the name that answers give it."""
        on_host: dict[str, Round] = {self._host.name: self._host.round}
        return on_host if self._lost else {self.name: self.round_on_device, **on_host}

    def least_bytes(self) -> dict[DType, int]:
        """What :class:`Sharing` should have them be on this machine, measured."""
        memory = self.allocate(SIZES[-1])
        self.settle()
        return least_bytes(self.round_on_device, self._host.round, memory)

    def close(self) -> None:
        """Stop the threads and release the devices."""
        self._release()
        self._host.close()

    def _release(self) -> None:
        self._memory.close()
        for pipeline in self._pipelines:
            pipeline.close()

    def _is_for_host(self, call: RoundCall) -> bool:
        dtype = call.input.dtype
        # What is only copied is not worth the way there and back.
        if self._lost or not dtype.is_float:
            return True
        nbytes = max(call.input.byte_length, call.output.byte_length)
        return nbytes < self.sharing.least_bytes.get(dtype, 0)

    def _pipeline(self, device: int) -> Pipeline:
        """Raises :class:`LookupError`."""
        for pipeline in self._pipelines:
            if pipeline.device.number == device:
                return pipeline
        raise LookupError(f"device {device} is none of this service's")

    def _on_lane(self, device: int, work: Callable[[Lane], None]) -> None:
        def on_lane(pipeline: Pipeline) -> None:
            with pipeline.lane() as lane:
                work(lane)

        self._do(on_lane, self._pipeline(device))

    def _do(self, work: Callable[[Pipeline], None], pipeline: Pipeline) -> None:
        """Do it, if need be once more after having made room on the device."""
        try:
            try:
                work(pipeline)
            except OutOfDeviceMemory:
                pipeline.device.trim()
                work(pipeline)
        except DeviceFailed:
            self._lost = self._lost or not is_alive(pipeline.round)
            if self._lost:
                logger.critical("lost %s; this process cannot use it again", pipeline.device.name)
            raise
