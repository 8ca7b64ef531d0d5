"""The receive step of every request with a tensor: memory, body, and rounding meanwhile."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from time import perf_counter

from tensor_round.contract.call import Call
from tensor_round.contract.errors import PayloadSizeMismatch

from ..backends import Bytes
from ..net.bodies import ByteSource, Prefixed, expect_end
from .engine import Engine
from .job import Job
from .overlap import MIN_BYTES

#: Bytes of a body that must be received before the rest of its memory is reserved. With the head
#: they fit into one 64 KiB segment of the loopback interface.
ENOUGH_BYTES = 60 << 10
#: A request reserves no more than this until so many bytes of its body are received: a silent
#: client that declares a gigabyte must not hold a gigabyte of the budget.
FIRST_BYTES = 64 << 10


async def receive(
    call: Call,
    source: ByteSource,
    job: Job,
    engine: Engine,
    needed_bytes: int,
    *,
    parts: Sequence[slice] = (),
    overlaps: bool = True,
    refusal: Callable[[int], PayloadSizeMismatch] | None = None,
) -> Bytes:
    """Reserve memory, receive a call's payload into it, and store the time that took in the job.

    ``needed_bytes`` are still to be reserved. ``parts`` are those of the payload that come, in the
    order in which they come, if it does not come as a whole. With ``overlaps`` a large tensor is
    rounded in place while it arrives. ``job.began`` must be set.

    Raises ``refusal`` of a wrong length, and what source and budget raise.
    """
    if needed_bytes > FIRST_BYTES:
        source = await admit(source, job, needed_bytes)
    elif needed_bytes:
        job.reserve(needed_bytes)
    nbytes = call.payload_bytes
    memory = job.allocate(nbytes)
    progress = None
    if overlaps and call.nbytes >= MIN_BYTES:
        progress = engine.overlap(call, memory, job)
    lengths: tuple[int, ...] = call.lengths
    if parts:
        got, nbytes = 0, sum(part.stop - part.start for part in parts)
        lengths = (nbytes,)
        for part in parts:
            got += await source.receive_into(memory.data[part])
    else:
        got = await source.receive_into(memory.data, progress)
    if not source.is_at_end:
        await expect_end(source, nbytes)
    # Behind a shorter payload lies padding. No backend reads it, or leaves it in an output.
    if got != nbytes and got not in lengths:
        raise (refusal or call.wrong_size)(got)
    job.receive_seconds = perf_counter() - job.began
    if job.overlap is not None:
        job.execute_seconds = job.overlap.seconds
        job.receive_seconds -= job.execute_seconds
    return memory


async def admit(source: ByteSource, job: Job, nbytes: int) -> ByteSource:
    """Reserve the memory of a request; most of a large one's only after its body has begun.

    The returned source replaces ``source``. Raises :class:`TensorTooLarge` or
    :class:`Overloaded`.
    """
    if nbytes <= FIRST_BYTES:
        job.reserve(nbytes)
        return source
    # The client of a tensor without room gets a refusal before it sends much.
    job.reserve(FIRST_BYTES, pending=nbytes - FIRST_BYTES)
    first = memoryview(bytearray(ENOUGH_BYTES))
    received = await source.receive_into(first)
    job.reserve(nbytes - FIRST_BYTES)
    return Prefixed(first[:received], source)
