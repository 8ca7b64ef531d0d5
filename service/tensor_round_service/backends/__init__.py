"""Backends: the implementations of rounding. All backends give identical bits."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import numpy.typing as npt

from tensor_round.contract.call import Call

if TYPE_CHECKING:
    from .devices import DeviceMemory

#: A run of bytes: one-dimensional, contiguous, ``uint8``.
Bytes = npt.NDArray[np.uint8]
#: A run of elements as bit patterns: one-dimensional, contiguous, unsigned.
Bits = np.ndarray[tuple[int], np.dtype[Any]]
#: What may happen on a device; after a ``fallback`` NumPy rounds the tensor instead.
DEVICE_EVENTS = ("out_of_memory", "failed", "lost", "fallback")
#: Rounds one tensor into another; returns the name of the arithmetic. See :meth:`Backend.round`.
Round = Callable[[Call, Bytes, Bytes], str]


def in_place(call: Call, source: Bytes) -> Bytes:
    """The memory of a call's results in place: ``source``, or its beginning for narrower ones."""
    nbytes = call.output.byte_length
    return source if call.keeps_width and nbytes == source.size else source[:nbytes]


class Backend(Protocol):
    """An implementation of rounding; safe to share between threads."""

    name: str

    @property
    def inline_bytes(self) -> int:
        """Tensors up to this size are rounded on the calling thread, without waiting."""

    @property
    def devices(self) -> Sequence[str]:
        """What it rounds on, as people call it."""

    @property
    def is_healthy(self) -> bool:
        """Whether the backend works. After a failure it works again only in a new process."""

    def allocate(self, nbytes: int) -> Bytes:
        """Uninitialized memory for bodies of requests and responses."""

    def round(self, call: Call, source: Bytes, target: Bytes) -> str:
        """Round ``source`` (``call.payload_bytes`` bytes) into ``target`` (the output's).

        ``target`` is that of :func:`in_place` only if ``call.is_in_place``; otherwise the two
        share no byte. Every byte of ``target`` is written, gaps with zeros. Returns the name of the
        arithmetic that was used, one of :meth:`arithmetics`.
        """

    @property
    def device_events(self) -> Counter[tuple[str, str]]:
        """How often something happened on a device, by its name and one of DEVICE_EVENTS."""

    def device_memory_info(self) -> dict[str, tuple[int, int]]:
        """Used and total bytes of each device's memory, by its name. It may wait for a device."""

    @property
    def device_memory(self) -> DeviceMemory | None:
        """Access to tensors in a device's memory; None if there is no device."""

    def arithmetics(self) -> Mapping[str, Round]:
        """Every arithmetic that this backend may use for a tensor, by name."""

    def close(self) -> None:
        """Stop the threads and release the device."""
