"""The service with a part that is otherwise, as a process: ``variants.py VARIANT OPTIONS...``."""

from __future__ import annotations

import ctypes
import os
import resource
import signal
import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from support.devices.host_device import HostDevice, no_fault
from support.services.server import Service
from support.services.tls import TlsService
from tensor_round_service import app
from tensor_round_service.backends.cuda.device import Device
from tensor_round_service.backends.devices import DeviceFailed, OutOfDeviceMemory
from tensor_round_service.backends.select import select_backend
from tensor_round_service.process import serve, workers

#: When an impatient supervisor takes a silent worker for frozen.
SECONDS = 3.0
#: The size of a small /dev/shm.
NBYTES = 1 << 20
#: The limit of a service with few file descriptors.
DESCRIPTORS = 128

_CLONE_NEWNS = 0x20000
_MS_REC_PRIVATE = 0x4000 | 1 << 18


class Variant(Service):
    """Such a process; a context manager."""

    module = "support.services.variants"

    def _options(self) -> list[str]:
        return [type(self).__name__, *super()._options()]

    @staticmethod
    def prepare() -> None:
        """Make the process what it is."""
        raise NotImplementedError


class ImpatientService(Variant):
    """The service with a supervisor that soon takes a silent worker for frozen."""

    @staticmethod
    def prepare() -> None:
        workers.FROZEN_SECONDS = SECONDS


class FewDescriptorsService(Variant):
    """The service with a low limit of file descriptors, and a lower one that it may raise."""

    @staticmethod
    def prepare() -> None:
        resource.setrlimit(resource.RLIMIT_NOFILE, (DESCRIPTORS // 2, DESCRIPTORS))


class FewDescriptorsTlsService(FewDescriptorsService, TlsService):
    """The same with a certificate."""


class SmallShmService(Variant):
    """The service with a separate /dev/shm, which is soon full. Linux, and root."""

    @property
    def objects(self) -> Path:
        """Where its objects are for others."""
        return Path(f"/proc/{self.pid}/root/dev/shm")

    @staticmethod
    def prepare() -> None:
        libc = ctypes.CDLL(None, use_errno=True)
        for done in (
            lambda: libc.unshare(_CLONE_NEWNS),
            lambda: libc.mount(b"none", b"/", None, _MS_REC_PRIVATE, None),
            lambda: libc.mount(b"tmpfs", b"/dev/shm", b"tmpfs", 0, b"size=%d" % NBYTES),
        ):
            if done():
                raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))


def may_mount() -> bool:
    """Whether this process may give a child of its own such a view of the machine."""
    child = os.fork()
    if child == 0:
        try:
            SmallShmService.prepare()
        except BaseException:
            os._exit(1)
        os._exit(0)
    return os.waitpid(child, 0)[1] == 0


class DeviceService(Variant):
    """The service on a device that is this CPU."""

    def fault(self) -> None:
        """Have the device lost at its next kernel."""
        os.kill(self.pid, signal.SIGUSR1)

    def fill(self) -> None:
        """Have the device's memory full from now on."""
        os.kill(self.pid, signal.SIGUSR2)

    @staticmethod
    def prepare() -> None:
        device = HostDevice()

        def fault(operation: str) -> None:
            if operation == "run":
                raise DeviceFailed("an illegal memory access was encountered")

        def full(operation: str) -> None:
            if operation == "run":
                raise OutOfDeviceMemory("out of memory")

        def open_devices(_numbers: Sequence[int] | None, _pool: int | None) -> Sequence[Device]:
            return [device]

        def lose(*_: object) -> None:
            device.when_asked, device.when_done = no_fault, fault

        signal.signal(signal.SIGUSR1, lose)
        signal.signal(signal.SIGUSR2, lambda *_: setattr(device, "when_asked", full))
        app.select_backend = partial(select_backend, open_devices=open_devices)  # type: ignore[attr-defined]


class DeviceTlsService(DeviceService, TlsService):
    """The same with a certificate."""


if __name__ == "__main__":
    globals()[sys.argv.pop(1)].prepare()
    sys.exit(serve.run(sys.argv[1:]))
