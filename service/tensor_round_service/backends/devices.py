"""Devices with memory of their own, as the engine sees them: buffers, access, failures."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from tensor_round.contract.call import Call

from . import Bytes


class DeviceMissing(Exception):
    """No device is usable; the message says what is missing."""


class OutOfDeviceMemory(MemoryError):
    """The device is out of memory, but works."""


class DeviceFailed(RuntimeError):
    """An operation on the device failed; the memory that it wrote to is undefined."""


@dataclass(frozen=True, slots=True)
class DeviceBuffer:
    """A run of bytes in a device's memory, valid as long as its owner is referenced."""

    address: int
    nbytes: int
    owner: object

    def part(self, start: int, stop: int) -> DeviceBuffer:
        """The bytes from ``start`` to ``stop``."""
        if not 0 <= start <= stop <= self.nbytes:
            raise ValueError(f"{start} to {stop} is not within {self.nbytes} bytes")
        return DeviceBuffer(self.address + start, stop - start, self.owner)


class DeviceMemory(Protocol):
    """Access to tensors in the memory of devices, each by its number.

    The methods raise :class:`LookupError` for a device that is not used, and :class:`DeviceFailed`.
    """

    def import_memory(self, device: int, handle: bytes) -> DeviceBuffer:
        """Map the whole allocation of another process that an IPC handle refers to."""

    def can_run_resident(self, call: Call, given: Bytes) -> bool:
        """Whether devices have a kernel for a call; ``given`` are the bytes of its parameters."""

    def round_resident(
        self,
        device: int,
        call: Call,
        source: DeviceBuffer,
        target: DeviceBuffer,
        given: Bytes,
    ) -> str:
        """Round within a device's memory; returns the name of the arithmetic.

        ``given`` are the bytes of the call's parameters, none without any.
        """

    def download(self, device: int, source: DeviceBuffer, target: Bytes) -> None:
        """Copy from a device to host memory."""

    def upload(self, device: int, source: Bytes, target: DeviceBuffer) -> None:
        """Copy to a device from host memory."""
