"""Sources of bytes, whatever brings them: the bodies of requests, and ways to read them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from tensor_round.contract.errors import PayloadSizeMismatch, TensorTooLarge

#: A content in its order. Large parts are sent from where they lie.
Parts = Sequence[bytes | memoryview]

#: Bytes read at a time if the length is unknown.
PIECE_BYTES = 64 << 10

#: Called while a target is being filled, with the number of its bytes that are not filled yet.
Progress = Callable[[int], None]


class ClientDisconnected(Exception):
    """The client has disconnected, and waits for no response."""


class ByteSource(Protocol):
    """A stream of bytes that can be read once."""

    @property
    def is_at_end(self) -> bool:
        """Whether the stream is known to have no more bytes."""

    async def receive_into(self, target: memoryview, progress: Progress | None = None) -> int:
        """Fill ``target`` with the next bytes; return their count, less only at the end.

        ``progress`` may be called between reads; it may change the bytes filled so far.
        """


class Prefixed:
    """A source whose first bytes have been read already."""

    def __init__(self, first: memoryview, source: ByteSource) -> None:
        self._first = first
        self._source = source

    @property
    def is_at_end(self) -> bool:
        """Whether the source is known to have no more bytes."""
        return not self._first and self._source.is_at_end

    async def receive_into(self, target: memoryview, progress: Progress | None = None) -> int:
        """Fill ``target``; see :class:`ByteSource`."""
        count = min(len(self._first), len(target))
        target[:count] = self._first[:count]
        self._first = self._first[count:]
        if count == len(target):
            return count
        return count + await self._source.receive_into(target[count:], progress)


async def expect_end(source: ByteSource, nbytes: int) -> None:
    """Raise :class:`PayloadSizeMismatch` if bytes follow the ``nbytes`` that were read."""
    if not source.is_at_end and await source.receive_into(memoryview(bytearray(1))):
        raise PayloadSizeMismatch(f"the payload has more than the expected {nbytes} bytes")


async def read_all(
    source: ByteSource,
    limit_bytes: int,
    reserve: Callable[[int], None],
    stated_length: int = 0,
    *,
    piece_bytes: int = PIECE_BYTES,
) -> bytearray:
    """Read to the end; raises :class:`TensorTooLarge` beyond ``limit_bytes``.

    ``reserve`` is called before memory is allocated, and may raise. ``stated_length`` is the
    Content-Length, 0 without one. ``piece_bytes`` are allocated before the first byte comes.
    """
    if stated_length > limit_bytes:
        raise _too_large(limit_bytes)
    content = bytearray()
    step = min(piece_bytes, limit_bytes + 1)
    while True:
        start = len(content)
        reserve(step)
        content += bytes(step)
        with memoryview(content) as memory:
            count = await source.receive_into(memory[start:])
        if count < step:
            del content[start + count :]
            return content
        if len(content) > limit_bytes:
            raise _too_large(limit_bytes)
        step = max(stated_length + 1 - len(content), len(content) // 4, piece_bytes)
        step = min(step, limit_bytes + 1 - len(content))


async def read_up_to(source: ByteSource, nbytes: int) -> bytes:
    """Read ``nbytes`` bytes, or fewer if the source ends before."""
    read = bytearray(nbytes)
    count = await source.receive_into(memoryview(read))
    return bytes(read) if count == nbytes else bytes(read[:count])


def _too_large(limit_bytes: int) -> TensorTooLarge:
    return TensorTooLarge(
        f"the body has more than {limit_bytes} bytes; send larger tensors as binary data, and "
        "state its length",
        limit_bytes=limit_bytes,
    )
