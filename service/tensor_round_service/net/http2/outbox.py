"""What a connection has to send: frames of control first, then DATA of its streams by turns."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import Generic

from . import frames
from .frames import DEFAULT_WINDOW, END_STREAM, MIN_FRAME_BYTES, Kind
from .stream import S

Part = bytes | bytearray | memoryview

#: Bytes that a stream sends before the next one has its turn.
TURN_BYTES = 64 << 10
#: Up to this size a response is copied behind the frames of control, if its windows are open: then
#: one write takes the responses to all requests that one read has brought, and none of them waits.
#: A tensor of 64 KiB fits in.
COPIED_BYTES = 68 << 10


class Outbox(Generic[S]):
    """The frames of one connection that wait to be sent."""

    def __init__(self) -> None:
        #: Whole frames, which no window holds back.
        self.control = bytearray()
        #: What the peer takes of all streams together, and in one frame.
        self.window = DEFAULT_WINDOW
        self.max_frame = MIN_FRAME_BYTES
        #: Bytes of DATA that have been given out.
        self.sent = 0
        #: The streams that send, by turns.
        self.row: deque[S] = deque()

    def queue(self, stream: S, parts: Sequence[bytes | memoryview], trailers: bytes | None) -> None:
        """Have a stream send its parts and then its trailers, if any; empty ones just end it."""
        nbytes = sum(map(len, parts))
        limit = min(stream.send_window, self.window, COPIED_BYTES - len(self.control))
        if not stream.queued and (not nbytes or (nbytes <= limit and not self.row)):
            self._copy(stream, parts, nbytes, ends=trailers == b"")
            if trailers:
                self.control += frames.headers(stream.number, trailers, ends=True)
            return
        stream.parts += [memoryview(part) for part in parts if len(part)]
        stream.queued += nbytes
        stream.trailers = trailers
        self.give_turn(stream)

    def _copy(
        self, stream: S, parts: Sequence[bytes | memoryview], nbytes: int, *, ends: bool
    ) -> None:
        """Put DATA with all that a stream sends now behind the frames of control."""
        control, most, number = self.control, self.max_frame, stream.number
        stream.send_window -= nbytes
        self.window -= nbytes
        self.sent += nbytes
        stream.sent += nbytes
        if nbytes > most:
            content = memoryview(b"".join(parts))
            for begin in range(0, nbytes - most, most):
                control += frames.frame_head(Kind.DATA, 0, number, most)
                control += content[begin : begin + most]
            nbytes = nbytes % most or most
            parts = [content[-nbytes:]]
        if nbytes or ends:
            high, low = nbytes >> 8, nbytes & 0xFF
            control += frames.HEAD.pack(high, low, Kind.DATA, END_STREAM if ends else 0, number)
        for part in parts:
            control += part

    def give_turn(self, stream: S) -> None:
        """Put a stream into the row, if it has anything to send and its window is open."""
        if stream.queued and stream.send_window > 0 and not stream.has_turn:
            stream.has_turn = True
            self.row.append(stream)

    def take(self, limit: int) -> tuple[list[Part], list[S]]:
        """Frames with up to ``limit`` bytes of DATA, and the streams that have no more in here."""
        taken: list[Part] = []
        if self.control:
            taken.append(self.control)
            self.control = bytearray()
        emptied: list[S] = []
        while limit > 0 and self.window > 0 and self.row:
            stream = self.row.popleft()
            stream.has_turn = False
            share = min(limit, TURN_BYTES) if self.row else limit
            count = min(stream.queued, stream.send_window, self.window, share)
            if count <= 0:  # its window opens again, or it was reset
                continue
            taken += self._frames(stream, count)
            limit -= count
            if stream.queued:
                self.give_turn(stream)
                continue
            emptied.append(stream)
            if stream.trailers:
                taken.append(frames.headers(stream.number, stream.trailers, ends=True))
        return taken, emptied

    def _frames(self, stream: S, nbytes: int) -> list[Part]:
        """DATA with the next bytes of a stream."""
        stream.send_window -= nbytes
        stream.queued -= nbytes
        stream.sent += nbytes
        self.window -= nbytes
        self.sent += nbytes
        size, parts = self.max_frame, stream.parts
        head = frames.frame_head(Kind.DATA, 0, stream.number, size)
        made: list[Part] = []
        while nbytes:
            first = parts[0]
            whole = (min(len(first), nbytes) - 1) // size * size
            for begin in range(0, whole, size):
                made += head, first[begin : begin + size]
            parts[0] = first[whole:]
            nbytes -= whole
            left = min(nbytes, size)
            if nbytes <= size:
                flags = END_STREAM if stream.trailers == b"" and not stream.queued else 0
                head = frames.frame_head(Kind.DATA, flags, stream.number, left)
            made.append(head)
            nbytes -= left
            while left:
                part = parts[0]
                if len(part) > left:
                    parts[0], part = part[left:], part[:left]
                else:
                    del parts[0]
                made.append(part)
                left -= len(part)
        return made
