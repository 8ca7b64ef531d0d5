"""The way of a body from the server into one buffer: streamed, decoded, digested, bounded."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

from tensor_round.errors import DigestMismatch, PayloadSizeMismatch, TensorTooLarge

from .admission import ENOUGH_BYTES, FIRST_BYTES
from .buffers import Lease
from .decoding import Decoder
from .direct import DirectExchange, Progress, SenderGone

Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]


class Body:
    """The body of one request, read once, piece by piece.

    ``sha256`` is what the sender says the digest of its bytes on the wire is
    (RFC 9530's Content-Digest); it is compared at the body's end.
    """

    def __init__(
        self,
        receive: Receive,
        decoder: Decoder | None = None,
        sha256: bytes | None = None,
        direct: DirectExchange | None = None,
    ) -> None:
        self._receive = receive
        self._exchange = direct
        self._direct = direct if decoder is None else None
        if direct is not None:
            direct.expect()
        self._decoder = decoder
        self._expected = sha256
        self._hash = hashlib.sha256() if sha256 is not None else None
        self._ended = False
        #: What came with the bytes that were taken.
        self._kept = memoryview(b"")

    async def take(self, nbytes: int) -> bytes:
        """The next ``nbytes`` of the content, or fewer where it ends before."""
        if self._direct is not None and self._hash is None and not self._kept:
            here = self._direct.take(nbytes)
            if here is not None:
                return here
        taken = await self.piece() or b""
        if len(taken) < nbytes:
            gathered = bytearray(taken)
            while len(gathered) < nbytes and (piece := await self.piece()) is not None:
                gathered += piece
            taken = bytes(gathered)
        self._kept = memoryview(taken)[nbytes:]
        return taken[:nbytes]

    async def piece(self) -> bytes | None:
        """The next bytes of the content, decoded; None at its end."""
        if self._kept:
            kept, self._kept = self._kept, memoryview(b"")
            return bytes(kept)
        if self._decoder is None:
            return await self._raw()
        while not (unpacked := self._decoder.step()):
            packed = await self._raw()
            if packed is None:
                self._decoder.finish()
                return None
            self._decoder.feed(packed)
        await asyncio.sleep(0)  # unpacking is work: let others have their turn
        return unpacked

    async def _raw(self) -> bytes | None:
        while not self._ended:
            message = await self._receive()
            if self._exchange is not None and self._exchange.failure is not None:
                raise self._exchange.failure
            if message["type"] == "http.disconnect":
                raise SenderGone
            self._ended = not message.get("more_body", False)
            data: bytes = message.get("body", b"")
            if self._hash is not None:
                self._hash.update(data)
            if data:
                return data
        self._check_digest()
        return None

    def _check_digest(self) -> None:
        if self._hash is not None and self._hash.digest() != self._expected:
            raise DigestMismatch("the body's SHA-256 is not the one that Content-Digest states")

    async def admit(self, lease: Lease, nbytes: int) -> None:
        """Reserve what the request needs: a little first, the rest once its body comes.

        Raises :class:`TensorTooLarge` or :class:`Overloaded`, before the body is read.
        """
        lease.reserve_first(nbytes)
        if self._exchange is not None and nbytes > FIRST_BYTES and len(self._kept) < ENOUGH_BYTES:
            await self._exchange.arrival(ENOUGH_BYTES - len(self._kept))
        lease.reserve_rest()

    async def fill(
        self,
        target: memoryview,
        first: bytes | memoryview = b"",
        progress: Progress | None = None,
    ) -> int:
        """Receive the rest into ``target``, after the bytes in ``first``; how many they are.

        ``progress`` is told after reads how many bytes are to come; it may change those that
        have. It is told nothing of a body that is still to be digested, or comes in messages.
        Raises :class:`PayloadSizeMismatch` as soon as they are too many.
        """
        if self._kept:
            first, self._kept = self._kept, memoryview(b"")
        if self._direct is not None and self._direct.remaining == len(target) - len(first):
            if first or self._hash is not None or not self._direct.take_into(target):
                target[: len(first)] = first
                await self._fill_directly(self._direct, target[len(first) :], progress)
            self._ended = True
            return len(target)
        filled = 0
        piece: bytes | memoryview | None = first
        while piece is not None:
            end = filled + len(piece)
            if end > len(target):
                raise PayloadSizeMismatch(
                    f"the payload has more than the {len(target)} bytes that it should have"
                )
            target[filled:end] = piece
            filled = end
            piece = await self.piece()
        return filled

    async def _fill_directly(
        self, direct: DirectExchange, target: memoryview, progress: Progress | None
    ) -> None:
        await direct.receive_into(target, progress if self._hash is None else None)
        if self._hash is not None:
            await asyncio.to_thread(self._hash.update, target)
            self._check_digest()

    async def gather(self, limit_bytes: int) -> int:
        """Receive the whole content and keep it for :meth:`fill`; how many bytes it has."""
        content = await self.read(limit_bytes)
        self._kept = memoryview(content)
        return len(content)

    async def read(self, limit_bytes: int) -> bytes:
        """The whole content, of at most that many bytes; :class:`TensorTooLarge` if it has more."""
        content = bytearray()
        while (piece := await self.piece()) is not None:
            content += piece
            if len(content) > limit_bytes:
                raise TensorTooLarge(
                    f"the body has more than {limit_bytes} bytes; send larger tensors as binary "
                    "data, and state its length",
                    limit_bytes=limit_bytes,
                )
        return bytes(content)
