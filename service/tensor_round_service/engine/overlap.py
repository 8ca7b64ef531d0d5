"""Overlap: rounding the first part of a large tensor while the rest is being received.

The service receives faster than a client sends, so the event loop has spare time between two
reads of the socket. After each read it rounds one piece of the received data in place. No thread
is involved, so after a disconnect nothing works on the buffer. The rest is rounded on all cores
after the last byte is received.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

from tensor_round.contract.call import RoundCall
from tensor_round.contract.dtypes import DType
from tensor_round.contract.rounding import Rounding

from ..backends import Backend, Bytes
from .memory import SMALL_BYTES

#: Smallest tensor for overlap. The socket buffers hold most of a smaller tensor, so the service
#: does not wait for its client, and rounding on all cores at the end is faster.
MIN_BYTES = 16 << 20
#: Bytes rounded after a read: about 0.3 ms with NumPy's slowest type.
PIECE_BYTES = 512 << 10


@dataclass(eq=False, slots=True)
class Overlap:
    """The state of one request's overlap."""

    backend: Backend
    call: RoundCall
    source: Bytes
    #: Returns the bytes that all other requests have reserved.
    other_bytes: Callable[[], int]
    #: What a piece has raised.
    failure: Exception | None = None
    #: Bytes rounded so far, from the start.
    done: int = 0
    #: Time spent on rounding so far.
    seconds: float = 0.0

    def progress(self, missing: int) -> None:
        """Round the next piece if it is received; the last ``missing`` bytes are not.

        Does nothing while other requests have large tensors: then the event loop has no spare
        time.
        """
        end = self.done + PIECE_BYTES
        is_received = end + missing <= self.source.size
        if self.failure or not is_received or self.other_bytes() > SMALL_BYTES:
            return
        began = time.perf_counter()
        piece = self.source[self.done : end]
        try:
            self.backend.round(self._flat(piece), piece, piece)
        except Exception as error:  # rest() raises it: the reader of the socket cannot handle it
            self.failure = error
        self.done = end
        self.seconds += time.perf_counter() - began

    def rest(self) -> tuple[RoundCall, Bytes]:
        """The call and memory of the rest; raises the exception that a piece has raised."""
        if self.failure is not None:
            raise self.failure
        left = self.source[self.done :]
        return self._flat(left), left

    def _flat(self, part: Bytes) -> RoundCall:
        return flat_call(self.call.input.dtype, self.call.rounding, part.size)


def is_worthwhile(backend: Backend, call: RoundCall) -> bool:
    """Whether a call can be rounded piece by piece while it is received, and gains by it."""
    layout = call.input
    return (
        MIN_BYTES <= call.nbytes <= backend.inline_bytes
        and call.is_in_place
        and layout.dtype.is_float
        and layout.element_bytes == layout.byte_length
    )


@lru_cache(maxsize=256)
def flat_call(dtype: DType, rounding: Rounding, nbytes: int) -> RoundCall:
    """A call on ``nbytes`` contiguous bytes of a larger tensor."""
    return RoundCall.packed(rounding, dtype.name, (nbytes // dtype.itemsize,))
