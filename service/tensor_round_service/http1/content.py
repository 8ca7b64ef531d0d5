"""The content of a request: its body with digests verified and codings undone, and read whole."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Callable

from tensor_round.errors import DigestMismatch, PayloadSizeMismatch, TensorTooLarge

from .coding import Decoder
from .request import ByteSource, Progress

#: Decoded at a time: some 0.3 ms of work, after which others have their turn.
STEP_BYTES = 256 << 10
#: Read at a time, where nobody knows how much will come.
PIECE_BYTES = 64 << 10
#: Hashed on a thread from this size on.
_LONG_BYTES = 256 << 10


class Prefixed:
    """A source whose first bytes have been received before."""

    def __init__(self, first: memoryview, source: ByteSource) -> None:
        self._first = first
        self._source = source

    @property
    def is_at_end(self) -> bool:
        """Whether it is known that no bytes are left."""
        return not self._first and self._source.is_at_end

    async def receive_into(self, target: memoryview, progress: Progress | None = None) -> int:
        """Fill ``target``; fewer bytes only at the end."""
        count = min(len(self._first), len(target))
        target[:count] = self._first[:count]
        self._first = self._first[count:]
        if count == len(target):
            return count
        return count + await self._source.receive_into(target[count:], progress)


class Verified:
    """A source whose bytes must have a SHA-256 (RFC 9530); :class:`DigestMismatch` at the end."""

    def __init__(self, source: ByteSource, sha256: bytes) -> None:
        self._source = source
        self._expected = sha256
        self._hash = hashlib.sha256()
        self.is_at_end = False

    async def receive_into(self, target: memoryview, progress: Progress | None = None) -> int:
        """Fill ``target``; fewer bytes only at the end. ``progress`` is not called.

        Nobody may change bytes that are still to be hashed.
        """
        count = await self._source.receive_into(target)
        if count > _LONG_BYTES:
            await asyncio.to_thread(self._hash.update, target[:count])
        else:
            self._hash.update(target[:count])
        self.is_at_end = count < len(target) or self._source.is_at_end
        if self.is_at_end and self._hash.digest() != self._expected:
            raise DigestMismatch("the body's SHA-256 is not the one that Content-Digest states")
        return count


class Decoded:
    """A source with its Content-Encoding undone. ``progress`` is not called."""

    def __init__(self, source: ByteSource, decoder: Decoder) -> None:
        self._source = source
        self._decoder = decoder
        self._piece = memoryview(bytearray(PIECE_BYTES))
        self.is_at_end = False

    async def receive_into(self, target: memoryview, progress: Progress | None = None) -> int:
        """Fill ``target``; fewer bytes only at the end."""
        filled = 0
        while filled < len(target):
            decoded = self._decoder.decode(min(STEP_BYTES, len(target) - filled))
            if decoded:
                target[filled : filled + len(decoded)] = decoded
                filled += len(decoded)
                await asyncio.sleep(0)  # decoding is work: let others have their turn
            elif self._source.is_at_end or not (
                count := await self._source.receive_into(self._piece)
            ):
                self._decoder.finish()
                self.is_at_end = True
                break
            else:
                self._decoder.feed(bytes(self._piece[:count]))
        return filled


async def fill(source: ByteSource, target: memoryview, progress: Progress | None = None) -> int:
    """Receive all that is left into ``target``; how many bytes they were.

    Raises :class:`PayloadSizeMismatch` if there are more.
    """
    count = await source.receive_into(target, progress)
    if source.is_at_end or count < len(target):
        return count
    if await source.receive_into(memoryview(bytearray(1))):
        raise PayloadSizeMismatch(
            f"the payload has more than the {len(target)} bytes that it should have"
        )
    return count


async def read(
    source: ByteSource, limit_bytes: int, reserve: Callable[[int], None], likely: int = 0
) -> bytearray:
    """All that is left, of at most so many bytes; :class:`TensorTooLarge` if there are more.

    ``reserve`` is asked for memory before it is taken, and may refuse it. ``likely`` is a length
    that was stated.
    """
    content = bytearray()
    room = min(max(likely + 1, PIECE_BYTES), limit_bytes + 1)
    while True:
        start = len(content)
        reserve(room)
        content += bytes(room)
        with memoryview(content) as memory:
            count = await source.receive_into(memory[start:])
        if count < room:
            del content[start + count :]
            return content
        if len(content) > limit_bytes:
            raise TensorTooLarge(
                f"the body has more than {limit_bytes} bytes; send larger tensors as binary "
                "data, and state its length",
                limit_bytes=limit_bytes,
            )
        room = min(max(len(content) // 4, PIECE_BYTES), limit_bytes + 1 - len(content))


async def take(source: ByteSource, nbytes: int) -> bytes:
    """The next bytes, or fewer where they end before."""
    taken = bytearray(nbytes)
    count = await source.receive_into(memoryview(taken))
    return bytes(taken) if count == nbytes else bytes(taken[:count])
