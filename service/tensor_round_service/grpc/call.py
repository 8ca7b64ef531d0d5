"""One call of gRPC: the messages of a stream, and the responses to them."""

from __future__ import annotations

import struct
from collections.abc import Awaitable, Callable
from time import perf_counter

from tensor_round.contract.errors import (
    InvalidDescriptor,
    PayloadSizeMismatch,
    RequestRefused,
    TensorTooLarge,
    UnsupportedEncoding,
)
from tensor_round.contract.quoting import shown

from ..engine.job import Job, Observer
from ..gate import Gate, Span
from ..net.bodies import ByteSource, Parts, Progress, expect_end, read_all, read_up_to
from ..net.codings import DECODING_BYTES, Decoded, Runner, decoder_for, run_inline
from ..net.http2.serving import ServedStream
from .status import CallRefused, Status, trailers_of

#: Of each message: whether it is compressed, and its length in bytes.
_PREFIX = struct.Struct(">BI")
PREFIX_BYTES = _PREFIX.size
#: Bytes of a message that are looked at before its memory is reserved: less than the peer may send.
HEAD_BYTES = 4 << 10
#: The longest message without a tensor.
MAX_LENGTH = 64 << 10
#: Seconds of silence between two messages of a call.
MESSAGE_SECONDS = 60.0


class Rest:
    """The rest of one message among several, as a separate source."""

    def __init__(self, stream: ServedStream, length: int) -> None:
        self._stream = stream
        self.left = length

    @property
    def is_at_end(self) -> bool:
        """Whether all of the message has been read."""
        return not self.left

    def skip(self, nbytes: int) -> None:
        """Drop unread bytes."""
        self._stream.skip(nbytes)
        self.left -= nbytes

    async def receive_into(self, target: memoryview, progress: Progress | None = None) -> int:
        """Fill ``target``; see :class:`ByteSource`."""
        wanted = target[: self.left]
        count = await self._stream.receive_into(wanted, progress)
        self.left -= count
        if count < len(wanted):
            raise cut_off()
        return count


class Call:
    """One call: its stream, and what has been answered so far."""

    def __init__(
        self, stream: ServedStream, opening: bytes, gate: Gate, span: Span | None = None
    ) -> None:
        self.stream = stream
        self.gate = gate
        #: Observes the jobs of its inferences.
        self.observer: Observer | None = gate.metrics
        if span is not None and gate.metrics is not None:
            self.observer = span.observing(gate.metrics)
        #: The header block of the response.
        self._opening: bytes | None = opening
        #: Bytes of messages sent, prefixes included.
        self.sent = 0
        #: Whether its messages are counted one by one.
        self.is_counted = False

    async def begins(self) -> tuple[bool, int, bytes] | None:
        """Whether the next message is compressed, its length, and its first bytes.

        The prefix stays unread. None if there is no further message.
        """
        least, grace = PREFIX_BYTES, MESSAGE_SECONDS if self.stream.received else None
        start = await self.stream.peek(least, PREFIX_BYTES + HEAD_BYTES, grace)
        if len(start) < PREFIX_BYTES:
            if start:
                raise cut_off()
            return None
        compressed, length = _PREFIX.unpack_from(start)
        if compressed > 1:
            raise InvalidDescriptor("a message begins with a flag that is neither 0 nor 1")
        return bool(compressed), length, start[PREFIX_BYTES : PREFIX_BYTES + length]

    async def head(self, length: int) -> bytes:
        """The first bytes of a message of that length, as many as are looked at."""
        least = PREFIX_BYTES + min(length, HEAD_BYTES)
        return (await self.stream.peek(least, least))[PREFIX_BYTES:]

    async def message(
        self,
        job: Job,
        rest: ByteSource,
        length: int,
        *,
        is_compressed: bool,
        limit: int = MAX_LENGTH,
        run: Runner = run_inline,
    ) -> memoryview:
        """The rest of a message, after its prefix; the job reserves its memory.

        ``run`` decodes it if it is compressed.

        Raises :class:`TensorTooLarge` for more than ``limit`` bytes.
        """
        if length > limit:
            raise TensorTooLarge(
                f"the message has {length} bytes, the limit is {limit}",
                limit_bytes=limit,
                got_bytes=length,
            )
        if is_compressed:
            coding = self.stream.head.values.get(b"grpc-encoding", b"").decode("latin-1")
            try:
                decoder = decoder_for(coding)
            except UnsupportedEncoding:
                rule = f"grpc-encoding must be identity, gzip or deflate, got {shown(coding)}"
                raise UnsupportedEncoding(rule) from None
            if decoder is None:
                rule = "a message is compressed, but grpc-encoding names no coding"
                raise CallRefused(Status.INTERNAL, rule)
            job.reserve(DECODING_BYTES)
            rest, length = Decoded(rest, decoder, run), 0
        return memoryview(await read_all(rest, limit, job.reserve, length))

    async def request(self, job: Job) -> bytes | memoryview:
        """The one message of a unary call without a tensor."""
        found = await self.begins()
        if found is None:
            raise PayloadSizeMismatch("the call has no message")
        message = await self.small(job, *found)
        await expect_end(self.stream, found[1])
        return message

    async def small(
        self, job: Job, is_compressed: bool, length: int, _start: bytes
    ) -> bytes | memoryview:
        """A message without a tensor, whose begin was found."""
        self.stream.skip(PREFIX_BYTES)
        rest = Rest(self.stream, length)
        if length <= HEAD_BYTES and not is_compressed:  # also if the budget is used up
            return await read_up_to(rest, length)
        return await self.message(job, rest, length, is_compressed=is_compressed)

    def add(self, fields: bytes) -> None:
        """Add a header block to that of the response, before its first message."""
        if self._opening is not None:
            self._opening += fields

    async def infer_response(self, job: Job, parts: Parts, trailers: bytes | None) -> bool:
        """Send the response to an inference, and have its job count it."""
        job.route, job.response_bytes = self.stream.head.path, sum(map(len, parts))
        job.request_bytes = 0 if job.call is None else job.call.payload_bytes
        job.request_began = job.began if self.is_counted else self.stream.began
        job.observer, job.sending_since = self.observer, perf_counter()
        return await self.respond(parts, trailers)

    async def respond(self, parts: Parts, trailers: bytes | None = None) -> bool:
        """Send a message, whose first part begins with its prefix, and the end if given.

        Returns whether all was sent.
        """
        opening, self._opening = self._opening, None
        self.sent += sum(map(len, parts))
        return await self.stream.send(parts, trailers, head=opening)

    async def refuse(self, refusal: RequestRefused) -> bool:
        """End the call with a refusal; returns whether it was sent."""
        return await self.respond([], trailers_of(refusal))


#: Answers a call; returns whether all of the answer was sent. Raises refusals.
Method = Callable[[Call, Job], Awaitable[bool]]


def prefixed(message: bytes, following: int = 0) -> bytes:
    """A message with its prefix; ``following`` bytes of it follow elsewhere."""
    return _PREFIX.pack(0, len(message) + following) + message


def cut_off() -> PayloadSizeMismatch:
    """The refusal of a message whose end does not come."""
    return PayloadSizeMismatch("the message is cut off")
