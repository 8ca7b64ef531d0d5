"""Content codings (RFC 9110, section 8.4.1): gzip and deflate, with bounded output and input."""

from __future__ import annotations

import zlib
from collections.abc import Sequence

from tensor_round.contract.errors import MalformedEncoding, UnsupportedEncoding

#: ``wbits`` arguments of zlib: 31 selects the gzip format, 15 the zlib format ("deflate" in HTTP).
WINDOWS = {"gzip": 31, "x-gzip": 31, "deflate": 15}
#: Codings for responses, in order of preference.
CODINGS = ("gzip", "deflate")
#: The encoded body may have twice the length of the decoded one plus this. Encoders add 0.1 % at
#: the worst, but an empty gzip member takes 20 bytes and decodes to none.
_SLACK_BYTES = 64 << 10
#: The fastest level: higher ones compress tensors hardly better.
_LEVEL = 1


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
                raise MalformedEncoding("the encoded body is much longer than what it decodes to")
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
    if name in ("", "identity"):
        return None
    window = WINDOWS.get(name)
    if window is None:
        raise UnsupportedEncoding(
            f"Content-Encoding must be identity, gzip or deflate, got {coding[:40]!a}"
        )
    return Decoder(window)


def encode(parts: Sequence[bytes | memoryview], coding: str) -> list[bytes]:
    """Encode the parts as one stream."""
    stream = zlib.compressobj(_LEVEL, wbits=WINDOWS[coding])
    encoded = [stream.compress(part) for part in parts]
    return [*filter(None, encoded), stream.flush()]


def max_encoded_length(nbytes: int) -> int:
    """Upper bound of the length of :func:`encode`'s output: stored blocks and a header."""
    return nbytes + nbytes // 1000 + 1024
