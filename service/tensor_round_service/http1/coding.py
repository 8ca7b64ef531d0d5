"""Content codings (RFC 9110, section 8.4): gzip and deflate, a bounded piece at a time."""

from __future__ import annotations

import zlib
from collections.abc import Sequence

from tensor_round.errors import MalformedEncoding, UnsupportedEncoding

#: zlib's window arguments: 31 is a gzip wrapper, 15 the zlib one that HTTP calls deflate.
WINDOWS = {"gzip": 31, "x-gzip": 31, "deflate": 15}
#: What a response may be encoded in, the better first.
CODINGS = ("gzip", "deflate")
#: The most bytes that one encoded byte can become: 258 of two bits.
INFLATION = 1032
#: Encoded bytes may be twice the decoded ones, and so many more. Encoders make a thousandth more
#: at the worst, but an empty member of gzip takes 20 bytes and decodes to none.
_SLACK_BYTES = 64 << 10
#: Tensors shrink little at any level; at this one, soon.
_LEVEL = 1


class Decoder:
    """Decodes gzip (members one after another, as RFC 1952 allows) or deflate.

    What comes in is bounded beside what goes out: members that hold nothing would be read for
    ever. Raises :class:`MalformedEncoding`.
    """

    def __init__(self, window: int) -> None:
        self._window = window
        self._stream = zlib.decompressobj(window)
        self._encoded = b""
        self._fed = self._decoded = 0

    def feed(self, encoded: bytes) -> None:
        """Take the next bytes as they came; the last ones must be used up (:meth:`decode`)."""
        self._encoded = encoded
        self._fed += len(encoded)

    def decode(self, most: int) -> bytes:
        """The next decoded bytes, at most so many; empty when more must be fed."""
        while self._encoded or self._stream.unconsumed_tail:
            if self._stream.eof:
                if self._window != WINDOWS["gzip"]:
                    raise MalformedEncoding("bytes follow the end of the deflate stream")
                self._stream = zlib.decompressobj(self._window)
            try:
                decoded = self._stream.decompress(self._encoded, most)
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
        """Check at the body's end that the stream ended too."""
        if not self._stream.eof:
            raise MalformedEncoding("the body ends before its compressed stream does")


def decoder_for(coding: str) -> Decoder | None:
    """What undoes this Content-Encoding; None for identity, also where the field is empty."""
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
    """The parts in that coding, as one stream."""
    stream = zlib.compressobj(_LEVEL, wbits=WINDOWS[coding])
    encoded = [stream.compress(part) for part in parts]
    return [*filter(None, encoded), stream.flush()]


def most_encoded(nbytes: int) -> int:
    """The most bytes that :func:`encode` makes of so many: stored blocks, and a wrapper."""
    return nbytes + nbytes // 1000 + 1024
