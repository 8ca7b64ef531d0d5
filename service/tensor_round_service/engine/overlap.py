"""Rounding the beginning of a large tensor while the rest of it is still being received.

The service receives faster than a client sends: between two reads of the socket the event loop
would wait. So after each read a piece of what has come is rounded where it lies, there and then.
No thread has a hand in it, so a sender that goes away leaves nobody at work on the buffer.
What is left when the last byte has come is rounded as ever, on all cores.
"""

from __future__ import annotations

import time
from functools import lru_cache

from tensor_round.call import RoundCall
from tensor_round.dtypes import DType
from tensor_round.layout import Layout
from tensor_round.rounding import Rounding

from ..backends import Backend, Bytes
from .job import Job
from .memory import SMALL_BYTES

#: Tensors from this size on: the sockets' own memory takes most of a small one at once, so
#: that nobody waits for its sender, and one thread alone takes longer than all at the end.
LEAST_BYTES = 16 << 20
#: Rounded after a read: some 0.3 ms of NumPy's slowest types, and no more calls than reads.
PIECE_BYTES = 512 << 10


class Overlap:
    """How far one request's tensor is rounded while it comes in."""

    def __init__(self, backend: Backend, call: RoundCall, source: Bytes, job: Job) -> None:
        self._backend = backend
        self._source = source
        self._job = job
        self._dtype, self._rounding = call.input.dtype, call.rounding
        self._piece = flat_call(self._dtype, self._rounding, PIECE_BYTES)
        self._failure: Exception | None = None
        #: Bytes from the start that are rounded.
        self.done = 0
        #: What that took so far.
        self.seconds = 0.0

    def progress(self, to_come: int) -> None:
        """Round a piece, if there is a whole one before the bytes that are still to come.

        Not while others have large tensors here: then the event loop has none to wait for.
        """
        end = self.done + PIECE_BYTES
        if self._failure or end + to_come > self._source.size or self._job.others > SMALL_BYTES:
            return
        began = time.perf_counter()
        piece = self._source[self.done : end]
        try:
            self._backend.round(self._piece, piece, piece)
        except Exception as error:  # the reader of the socket can tell nobody; rest() raises it
            self._failure = error
        self.done = end
        self.seconds += time.perf_counter() - began

    def rest(self) -> tuple[RoundCall, Bytes]:
        """What is left to be done, in place; raises what a piece has raised."""
        if self._failure is not None:
            raise self._failure
        left = self._source[self.done :]
        return flat_call(self._dtype, self._rounding, left.size), left


def suits(backend: Backend, call: RoundCall) -> bool:
    """Whether a call can be done piece by piece while it is received, and is worth it."""
    layout = call.input
    return (
        LEAST_BYTES <= call.nbytes <= backend.inline_bytes
        and call.is_in_place
        and layout.dtype.is_float
        and layout.element_count * layout.dtype.itemsize == layout.byte_length
    )


@lru_cache(maxsize=256)
def flat_call(dtype: DType, rounding: Rounding, nbytes: int) -> RoundCall:
    """The call, in place, on a piece of so many bytes of a larger tensor."""
    return RoundCall.packed_output(rounding, Layout.of(dtype, (nbytes // dtype.itemsize,)))
