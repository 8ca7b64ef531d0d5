"""The service on a device that is this CPU, as a process of its own.

Run as a module it is ``tensor-round-service`` with that device; SIGUSR1 has the device
fault at its next kernel, SIGUSR2 has it out of memory from then on.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Sequence
from functools import partial

from support.devices.host_device import HostDevice, no_fault
from support.services.server import Service
from tensor_round_service import app
from tensor_round_service.backends.cuda.device import Device, DeviceFailed, OutOfDeviceMemory
from tensor_round_service.backends.select import select_backend
from tensor_round_service.process import serve


class DeviceService(Service):
    """Such a process; a context manager that asserts nothing about how it ends."""

    module = "support.services.device_service"

    def fault(self) -> None:
        """Have the device lost at its next kernel."""
        os.kill(self.pid, signal.SIGUSR1)

    def fill(self) -> None:
        """Have the device's memory full."""
        os.kill(self.pid, signal.SIGUSR2)


def main() -> int:
    device = HostDevice()

    def fault(operation: str) -> None:
        if operation == "round":
            raise DeviceFailed("an illegal memory access was encountered")

    def full(operation: str) -> None:
        if operation == "round":
            raise OutOfDeviceMemory("out of memory")

    def open_devices(_numbers: Sequence[int] | None, _pool: int | None) -> Sequence[Device]:
        return [device]

    def lose(*_: object) -> None:
        device.when_asked, device.when_done = no_fault, fault

    signal.signal(signal.SIGUSR1, lose)
    signal.signal(signal.SIGUSR2, lambda *_: setattr(device, "when_asked", full))
    app.select_backend = partial(select_backend, open_devices=open_devices)  # type: ignore[attr-defined]
    return serve.run(sys.argv[1:])


if __name__ == "__main__":
    sys.exit(main())
