"""Selection of the backend, by the settings and the hardware."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from tensor_round.contract.dtypes import DTYPES

from ..failures import CannotStart
from . import Backend
from .cpu.backend import Kernels, NumpyBackend
from .cuda.backend import CupyBackend, OffloadPolicy
from .cuda.device import Device
from .devices import DeviceFailed, DeviceMissing, OutOfDeviceMemory
from .proof import WrongBits

logger = logging.getLogger(__name__)

#: Opens the devices with these numbers (None: all), each with a memory limit in bytes.
OpenDevices = Callable[[Sequence[int] | None, int | None], Sequence[Device]]


class BackendUnavailable(CannotStart):
    """The requested backend cannot run on this machine; the message says why."""


@dataclass(frozen=True, slots=True)
class DeviceOptions:
    """Options of devices; None selects a default.

    ``numbers``: the devices to use, by default all. ``min_bytes``: the smallest tensor for a
    device. ``pool_bytes``: the memory limit on each device.
    """

    numbers: tuple[int, ...] | None = None
    min_bytes: int | None = None
    pool_bytes: int | None = None


def open_cupy(numbers: Sequence[int] | None, pool_bytes: int | None) -> Sequence[Device]:
    """Open CUDA devices through CuPy. Raises :class:`DeviceMissing`."""
    try:
        from .cuda.cupy_device import open_devices
    except ImportError as error:
        if error.name == "cupy":
            raise DeviceMissing("CuPy is not installed (extra cuda12 or cuda13)") from error
        raise DeviceMissing(f"CuPy cannot be imported: {_first_line(error)}") from error
    return open_devices(numbers, pool_bytes)


def compiled_kernels() -> Kernels | None:
    """The kernels compiled by LLVM if llvmlite is installed (extra ``compiled``), else None."""
    try:
        from .cpu.llvm import llvm_kernels
    except ImportError:
        return None
    except OSError as error:  # llvmlite's shared library cannot be loaded
        logger.warning("kernels: NumPy's (llvmlite cannot be used: %s)", _first_line(error))
        return None
    return llvm_kernels()


def select_backend(
    name: str,
    options: DeviceOptions = DeviceOptions(),
    open_devices: OpenDevices = open_cupy,
    log: Callable[[str], None] = logger.info,
) -> Backend:
    """Create the backend ``numpy`` or ``cupy``, or with ``auto`` the best one that works.

    A device works if every kernel gives NumPy's bits. Raises :class:`BackendUnavailable` for
    ``cupy`` if no device works. ``log`` gets the selection and the reason for it.
    """
    kernels = compiled_kernels()
    if kernels is not None:
        log(f"kernels: {kernels}")
    host = NumpyBackend(kernels=kernels)
    if name == "numpy":
        return host
    try:
        backend = CupyBackend(open_devices(options.numbers, options.pool_bytes), host)
    except (DeviceMissing, OutOfDeviceMemory, DeviceFailed, WrongBits) as error:
        if name == "cupy":
            host.close()
            raise BackendUnavailable(f"BACKEND=cupy: {_first_line(error)}") from error
        log(f"backend: numpy (no usable GPU: {_first_line(error)})")
        return host
    if kernels is not None:
        # The offload policy is measured against the compiled kernels.
        kernels.wait()
    backend.policy = _offload_policy(name, options, backend)
    log(f"backend: {backend}")
    return backend


def _offload_policy(name: str, options: DeviceOptions, backend: CupyBackend) -> OffloadPolicy:
    """The policy for ``auto`` or ``cupy``; ``cupy`` rounds all floats on the device."""
    if options.min_bytes is not None:
        min_bytes = dict.fromkeys(DTYPES, options.min_bytes)
    elif name == "auto":
        min_bytes = backend.measure_min_bytes()
    else:
        min_bytes = {}
    return OffloadPolicy(min_bytes, falls_back=name == "auto")


def _first_line(error: Exception) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0]
