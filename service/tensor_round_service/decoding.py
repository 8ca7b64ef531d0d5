"""Content-Encoding undone a bounded piece at a time, so that no bomb goes off."""

from __future__ import annotations

import zlib

from tensor_round.errors import MalformedEncoding, UnsupportedEncoding

#: The most that one step unpacks: some 0.3 ms of work, after which others have their turn.
STEP_BYTES = 256 << 10

#: zlib's window arguments: 31 is a gzip wrapper, 15 the zlib one that HTTP calls deflate.
WINDOWS = {"gzip": 31, "x-gzip": 31, "deflate": 15}
#: The most bytes that one packed byte can become: 258 of two bits.
INFLATION = 1032


class Decoder:
    """Unpacks gzip (members one after another, as RFC 1952 allows) or deflate."""

    def __init__(self, window: int) -> None:
        self._window = window
        self._stream = zlib.decompressobj(window)
        self._packed = b""

    def feed(self, packed: bytes) -> None:
        """Take the next bytes as they came; the last ones must be used up (:meth:`step`)."""
        self._packed = packed

    def step(self) -> bytes:
        """The next unpacked bytes, at most ``STEP_BYTES``; empty when more must be fed."""
        while self._packed or self._stream.unconsumed_tail:
            if self._stream.eof:
                if self._window != 31:
                    raise MalformedEncoding("bytes follow the end of the deflate stream")
                self._stream = zlib.decompressobj(self._window)
            try:
                unpacked = self._stream.decompress(self._packed, STEP_BYTES)
            except zlib.error:
                raise MalformedEncoding(
                    "the body does not decode as its Content-Encoding"
                ) from None
            self._packed = self._stream.unconsumed_tail or self._stream.unused_data
            if unpacked:
                return unpacked
        return b""

    def finish(self) -> None:
        """Check at the body's end that the stream ended too."""
        if not self._stream.eof:
            raise MalformedEncoding("the body ends before its compressed stream does")


def is_encoded(encoding: str) -> bool:
    """Whether a Content-Encoding changes the body's bytes."""
    return encoding.strip().lower() not in ("", "identity")


def decoder_for(encoding: str) -> Decoder | None:
    """What undoes this Content-Encoding; None for identity, also where the field is empty."""
    if not is_encoded(encoding):
        return None
    window = WINDOWS.get(encoding.strip().lower())
    if window is None:
        raise UnsupportedEncoding("Content-Encoding must be identity, gzip or deflate")
    return Decoder(window)
