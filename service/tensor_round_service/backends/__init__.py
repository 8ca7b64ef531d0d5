"""Where the arithmetic happens: one module a device, all with the same bits."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import numpy.typing as npt

from tensor_round.call import RoundCall

if TYPE_CHECKING:
    from .cuda.device import Span

#: A run of bytes as backends see it: one-dimensional, contiguous, ``uint8``.
Bytes = npt.NDArray[np.uint8]
#: A run of elements as bit patterns: one-dimensional, contiguous, unsigned.
Bits = np.ndarray[tuple[int], np.dtype[Any]]
#: Rounds one tensor into another; returns the name of what did. See :meth:`Backend.round`.
Round = Callable[[RoundCall, Bytes, Bytes], str]


class Backend(Protocol):
    """A device that rounds. Calls may come from several threads at once."""

    name: str

    @property
    def inline_bytes(self) -> int:
        """Tensors up to this size keep the calling thread busy, but never waiting."""

    @property
    def devices(self) -> Sequence[str]:
        """What it rounds on, as people call it."""

    @property
    def is_healthy(self) -> bool:
        """Whether it can do what it was started for; once it cannot, a new process must."""

    def allocate(self, nbytes: int) -> Bytes:
        """Uninitialised memory that bodies are received into and answered from."""

    def round(self, call: RoundCall, source: Bytes, target: Bytes) -> str:
        """Round ``source`` (``call.input.byte_length`` bytes) into ``target`` (the output's).

        ``target`` is ``source`` itself only where ``call.is_in_place``; otherwise the
        two share nothing. Every byte of ``target`` is written, gaps with zeros.
        Returns the name of the arithmetic that did it, one of :meth:`arithmetics`.
        """

    @property
    def device_memory(self) -> DeviceMemory | None:
        """Its way to tensors that are in a device's memory; None where there is no device."""

    def arithmetics(self) -> Mapping[str, Round]:
        """Everything that may round a tensor here, each as a way to have it do so."""

    def close(self) -> None:
        """Stop the threads and release the device."""


class DeviceMemory(Protocol):
    """Tensors in the memory of devices, which callers on this host share with the service.

    Devices go by their numbers. Anything here may raise :class:`~.cuda_device.DeviceFailed`.
    """

    def import_memory(self, device: int, handle: bytes) -> Span:
        """The allocation of another process that a handle stands for, from its first byte.

        It stays mapped for as long as the span's owner is referred to. Raises
        :class:`LookupError` for a device that is not in use here.
        """

    def round_resident(self, device: int, call: RoundCall, source: Span, target: Span) -> str:
        """:meth:`Backend.round` within a device's memory."""

    def download(self, device: int, source: Span, target: Bytes) -> None:
        """Copy from a device."""

    def upload(self, device: int, source: Bytes, target: Span) -> None:
        """Copy to a device."""
