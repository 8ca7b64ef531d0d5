"""Codings and digests of a content: sources that decode and verify, and the same of a response."""

from __future__ import annotations

import asyncio
import hashlib
import zlib
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Protocol, TypeVar

from tensor_round.contract.errors import DigestMismatch, MalformedEncoding, UnsupportedEncoding
from tensor_round.contract.progress import Pause, no_pause
from tensor_round.contract.quoting import shown
from tensor_round.contract.wire import http_fields

from .bodies import PIECE_BYTES, ByteSource, Parts, Progress

#: Bytes that are coded between two pauses: about 0.3 ms of work. So many of a body are decoded on
#: the event loop, and the rest beside it.
STEP_BYTES = 256 << 10
#: Bytes that are hashed between two pauses.
_HASH_STEP_BYTES = 1 << 20
#: Larger pieces are hashed beside the event loop.
_INLINE_HASH_BYTES = 256 << 10
#: Memory of a source that decodes: a piece, its copy, what zlib leaves of that, and zlib's state.
DECODING_BYTES = 3 * PIECE_BYTES + (64 << 10)

#: ``wbits`` arguments of zlib: 31 selects the gzip format, 15 the zlib format ("deflate" in HTTP).
WINDOWS = {"gzip": 31, "x-gzip": 31, "deflate": 15}
#: Codings for responses, in order of preference.
CODINGS = ("gzip", "deflate")
#: The encoded body may have twice the length of the decoded one plus this. Encoders add 0.1 % at
#: the worst, but an empty gzip member takes 20 bytes and decodes to none.
_SLACK_BYTES = 64 << 10
#: The fastest level: higher ones compress tensors hardly better.
_LEVEL = 1

IDENTITY = "identity"
T = TypeVar("T")


class Runner(Protocol):
    """Runs long work beside the event loop; the work gets its pause."""

    def __call__(self, work: Callable[[Pause], T], /) -> Awaitable[T]:
        """The result of ``work``, which is over in any case when this returns or raises."""


async def run_inline(work: Callable[[Pause], T]) -> T:
    """Run short work on the event loop."""
    return work(no_pause)


class Verified:
    """A source that checks digests of its bytes, by their algorithms, at the end (RFC 9530).

    Raises :class:`DigestMismatch`.
    """

    def __init__(
        self, source: ByteSource, digests: Mapping[str, bytes], runner: Runner = run_inline
    ) -> None:
        self._source = source
        self._runner = runner
        self._expected = digests
        self._hashes = {name: http_fields.ALGORITHMS[name]() for name in digests}
        self.is_at_end = False

    async def receive_into(self, target: memoryview, progress: Progress | None = None) -> int:
        """Fill ``target``; see :class:`~.sources.ByteSource`.

        ``progress`` is not called, because it may change bytes that are not hashed yet.
        """
        count = await self._source.receive_into(target)
        if count > _INLINE_HASH_BYTES:
            await self._runner(partial(self._update, [target[:count]]))
        else:
            self._update([target[:count]])
        self.is_at_end = count < len(target) or self._source.is_at_end
        if self.is_at_end:
            for name, stated in self._expected.items():
                if self._hashes[name].digest() != stated:
                    raise DigestMismatch(f"the body's {name.upper()} differs from Content-Digest")
        return count

    def _update(self, parts: Parts, pause: Pause = no_pause) -> None:
        for found in self._hashes.values():
            _update(found, parts, pause)


class Decoded:
    """A source that decodes a Content-Encoding. ``progress`` is not called.

    It takes :data:`DECODING_BYTES` of memory.
    """

    def __init__(self, source: ByteSource, decoder: Decoder, runner: Runner = run_inline) -> None:
        self._source = source
        self._decoder = decoder
        self._runner = runner
        self._piece = memoryview(bytearray(PIECE_BYTES))
        #: Bytes that may still be decoded on the event loop.
        self._inline = STEP_BYTES
        self.is_at_end = False

    async def receive_into(self, target: memoryview, progress: Progress | None = None) -> int:
        """Fill ``target``; see :class:`~.sources.ByteSource`."""
        filled = 0
        while filled < len(target):
            part = target[filled:]
            if self._inline:
                part = part[: self._inline]
                count = self._decode_into(part, no_pause)
                self._inline -= count
                await asyncio.sleep(0)  # let the event loop serve other connections
            else:
                count = await self._runner(partial(self._decode_into, part))
            filled += count
            if count == len(part):
                continue
            if self._source.is_at_end or not (
                received := await self._source.receive_into(self._piece)
            ):
                self._decoder.finish()
                self.is_at_end = True
                break
            self._decoder.feed(bytes(self._piece[:received]))
        return filled

    def _decode_into(self, target: memoryview, pause: Pause) -> int:
        """Decode what has been fed until it is used up, or the target is full."""
        filled = 0
        while filled < len(target):
            decoded = self._decoder.decode(min(STEP_BYTES, len(target) - filled))
            if not decoded:
                break
            target[filled : filled + len(decoded)] = decoded
            filled += len(decoded)
            pause()
        return filled


