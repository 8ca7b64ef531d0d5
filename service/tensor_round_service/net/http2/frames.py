"""Frames of HTTP/2 (RFC 9113, sections 4, 6 and 7): kinds, flags, codes; how they are written."""

from __future__ import annotations

import struct
from enum import IntEnum

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
HEAD_BYTES = 9
#: The window of a stream and of a connection before a side says anything, and the largest.
DEFAULT_WINDOW = (1 << 16) - 1
MAX_WINDOW = (1 << 31) - 1
#: What may come unasked on a stream, and on a connection: with the default window a message with a
#: tensor of 64 KiB would be 36 bytes too long, and take another round trip.
FIRST_WINDOW = 68 << 10
#: The longest payload that each side takes unless it says more, and the longest of all.
MIN_FRAME_BYTES = 1 << 14
MAX_FRAME_BYTES = (1 << 24) - 1
#: The number of a stream, whose first bit is reserved.
MAX_NUMBER = (1 << 31) - 1

END_STREAM = ACK = 0x1
END_HEADERS = 0x4
PADDED = 0x8
PRIORITIZED = 0x20

#: The head of a frame: its length in two parts, its kind, flags and stream.
HEAD = struct.Struct(">HBBBI")
_NUMBER = struct.Struct(">I")
#: One of the values in SETTINGS: its name, and its value.
SETTING = struct.Struct(">HI")


class Kind(IntEnum):
    """The kinds of frames."""

    DATA = 0
    HEADERS = 1
    PRIORITY = 2
    RST_STREAM = 3
    SETTINGS = 4
    PUSH_PROMISE = 5
    PING = 6
    GOAWAY = 7
    WINDOW_UPDATE = 8
    CONTINUATION = 9


#: The kinds whose content says something to a server. It ignores that of others, of any length
#: (sections 4.1 and 5.5).
USED = frozenset(Kind) - {Kind.GOAWAY}
#: The most bytes of HEADERS beside its part of a block: padding, and a priority.
MAX_PADDING = 1 + 255 + 5
PRIORITY_BYTES = 5
#: The lengths that the payloads of frames of control may have.
ANY_LENGTH = range(MAX_FRAME_BYTES + 1)
LENGTHS: dict[int, range] = {
    Kind.RST_STREAM: range(4, 5),
    Kind.PING: range(8, 9),
    Kind.GOAWAY: range(8, MAX_FRAME_BYTES + 1),
    Kind.WINDOW_UPDATE: range(4, 5),
}


class Code(IntEnum):
    """Why a stream is reset, or a connection closed."""

    NO_ERROR = 0
    PROTOCOL_ERROR = 1
    INTERNAL_ERROR = 2
    FLOW_CONTROL_ERROR = 3
    STREAM_CLOSED = 5
    FRAME_SIZE_ERROR = 6
    REFUSED_STREAM = 7
    CANCEL = 8
    COMPRESSION_ERROR = 9
    ENHANCE_YOUR_CALM = 11


class Setting(IntEnum):
    """The settings of a side."""

    HEADER_TABLE_SIZE = 1
    ENABLE_PUSH = 2
    MAX_CONCURRENT_STREAMS = 3
    INITIAL_WINDOW_SIZE = 4
    MAX_FRAME_SIZE = 5
    MAX_HEADER_LIST_SIZE = 6


def frame_head(kind: int, flags: int, stream: int, length: int) -> bytes:
    """The head of a frame whose payload has ``length`` bytes."""
    return HEAD.pack(length >> 8, length & 0xFF, kind, flags, stream)


def frame(kind: int, flags: int, stream: int, payload: bytes = b"") -> bytes:
    """A whole frame."""
    length = len(payload)
    return HEAD.pack(length >> 8, length & 0xFF, kind, flags, stream) + payload


def headers(stream: int, block: bytes, *, ends: bool) -> bytes:
    """A header block in one HEADERS, and CONTINUATION if it is longer than a frame."""
    begin, kind, flags = b"", Kind.HEADERS, END_STREAM if ends else 0
    while len(block) > MIN_FRAME_BYTES:
        begin += frame(kind, flags, stream, block[:MIN_FRAME_BYTES])
        kind, flags, block = Kind.CONTINUATION, 0, block[MIN_FRAME_BYTES:]
    return begin + frame(kind, flags | END_HEADERS, stream, block)


def settings(values: dict[Setting, int]) -> bytes:
    """A SETTINGS frame."""
    payload = b"".join([SETTING.pack(*pair) for pair in values.items()])
    return frame(Kind.SETTINGS, 0, 0, payload)


def window_update(stream: int, nbytes: int) -> bytes:
    """Let the peer send more bytes; stream 0 is the connection."""
    return frame(Kind.WINDOW_UPDATE, 0, stream, _NUMBER.pack(nbytes))


def rst_stream(stream: int, code: Code) -> bytes:
    """End a stream at once."""
    return frame(Kind.RST_STREAM, 0, stream, _NUMBER.pack(code))


def goaway(last: int, code: Code, reason: str = "") -> bytes:
    """End a connection; streams with a number above ``last`` were not served."""
    return frame(Kind.GOAWAY, 0, 0, _NUMBER.pack(last) + _NUMBER.pack(code) + reason.encode())
