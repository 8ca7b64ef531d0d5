"""Header blocks: while their frames come (RFC 9113, section 4.3), and what they say."""

from __future__ import annotations

from tensor_round.contract.errors import HeadersTooLarge

from .fields import Decoder, Field
from .frames import END_STREAM, PADDED, PRIORITIZED, Code
from .head import RequestHead
from .limits import ConnectionFault, SessionLimits

#: Blocks up to this size may be kept: those whose fields are in the table, but for a few.
_KEPT_BYTES = 128


class Block:
    """The block that a HEADERS frame begins and CONTINUATION goes on with."""

    __slots__ = ("_frames", "_limits", "content", "ends", "number")

    def __init__(self, number: int, flags: int, limits: SessionLimits) -> None:
        self.number = number
        #: Whether the stream ends with it.
        self.ends = bool(flags & END_STREAM)
        self.content = b""
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


class BlockReader:
    """Reads the header blocks of one connection, one after another.

    Clients send the same few bytes for each call to a method: the last such head is kept. It has
    little but what the decoder's table has.
    """

    __slots__ = ("_block", "_decoder", "_fields", "_head", "_limits")

    def __init__(self, limits: SessionLimits) -> None:
        self._limits = limits
        self._decoder = Decoder(limits.max_list_bytes, limits.max_fields)
        #: A block since which nothing has changed the table, and what it says.
        self._block: bytes | None = None
        self._fields: list[Field] = []
        self._head: RequestHead | None = None

    def fields(self, block: bytes) -> list[Field]:
        """The fields of a block; raises :class:`ConnectionFault`."""
        if block == self._block:
            return self._fields
        fields = self._decoder.decode(block)
        is_kept = len(block) <= _KEPT_BYTES and not self._decoder.has_changed
        self._block, self._fields = (block, fields) if is_kept else (None, [])
        self._head = None
        return fields

    def head(self, block: bytes) -> RequestHead:
        """The head of the request that a block begins; raises :class:`MalformedHead`, too."""
        if self._head is not None and block == self._block:
            return self._head
        fields = self.fields(block)
        if self._decoder.is_cut:
            # Not kept: an exception that is raised again keeps what it was raised from.
            nbytes, count = self._limits.max_list_bytes, self._limits.max_fields
            rule = f"the request's metadata (its header fields) has more than {nbytes} bytes"
            return RequestHead(fields, HeadersTooLarge(f"{rule} or {count} fields"))
        head = RequestHead(fields)
        if fields is self._fields and not head.repeated:  # else values are joined
            self._head = head
        return head
