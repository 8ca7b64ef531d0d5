"""Admission: the memory of a request is reserved before its body is asked for."""

from __future__ import annotations

from ..content.sources import ByteSource, Prefixed
from .job import FIRST_BYTES, Job

#: Bytes of a body that must be received before the rest of its memory is reserved. With the head
#: they fit into one 64 KiB segment of the loopback interface.
ENOUGH_BYTES = 60 << 10


async def admit(source: ByteSource, job: Job, nbytes: int) -> ByteSource:
    """Reserve the memory of a request; most of a large one's only after its body has begun.

    The returned source replaces ``source``. Raises :class:`TensorTooLarge` or
    :class:`Overloaded`.
    """
    if nbytes <= FIRST_BYTES:
        job.reserve(nbytes)
        return source
    job.reserve_first(nbytes)
    first = memoryview(bytearray(ENOUGH_BYTES))
    received = await source.receive_into(first)
    job.reserve_rest()
    return Prefixed(first[:received], source)
