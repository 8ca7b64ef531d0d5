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

from tensor_round.contract.call import Call

from ..backends import Backend, Bytes, in_place
from .cost import call_cost
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
    call: Call
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
        try:
            self._run(self.done, end)
        except Exception as error:  # finish() raises it: the reader of the socket cannot handle it
            self.failure = error
        self.done = end
        self.seconds += time.perf_counter() - began

    def finish(self) -> str:
        """Compute the rest; return the name of the arithmetic. Raises what a piece has raised."""
        if self.failure is not None:
            raise self.failure
        return self._run(self.done, self.source.size)

    def _run(self, start: int, end: int) -> str:
        """Compute the results of these bytes, and move narrower ones behind those before them."""
        piece = self.source[start:end]
        call = self.call.flat(piece.size, start)
        result = in_place(call, piece)
        executed_by = self.backend.round(call, piece, result)
        to = self.call.result_bytes(start)
        if to < start:
            # An assignment between memoryviews that overlap moves, without a copy.
            self.source.data[to : to + result.size] = result.data
        return executed_by


def is_worthwhile(backend: Backend, call: Call) -> bool:
    """Whether a call can be rounded piece by piece while it is received, and gains by it."""
    layout = call.input
    return (
        MIN_BYTES <= call.nbytes <= backend.inline_bytes
        and call.is_in_place
        and call.parameters is None  # they come behind the input
        and not call.is_copy
        and call_cost(call) <= call.nbytes
        and layout.element_bytes == layout.byte_length
    )
