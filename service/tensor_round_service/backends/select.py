"""Which backend serves: what the settings ask for, and what the machine has."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from tensor_round.dtypes import DTYPES

from . import Backend
from .cpu.backend import Kernels, NumpyBackend
from .cuda.backend import CupyBackend, Sharing
from .cuda.device import Device, DeviceFailed, DeviceMissing, OutOfDeviceMemory
from .cuda.proof import WrongBits

logger = logging.getLogger(__name__)

#: Opens the devices of these numbers, or all, each with at most so many bytes of its memory.
OpenDevices = Callable[[Sequence[int] | None, int | None], Sequence[Device]]


class BackendUnavailable(Exception):
    """The backend that was asked for cannot run here; the message says what is missing."""


@dataclass(frozen=True, slots=True)
class DeviceOptions:
    """What may be said about devices; None is what is best in general.

    ``numbers``: which, None for all. ``least_bytes``: the smallest tensor for a device.
    ``pool_bytes``: the most of a device's memory to take.
    """

    numbers: tuple[int, ...] | None = None
    least_bytes: int | None = None
    pool_bytes: int | None = None


def open_cupy(numbers: Sequence[int] | None, pool_bytes: int | None) -> Sequence[Device]:
    """The CUDA devices, by way of CuPy. Raises :class:`DeviceMissing`."""
    try:
        from .cuda.cupy_device import open_devices
    except ImportError as error:
        if error.name == "cupy":
            raise DeviceMissing("CuPy is not installed (extra cuda12 or cuda13)") from error
        raise DeviceMissing(f"CuPy cannot be imported: {_first_line(error)}") from error
    return open_devices(numbers, pool_bytes)


def compiled_kernels() -> Kernels | None:
    """LLVM's, where llvmlite is installed (extra ``compiled``)."""
    try:
        from .cpu.llvm import llvm_kernels
    except ImportError:
        return None
    except OSError as error:  # its library is there and cannot be loaded
        logger.warning("kernels: NumPy's (llvmlite cannot be used: %s)", _first_line(error))
        return None
    return llvm_kernels()


def choose(
    name: str,
    options: DeviceOptions = DeviceOptions(),
    open_devices: OpenDevices = open_cupy,
    say: Callable[[str], None] = logger.info,
) -> Backend:
    """The backend of that name: ``numpy``, ``cupy``, or ``auto`` for the best that works.

    A device works if it rounds as NumPy does, kernel by kernel, to the bit. Raises
    :class:`BackendUnavailable` for ``cupy`` where none does. ``say`` is told which it
    became, and why.
    """
    kernels = compiled_kernels()
    if kernels is not None:
        say(f"kernels: {kernels}")
    host = NumpyBackend(kernels=kernels)
    if name == "numpy":
        return host
    try:
        backend = CupyBackend(open_devices(options.numbers, options.pool_bytes), host)
    except (DeviceMissing, OutOfDeviceMemory, DeviceFailed, WrongBits) as error:
        if name == "cupy":
            host.close()
            raise BackendUnavailable(f"BACKEND=cupy: {_first_line(error)}") from error
        say(f"backend: numpy (no usable GPU: {_first_line(error)})")
        return host
    if kernels is not None:
        # What a device is worth is measured against them.
        kernels.wait()
    backend.sharing = _sharing(name, options, backend)
    say(f"backend: {backend}")
    return backend


def _sharing(name: str, options: DeviceOptions, backend: CupyBackend) -> Sharing:
    """``cupy`` is taken at its word: everything on the device, or an error."""
    if options.least_bytes is not None:
        least = dict.fromkeys(DTYPES, options.least_bytes)
    elif name == "auto":
        least = backend.least_bytes()
    else:
        least = {}
    return Sharing(least, spills=name == "auto")


def _first_line(error: Exception) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0]
