"""The interface of a device: memory, copies, kernel launches and failures.

:mod:`.cupy_device` implements it with CuPy. The tests implement it on the CPU, with the same
kernels. The rest of this package does not depend on the implementation.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Protocol

from tensor_round.contract.dtypes import DType
from tensor_round.contract.functions import Function

from .. import Bytes
from ..devices import DeviceBuffer

#: Allocates device memory; raises :class:`OutOfDeviceMemory`.
Allocate = Callable[[int], DeviceBuffer]


@dataclass(frozen=True, slots=True)
class DeviceParameters:
    """The parameters of a call in a device's memory.

    ``scales`` are numbers of the type ``scale`` in float32, ``points`` an int32 for each. ``dims``
    has three uint32 for each dimension, the innermost first: its size, that of its blocks, and the
    step between the parameters of two blocks. One parameter for all has none.
    """

    scale: DType
    scales: DeviceBuffer
    points: DeviceBuffer
    dims: DeviceBuffer


class Stream(AbstractContextManager["Stream"], Protocol):
    """A queue of operations, which are executed asynchronously and in order.

    Entering it makes its device the current device of the thread; one thread at a time may do
    so. The memory of queued operations must stay valid until their end. Any method may raise
    :class:`DeviceFailed` for an earlier operation, and :class:`OutOfDeviceMemory`.
    """

    def copy_in(self, source: Bytes, target: DeviceBuffer) -> None:
        """Host to device."""

    def copy_out(self, source: DeviceBuffer, target: Bytes) -> None:
        """Device to host."""

    def copy(self, source: DeviceBuffer, target: DeviceBuffer) -> None:
        """Device to device; the two do not overlap."""

    def clear(self, target: DeviceBuffer) -> None:
        """Fill with zeros."""

    def run(
        self,
        function: Function,
        source_dtype: DType,
        target_dtype: DType,
        source: DeviceBuffer,
        target: DeviceBuffer,
        count: int,
        parameters: DeviceParameters | None = None,
        first: int = 0,
    ) -> None:
        """Apply a function to ``count`` elements of ``source``, one behind the other.

        Both addresses must be multiples of 16. They may be equal if both types have one width;
        otherwise the buffers share no byte. ``parameters`` are those of linear quantization, by the
        numbers of elements in their tensor, from ``first`` on.
        """

    def copy_strided(
        self,
        itemsize: int,
        source: DeviceBuffer,
        target: DeviceBuffer,
        dims: DeviceBuffer,
        first: int,
        count: int,
    ) -> None:
        """Copy ``count`` elements, from number ``first`` on, from one layout to another.

        ``dims`` has three int64 for each dimension, the innermost first: size, input stride
        and output stride, in elements.
        """

    def wait(self) -> None:
        """Wait for the end of all queued operations."""


class Device(Protocol):
    """One device."""

    #: Name for the log, and CUDA's device number.
    name: str
    number: int

    def stream(self) -> Stream:
        """A new stream."""

    def allocate(self, nbytes: int) -> DeviceBuffer:
        """Allocate uninitialized memory, aligned to 16. Raises :class:`OutOfDeviceMemory`.

        The device may cache freed memory for later allocations.
        """

    def memory_info(self) -> tuple[int, int]:
        """Used and total bytes of its memory, by all processes together. It may wait for a lock."""

    def import_memory(self, handle: bytes) -> DeviceBuffer:
        """Map the whole allocation of another process that an IPC handle refers to."""

    def trim(self) -> None:
        """Free the cached memory."""

    def staging(self, nbytes: int) -> Bytes:
        """Allocate page-locked host memory, which the device copies from and to directly."""

    def pin(self, memory: Bytes) -> bool:
        """Page-lock existing host memory; return False if that is impossible."""

    def unpin(self, memory: Bytes) -> None:
        """Undo :meth:`pin`."""

    def is_pinned(self, memory: Bytes) -> bool:
        """Whether the memory is page-locked."""
