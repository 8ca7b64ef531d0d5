"""Arrays in the memory of a device that is this CPU, for clients: what CuPy's are on CUDA.

Their allocations are POSIX shared memory, and a handle names one: so another process can
map them, as :class:`support.devices.host_device.HostDevice` does.
"""

from __future__ import annotations

import sys
from contextlib import ExitStack
from types import ModuleType
from typing import Any

import numpy as np
import numpy.typing as npt

from support.segments import Segment, segment
from tensor_round.arrays.cuda_driver import DriverFailed, Export
from tensor_round.contract.dtypes import from_numpy

MODULE = "hostcuda"


class DeviceArray:
    """An array there; tests look at ``seen``, which CUDA would not let them."""

    def __init__(self, seen: npt.NDArray[Any]) -> None:
        self.seen = seen
        self.shape = seen.shape


class SharedPool:
    """A device's memory: one allocation of which arrays take parts, as a library's pool does."""

    def __init__(self, nbytes: int = 1 << 22) -> None:
        self._stack = ExitStack()
        self._segment: Segment = self._stack.enter_context(segment(nbytes))
        self._taken = 0
        self.can_export = True
        self.waits = 0

    def close(self) -> None:
        self._stack.close()

    @property
    def base(self) -> int:
        return self._segment.memory.ctypes.data

    def array(self, content: npt.NDArray[Any]) -> DeviceArray:
        """A packed array there with this content."""
        memory = self._segment.memory[self._taken : self._taken + content.nbytes]
        self._taken += content.nbytes + 256 & -256
        array = DeviceArray(memory.view(content.dtype).reshape(content.shape))
        array.seen[...] = content
        return array

    # What a driver does.

    def export(self, address: int) -> Export:
        if not self.can_export:
            raise DriverFailed("cuIpcGetMemHandle failed with CUDA error 801")
        handle = self._segment.key.encode().ljust(64, b"\0")
        return Export(handle, 0, self._segment.memory.size, address - self.base)

    def wait(self, address: int) -> None:
        assert 0 <= address - self.base < self._segment.memory.size
        self.waits += 1

    def read(self, address: int, target: npt.NDArray[np.uint8]) -> None:
        start = address - self.base
        target[:] = self._segment.memory[start : start + target.size]

    def write(self, source: npt.NDArray[np.uint8], address: int) -> None:
        start = address - self.base
        self._segment.memory[start : start + source.size] = source

    # What a library does.

    module = MODULE

    def owns(self, x: Any) -> bool:
        return isinstance(x, DeviceArray)

    def dtype(self, x: DeviceArray) -> str:
        row = from_numpy(x.seen.dtype)
        return str(x.seen.dtype) if row is None else row.name

    def address(self, x: DeviceArray) -> int:
        return x.seen.ctypes.data

    def nbytes(self, x: DeviceArray) -> int:
        return x.seen.nbytes

    def is_packed(self, x: DeviceArray) -> bool:
        return bool(x.seen.flags.c_contiguous)

    def packed_copy(self, x: DeviceArray) -> DeviceArray:
        return self.array(x.seen)

    def empty_like(self, x: DeviceArray) -> DeviceArray:
        return self.array(np.full(x.shape, 7, x.seen.dtype))

    def assign(self, target: DeviceArray, x: DeviceArray) -> None:
        target.seen[...] = x.seen


def pretend_imported(monkeypatch: Any) -> None:
    """Have the library count as imported."""
    monkeypatch.setitem(sys.modules, MODULE, ModuleType(MODULE))
