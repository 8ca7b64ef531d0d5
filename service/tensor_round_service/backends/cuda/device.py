"""What the GPU backend needs of a device: memory, copies, launches, and to hear of failures.

:mod:`.cuda_cupy` has it of CuPy. Everything above this line (pieces, staging, choice,
faults) is the same for any implementation; the tests have one that runs the kernels on
the CPU.
"""

from __future__ import annotations

from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Protocol

from tensor_round.dtypes import DType
from tensor_round.rounding import Rounding

from .. import Bytes


class DeviceMissing(Exception):
    """There is no device to be used; the message says what is missing."""


class OutOfDeviceMemory(MemoryError):
    """The device has no memory for this now; nothing is wrong with it."""


class DeviceFailed(RuntimeError):
    """The device refused or broke off what it was asked; what it wrote is not to be trusted."""


@dataclass(frozen=True, slots=True)
class Span:
    """A run of bytes in a device's memory, which lives as long as its owner is referred to."""

    address: int
    nbytes: int
    owner: object

    def part(self, start: int, stop: int) -> Span:
        """The bytes from ``start`` to ``stop``."""
        if not 0 <= start <= stop <= self.nbytes:
            raise ValueError(f"no part {start} to {stop} of {self.nbytes} bytes")
        return Span(self.address + start, stop - start, self.owner)


class Stream(AbstractContextManager["Stream"], Protocol):
    """A queue of work: what is asked of it happens later, in order, until :meth:`wait`.

    Entering it makes its device the thread's. Any thread may, one at a time. The memory
    of queued work must stay until it is waited for. Any call may raise
    :class:`DeviceFailed` for work queued earlier, and :class:`OutOfDeviceMemory`.
    """

    def copy_in(self, source: Bytes, target: Span) -> None:
        """Host to device."""

    def copy_out(self, source: Span, target: Bytes) -> None:
        """Device to host."""

    def copy(self, source: Span, target: Span) -> None:
        """Device to device; the two do not overlap."""

    def clear(self, target: Span) -> None:
        """Fill with zeros."""

    def round(self, dtype: DType, rounding: Rounding, source: Span, target: Span) -> None:
        """Round a run of whole elements; both from a multiple of 16, or the same."""

    def spread(
        self, itemsize: int, source: Span, target: Span, dims: Span, first: int, count: int
    ) -> None:
        """Copy ``count`` elements from the ``first`` on by strides.

        ``dims`` holds int64 triples: size, input stride, output stride in elements, of
        each dimension from the innermost.
        """

    def wait(self) -> None:
        """Until all of it has happened."""


class Device(Protocol):
    """One device."""

    #: What it is, for the log, and its number among its kind.
    name: str
    number: int

    def stream(self) -> Stream:
        """A new queue."""

    def allocate(self, nbytes: int) -> Span:
        """Uninitialised memory from a multiple of 16; :class:`OutOfDeviceMemory` if there is none.

        Memory whose owner is forgotten may be kept for the next one.
        """

    def import_memory(self, handle: bytes) -> Span:
        """The whole allocation of another process that its handle stands for."""

    def trim(self) -> None:
        """Give back what is kept."""

    def staging(self, nbytes: int) -> Bytes:
        """Page-locked host memory, which the device copies from and to by itself."""

    def pin(self, memory: Bytes) -> bool:
        """Page-lock host memory that is there already; whether that worked."""

    def unpin(self, memory: Bytes) -> None:
        """Undo :meth:`pin`."""

    def is_pinned(self, memory: Bytes) -> bool:
        """Whether the device can copy from and to there by itself."""

    def close(self) -> None:
        """Give back everything."""
