"""Streams of one connection: their windows, what is sent on them, and how they end."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Generic

from . import frames
from .frames import Code
from .limits import ConnectionFault, Event, SessionLimits
from .outbox import Outbox
from .stream import Credit, S

#: Down to this the connection's window holds no peer back: it is not opened sooner.
LOW_WINDOW = frames.FIRST_WINDOW // 2
#: Bytes that may be kept on all streams beside what targets miss.
MOST_UNREAD = 2 * frames.FIRST_WINDOW


class Streams(Generic[S]):
    """The streams of one connection, and all that is sent on it."""

    def __init__(self, limits: SessionLimits) -> None:
        self.outbox: Outbox[S] = Outbox()
        self.outbox.control += limits.opening()
        self.credit = Credit()
        #: Streams that are not over, or whose handlers are not.
        self.streams: dict[int, S] = {}
        #: The last stream that the peer has opened.
        self.last = 0
        #: The last stream that is served, as the peer was told; it never rises (section 6.8).
        self._served = frames.MAX_NUMBER
        #: What has happened; who uses it takes it away.
        self.events: list[tuple[Event, S]] = []
        #: Why the connection ends, if it must.
        self.fault: ConnectionFault | None = None
        #: Whether no further stream is served.
        self.is_draining = False
        #: Heads and messages of responses since the last idle frame.
        self._answers = 0
        #: Set while the peer's decoder waits for a size of the table (RFC 7541, section 4.2).
        self._table_size = b""
        #: Bytes that the peer may still send on streams that are over.
        self._late = 0
        #: The frame of DATA under way: its stream, and bytes of its content.
        self._data_of: S | None = None
        self._content_left = 0

    # The end of streams.

    def _close(self, stream: S) -> None:
        """Note that a stream is over, while its handler may not be."""
        if not stream.is_ended:
            self._late += stream.window
        stream.is_reset = True
        self._drop(stream)
        self.events.append((Event.RESET, stream))

    def _drop(self, stream: S) -> None:
        """Have a stream keep nothing, nor what is yet to come of its frame under way."""
        stream.drop()
        if self._data_of is stream:
            self._data_of = None

    def fail(self, fault: ConnectionFault) -> None:
        """End the connection."""
        self.fault = fault
        self._tell_end(fault.code, str(fault))
        self.close()

    def close(self) -> None:
        """End all streams: the connection is over."""
        for stream in self.streams.values():
            if not stream.is_reset:
                self._close(stream)

    # Windows: what the peer may send.

    def open_window(self, stream: S) -> None:
        """Let the peer send what a target misses, or what may come before anybody asks for it."""
        if not (stream.is_ended or stream.is_reset):
            wanted = stream.missing or frames.FIRST_WINDOW - len(stream.unread)
            more = min(wanted, frames.MAX_WINDOW) - stream.window
            if more > 0 and (stream.missing or more >= frames.FIRST_WINDOW // 2):
                self._widen(stream, more)
        self._balance()

    def _widen(self, stream: S, nbytes: int) -> None:
        stream.window += nbytes
        self.outbox.control += frames.window_update(stream.number, nbytes)

    def _balance(self) -> None:
        """Let the peer send on all streams what targets miss, and what has been used.

        After a target was dropped, more may have come that nobody asked for than may be kept. A
        window more is: a handler that waits for the end of a stream asks for a byte behind it. The
        rest of a frame under way has been taken off the window: it is not let come twice.
        """
        credit = self.credit
        while credit.unread > MOST_UNREAD + credit.expected:
            fullest = max(self.streams.values(), key=lambda stream: len(stream.unread))
            self.reset(fullest, Code.ENHANCE_YOUR_CALM)
        most = frames.FIRST_WINDOW + credit.expected - credit.unread - self._content_left
        more = min(most, frames.MAX_WINDOW) - credit.window
        if more >= frames.FIRST_WINDOW // 2 or (more > 0 and credit.expected > credit.window):
            credit.window += more
            self.outbox.control += frames.window_update(0, more)

    # Sending.

    def begin(self, stream: S, block: bytes, *, ends: bool = False) -> None:
        """Send the head of a response."""
        self._answers += 1
        if self._table_size:
            block, self._table_size = self._table_size + block, b""
        self.outbox.control += frames.headers(stream.number, block, ends=ends)
        if ends:
            self._finish(stream)

    def send(self, stream: S, parts: Sequence[bytes | memoryview], trailers: bytes | None) -> None:
        """Send parts of the response, and its end if there are trailers."""
        self._answers += 1
        self.outbox.queue(stream, parts, trailers)
        if trailers is not None and not stream.queued:
            if stream.is_ended:
                stream.is_finished = True
            else:
                self._finish(stream)

    def _finish(self, stream: S) -> None:
        """Note that the response is sent; a request that is not over is of no more use."""
        stream.is_finished = True
        if not stream.is_ended and not stream.is_reset:
            self.outbox.control += frames.rst_stream(stream.number, Code.NO_ERROR)
            self._late += stream.window
            stream.is_reset = True
            self._drop(stream)

    def emptied(self, stream: S) -> None:
        """Note that the outbox has given out all of a stream."""
        if stream.trailers is not None:
            stream.trailers = None
            self._finish(stream)

    def reset(self, stream: S, code: Code) -> None:
        """Reset a stream for the service's own reasons."""
        if not (stream.is_reset or stream.is_finished):
            self.outbox.control += frames.rst_stream(stream.number, code)
            self._close(stream)

    def release(self, stream: S) -> None:
        """Note that a stream's handler has ended; its place is free then."""
        if not stream.is_finished:
            self.reset(stream, Code.INTERNAL_ERROR)
        if stream.unread or stream.missing or stream.queued or self._data_of is stream:
            self._drop(stream)
        del self.streams[stream.number]
        if self.credit.window <= LOW_WINDOW or self.credit.unread > MOST_UNREAD:
            self._balance()

    def announce_end(self) -> None:
        """Ask the peer to open no more streams; those on their way are served."""
        self.outbox.control += frames.goaway(frames.MAX_NUMBER, Code.NO_ERROR)

    def refuse_streams(self) -> None:
        """Serve no streams but those that are open."""
        self.is_draining = True
        self._tell_end(Code.NO_ERROR)

    def _tell_end(self, code: Code, reason: str = "") -> None:
        self._served = min(self.last, self._served)
        self.outbox.control += frames.goaway(self._served, code, reason)
