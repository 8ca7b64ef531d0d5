"""A header block, while its frames come (RFC 9113, section 4.3)."""

from __future__ import annotations

from .frames import END_STREAM, PADDED, PRIORITIZED, Code
from .limits import ConnectionFault, SessionLimits


class Block:
    """The block that a HEADERS frame begins and CONTINUATION goes on with.

    ``began`` is the number of that frame on its connection.
    """

    __slots__ = ("_frames", "_limits", "began", "content", "ends", "number")

    def __init__(self, number: int, flags: int, limits: SessionLimits, began: int) -> None:
        self.number = number
        #: Whether the stream ends with it.
        self.ends = bool(flags & END_STREAM)
        self.content = b""
        self.began = began
        self._frames = 0
        self._limits = limits

    def add(self, part: bytes) -> None:
        """Add what a frame has of it; raises :class:`ConnectionFault` at the limits."""
        self.content += part
        self._frames += 1
        limits = self._limits
        if (
            len(self.content) > limits.max_block_bytes
            or self._frames > limits.max_continuations + 1
        ):
            raise ConnectionFault(Code.ENHANCE_YOUR_CALM, "a header block is too long")


def first_part(flags: int, payload: bytes) -> bytes:
    """What a HEADERS frame has of its block: the payload without padding and priority."""
    begin, padding = 0, 0
    if flags & PADDED:
        begin, padding = 1, payload[0] if payload else 0
    if flags & PRIORITIZED:
        begin += 5
    if begin + padding > len(payload):
        raise ConnectionFault(Code.PROTOCOL_ERROR, "the padding is longer than its frame")
    return payload[begin : len(payload) - padding]
