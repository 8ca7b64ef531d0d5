"""Where the arithmetic happens: one module a device, all with the same bits."""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from tensor_round.call import RoundCall

#: A run of bytes as backends see it: one-dimensional, contiguous, ``uint8``.
Bytes = npt.NDArray[np.uint8]
#: A run of elements as bit patterns: one-dimensional, contiguous, unsigned.
Bits = np.ndarray[tuple[int], np.dtype[Any]]


class Backend(Protocol):
    """A device that rounds. Calls may come from several threads at once."""

    name: str

    def allocate(self, nbytes: int) -> Bytes:
        """Uninitialised memory that bodies are received into and answered from."""

    def round(self, call: RoundCall, source: Bytes, target: Bytes) -> None:
        """Round ``source`` (``call.input.byte_length`` bytes) into ``target`` (the output's).

        ``target`` is ``source`` itself only where ``call.is_in_place``; otherwise the
        two share nothing. Every byte of ``target`` is written, gaps with zeros.
        """

    def close(self) -> None:
        """Stop the threads and release the device."""