class Decoder:
    """Decodes gzip, with several members if there are (RFC 1952), or deflate.

    The length of the input is bounded by the length of the output: without a bound, a sender
    could send empty members for ever. Raises :class:`MalformedEncoding`.
    """

    def __init__(self, window: int) -> None:
        self._window = window
        self._stream = zlib.decompressobj(window)
        self._encoded = b""
        self._fed = self._decoded = 0

    def feed(self, encoded: bytes) -> None:
        """Set the next encoded bytes, after :meth:`decode` has used up the previous ones."""
        self._encoded = encoded
        self._fed += len(encoded)

    def decode(self, max_bytes: int) -> bytes:
        """Return up to ``max_bytes`` decoded bytes; none if more input is needed."""
        while self._encoded or self._stream.unconsumed_tail:
            if self._stream.eof:
                if self._window != WINDOWS["gzip"]:
                    raise MalformedEncoding("bytes follow the end of the deflate stream")
                self._stream = zlib.decompressobj(self._window)
            try:
                decoded = self._stream.decompress(self._encoded, max_bytes)
            except zlib.error:
                raise MalformedEncoding(
                    "the body does not decode as its Content-Encoding"
                ) from None
            self._encoded = self._stream.unconsumed_tail or self._stream.unused_data
            self._decoded += len(decoded)
            if self._fed - len(self._encoded) > 2 * self._decoded + _SLACK_BYTES:
                raise MalformedEncoding("the encoded body is much longer than the decoded one")
            if decoded:
                return decoded
        return b""

    def finish(self) -> None:
        """Check, at the end of the body, that the compressed stream has ended."""
        if not self._stream.eof:
            raise MalformedEncoding("the body ends before its compressed stream does")


def decoder_for(coding: str) -> Decoder | None:
    """The decoder of a Content-Encoding; None for identity and for an empty field."""
    name = coding.strip().lower()
    if name in ("", IDENTITY):
        return None
    window = WINDOWS.get(name)
    if window is None:
        raise UnsupportedEncoding(
            f"Content-Encoding must be identity, gzip or deflate, got {shown(coding)}"
        )
    return Decoder(window)


def encode(parts: Parts, coding: str, pause: Pause = no_pause) -> list[bytes]:
    """Encode the parts as one stream."""
    stream = zlib.compressobj(_LEVEL, wbits=WINDOWS[coding])
    encoded: list[bytes] = []
    for piece in pieces(parts, STEP_BYTES):
        encoded.append(stream.compress(piece))
        pause()
    return [*filter(None, encoded), stream.flush()]


def digest_of(algorithm: str, parts: Parts, pause: Pause = no_pause) -> bytes:
    """The digest of the parts together."""
    digest = http_fields.ALGORITHMS[algorithm]()
    _update(digest, parts, pause)
    return digest.digest()


def _update(digest: hashlib._Hash, parts: Parts, pause: Pause) -> None:
    for piece in pieces(parts, _HASH_STEP_BYTES):
        digest.update(piece)
        pause()


def pieces(parts: Parts, nbytes: int) -> Iterator[memoryview]:
    """The parts in pieces of at most ``nbytes`` bytes."""
    for part in parts:
        whole = memoryview(part)
        for start in range(0, len(whole), nbytes):
            yield whole[start : start + nbytes]


def max_encoded_length(nbytes: int) -> int:
    """Upper bound of the length of :func:`encode`'s output: stored blocks and a header."""
    return nbytes + nbytes // 1000 + 1024


def preferred_coding(accept_encoding: str, codings: Sequence[str]) -> str:
    """The coding with the highest weight, of ``codings`` and ``identity``; the first of equals.

    A coding that the field does not name is never chosen. If none is acceptable the result is
    ``identity``: a response in a coding that was not asked for is better than none.
    """
    return _heaviest(_weights(accept_encoding), codings)


def requested_coding(accept_encoding: str, codings: Sequence[str]) -> str:
    """The coding of ``codings`` that the field prefers to every other that it names.

    Many clients list all codings that they can decode. That is no request to spend more time on
    compressing a tensor than on everything else, so of equals the result is ``identity``, unless
    the field refuses that.
    """
    weights = _weights(accept_encoding)
    if not weights.get(IDENTITY, weights.get("*", 1.0)):
        return _heaviest(weights, codings)
    most = max(weights.values(), default=0.0)
    first, *others = [coding for coding, weight in weights.items() if weight == most] or [IDENTITY]
    return first if most and not others and first in codings else IDENTITY


def _weights(accept_encoding: str) -> dict[str, float]:
    """The weights of the codings that the field names, in its order."""
    weights: dict[str, float] = {}
    for member in accept_encoding.split(","):
        coding, *parameters = (part.strip(" \t").lower() for part in member.split(";"))
        if coding := coding.removeprefix("x-"):
            weights[coding] = max(weights.get(coding, 0.0), _weight(parameters))
    return weights


def _heaviest(weights: Mapping[str, float], codings: Sequence[str]) -> str:
    best, best_weight = IDENTITY, 0.0
    for coding, weight in weights.items():
        if coding in (IDENTITY, *codings) and weight > best_weight:
            best, best_weight = coding, weight
    return best


def _weight(parameters: Sequence[str]) -> float:
    for parameter in parameters:
        name, _, value = parameter.partition("=")
        if name.rstrip() == "q":
            try:
                weight = float(value)
            except ValueError:
                return 0.0
            return weight if 0.0 <= weight <= 1.0 else 0.0
    return 1.0
