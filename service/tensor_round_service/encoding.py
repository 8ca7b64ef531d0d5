"""Content-Encoding of answers: gzip or deflate, for those who ask."""

from __future__ import annotations

import zlib
from collections.abc import Sequence

from .decoding import WINDOWS

CODINGS = ("gzip", "deflate")
#: Tensors shrink little at any level; at this one, soon.
_LEVEL = 1


def encode(parts: Sequence[bytes | memoryview], coding: str) -> list[bytes]:
    """The parts in that coding, as one stream."""
    stream = zlib.compressobj(_LEVEL, wbits=WINDOWS[coding])
    packed = [stream.compress(part) for part in parts]
    return [*filter(None, packed), stream.flush()]
